package bridge_test

import (
	"github.com/google/uuid"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// helloScript says hello to anything.
func helloScript(bridge.Call, []approval.Delivery) []bridge.Output {
	return append(textOutputs("m1-"+newTestID(), "Hel", "lo"), done())
}

// permitScript asks once, and says what it was told.
func permitScript(_ bridge.Call, answers []approval.Delivery) []bridge.Output {
	if answers == nil {
		return append(textOutputs("m-"+newTestID(), "one moment"), permission("q1"), bridge.Output{End: &bridge.End{Pending: []string{"q1"}}})
	}
	return append(textOutputs("m-"+newTestID(), "told: "+string(answers[0].Payload)), done())
}

func TestAPromptIsAnswered(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: helloScript})
	got := types(h.chat(ask("t1", "hi")))
	want := "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"
	if got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestAQuestionStopsTheRunAndAnAnswerGoesOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: permitScript})
	first := h.chat(ask("t1", "hi"))
	want := "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END RUN_FINISHED"
	if got := types(first); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	id := h.openQuestion()
	second := h.chat(answer("t1", approval.Answer{QuestionID: id, Payload: []byte(`{"optionId":"yes"}`)}))
	want = "RUN_STARTED TOOL_CALL_RESULT TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"
	if got := types(second); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	heard := h.agent.heard()
	if len(heard) != 2 || string(heard[1][0].Payload) != `{"optionId":"yes","approved":true,"kind":"allow_once"}` {
		t.Fatalf("agent heard %v", heard)
	}
}

func (h *harness) openQuestion() string {
	h.t.Helper()
	open, err := h.store.Approvals(h.t.Context(), store.As(h.who), store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})
	if err != nil || len(open) != 1 {
		h.t.Fatalf("open questions: %v, %v", open, err)
	}
	return open[0].ID
}

func newTestID() string { return uuid.NewString() }

// The upstream may end before or after its Run has, before the answer or never: one that waits in silence is called
// again all the same.
func TestAnUpstreamThatEndsLateIsChildAgain(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"before the answer": false, "after the answer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &scripted{block: make(chan struct{})}
			a.script = func(c bridge.Call, answers []approval.Delivery) []bridge.Output {
				if answers != nil {
					a.block = nil // the second call is not held
				}
				return permitScript(c, answers)
			}
			block := a.block
			h := newHarness(t, a)
			h.chat(ask("t1", "hi"))
			if !late {
				close(block)
			}
			got := types(h.chat(answer("t1", approval.Answer{QuestionID: h.openQuestion(), Payload: []byte(`"yes"`)})))
			if want := "RUN_STARTED TOOL_CALL_RESULT TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"; got != want {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
			if n := len(h.agent.heard()); n != 2 {
				t.Fatalf("the agent was called %d times", n)
			}
		})
	}
}

func TestAnAnswerThatNeverEndsIsEnded(t *testing.T) {
	t.Parallel()
	a := &scripted{script: func(bridge.Call, []approval.Delivery) []bridge.Output {
		var out []bridge.Output
		for range 100 {
			out = append(out, textOutputs(newTestID(), strings.Repeat("x", 100))...)
		}
		return append(out, done())
	}}
	h := newHarnessWith(t, a, bridge.Limits{RunBytes: 4096})
	events := h.chat(ask("t1", "hi"))
	if last := events[len(events)-1]; !strings.Contains(last, bridge.CodeRunTooLarge) {
		t.Fatalf("ended with %s", last)
	}
	if n := len(strings.Join(events, "")); n > 2*4096 {
		t.Fatalf("%d bytes were kept", n)
	}
}

func TestAClientToolIsAnsweredByAToolMessage(t *testing.T) {
	t.Parallel()
	a := &scripted{script: func(_ bridge.Call, answers []approval.Delivery) []bridge.Output {
		if answers == nil {
			return []bridge.Output{
				{Question: &approval.Request{UpstreamID: "c1", Kind: approval.AskClientTool, ToolName: "pick", Args: []byte(`{"q":1}`)}},
				{End: &bridge.End{Pending: []string{"c1"}}},
			}
		}
		return append(textOutputs(newTestID(), string(answers[0].Payload)), done())
	}}
	h := newHarness(t, a)
	req := ask("t1", "hi")
	req.Tools = []agui.Tool{{Name: "pick"}}
	first := h.chat(req)
	last, err := agui.Decode([]byte(first[len(first)-1]))
	if err != nil {
		t.Fatal(err)
	}
	pending := last.(*agui.RunFinished).Outcome.PendingToolCallIDs
	if len(pending) != 1 || last.(*agui.RunFinished).Outcome.Type != agui.OutcomeSuccess {
		t.Fatalf("%s", first[len(first)-1])
	}
	second := h.chat(bridge.ChatRequest{ThreadID: "t1", Messages: []agui.Message{
		{ID: "tool-1", Role: "tool", ToolCallID: pending[0], Content: agui.Text("picked")},
	}})
	if got, want := types(second), "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"; got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	all := strings.Join(second, "\n")
	for _, want := range []string{`"id":"tool-1","role":"tool"`, `{\"content\":\"picked\"}`} {
		if !strings.Contains(all, want) { // who did not answer reads it in RUN_STARTED
			t.Errorf("no %s in\n%s", want, all)
		}
	}
	if n := strings.Count(strings.Join(h.chat(bridge.ChatRequest{ThreadID: "t1"}), ""), `"tool-1"`); n != 1 {
		t.Errorf("the tool message stands %d times in the history", n)
	}
}
