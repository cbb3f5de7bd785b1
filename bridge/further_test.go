package bridge_test

import (
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// parkedHarness has a Turn that asked, of an upstream that still waits, and the ids of its
// Questions.
func parkedHarness(t *testing.T, a *held, upstreamIDs ...string) (*harness, []string) {
	t.Helper()
	h := newHeldHarness(t, a, soon(), nil)
	var questions []bridge.Output
	for _, id := range upstreamIDs {
		questions = append(questions, permission(id))
	}
	a.emit("asked", questions...)
	h.chat(ask("t1", "hi"))
	receive(h, a.called)
	h.until("asked")
	var ids []string
	for _, q := range h.approvals() {
		ids = append(ids, q.ID)
	}
	if len(ids) != len(upstreamIDs) {
		t.Fatalf("%d questions", len(ids))
	}
	return h, ids
}

const (
	resulted = "RUN_STARTED TOOL_CALL_RESULT "
)

// What an Agent says while its Question is open is in the log when it is said, in a Run of its own that ends with the
// Question again.
func TestWhatIsSaidWhileAQuestionIsOpenIsLive(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, ids := parkedHarness(t, a, "q1")
	a.emit("2", text("meanwhile")...)
	a.emit("3", bridge.Output{})
	h.until("3")
	h.resting("t1")
	events := h.log("t1")
	if got := types(events[len(events)-5:]); got != "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" {
		t.Fatalf("got %s", got)
	}
	if last := events[len(events)-1]; !strings.Contains(last, `"type":"interrupt"`) || !strings.Contains(last, ids[0]) {
		t.Fatalf("ended with %s", last)
	}
	going, _ := h.post(answer("t1", yes(ids[0])))
	if told := receive(h, a.told); told.UpstreamID != "q1" {
		t.Fatalf("%+v", told)
	}
	a.emit("4", append(text("then"), done())...)
	if got := types(going.rest(t)); got != resulted+"TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" {
		t.Fatalf("got %s", got)
	}
}

// An Agent that takes answers by a call only, and has one to get, goes on with a further Question open: the Run ends with that
// Question as soon as the Agent says nothing for a moment, and the Agent is read on.
func TestAFurtherQuestionDoesNotEndItsAgent(t *testing.T) {
	t.Parallel()
	a := newHeld()
	a.deaf = true
	limits := soon()
	limits.QuietPaused = time.Hour
	h := newHeldHarness(t, a, limits, nil)
	a.emit("1", permission("q1"))
	h.chat(ask("t1", "hi"))
	receive(h, a.called)
	if _, err := h.sessions.Approvals().Decide(t.Context(), h.who, h.openQuestion(), yes(""), approval.ViaREST); err != nil {
		t.Fatal(err)
	}
	h.runs("t1", 2)
	a.emit("2", permission("q2"))
	h.logs("t1", "RUN_FINISHED", 2)
	a.emit("3", append(text("on"), bridge.Output{End: &bridge.End{Pending: []string{"q1", "q2"}}})...)
	h.runs("t1", 3)
	if log := strings.Join(h.log("t1"), "\n"); !strings.Contains(log, `"delta":"on"`) {
		t.Fatal(log)
	}
	h.post(answer("t1", yes(h.openQuestion())))
	if call := receive(h, a.called); len(call.answers) != 2 {
		t.Fatalf("%+v", call)
	}
}

// An answer goes to its asker when it is given, whatever else is open, and the chat shows it.
func TestAnAnswerIsDeliveredByItself(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, ids := parkedHarness(t, a, "q1", "q2")
	if _, err := h.sessions.Approvals().Decide(t.Context(), h.who, ids[1], yes(""), approval.ViaREST); err != nil {
		t.Fatal(err)
	}
	if told := receive(h, a.told); told.UpstreamID != "q2" {
		t.Fatalf("%+v", told)
	}
	h.resting("t1")
	events := h.log("t1")
	if got := types(events[len(events)-3:]); got != resulted+"RUN_FINISHED" || !strings.Contains(events[len(events)-1], ids[0]) {
		t.Fatalf("got %s: %s", got, events[len(events)-1])
	}
	h.post(answer("t1", yes(ids[0])))
	if told := receive(h, a.told); told.UpstreamID != "q1" {
		t.Fatalf("%+v", told)
	}
}

// Every order and every moment of two and of three answers: none is lost, each is told once, the Turn ends.
func TestAnswersAtEveryMoment(t *testing.T) {
	t.Parallel()
	for _, surfaces := range []string{"cr", "rc", "cc", "rr", "crr", "rcr", "rrc", "ccr", "rcc", "crc", "ccc", "rrr"} {
		for _, moment := range []string{"resting", "reserved", "running"} {
			t.Run(surfaces+" "+moment, func(t *testing.T) {
				t.Parallel()
				a := newHeld()
				h, ids := parkedHarness(t, a, []string{"q0", "q1", "q2"}[:len(surfaces)]...)
				var last *stream
				for i, surface := range surfaces {
					switch {
					case i == 0:
					case moment == "resting":
						h.resting("t1")
					case moment == "running": // the answers after the first go into the Run that it opened, or join it
						h.runs("t1", 2)
					}
					if surface == 'c' {
						last, _ = h.post(answer("t1", yes(ids[i])))
					} else if _, err := h.sessions.Approvals().Decide(t.Context(), h.who, ids[i], yes(""), approval.ViaREST); err != nil {
						t.Fatal(err)
					}
				}
				told := map[string]int{}
				for range surfaces {
					told[receive(h, a.told).UpstreamID]++
				}
				a.emit("2", append(text("thanks"), done())...)
				log := strings.Join(h.ended("t1"), "\n")
				for i := range surfaces {
					if told["q"+string(rune('0'+i))] != 1 || strings.Count(log, `"toolCallId":"`+ids[i]+`","content"`) != 1 {
						t.Errorf("question %d: told %d times, in the log:\n%s", i, told["q"+string(rune('0'+i))], log)
					}
				}
				if last != nil {
					last.rest(t)
				}
				if len(a.told) > 0 {
					t.Error("told more than once")
				}
			})
		}
	}
}

// An Agent that is gone when the server is there again is found out before anybody decides for it.
func TestTheQuestionsOfAnAgentThatIsGoneAreCancelled(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, _ := parkedHarness(t, a, "q1", "q2")
	a.alone = true
	h.restart()
	events := h.ended("t1")
	if last := events[len(events)-1]; !strings.Contains(last, bridge.CodeServerRestarted) {
		t.Fatalf("ended with %s", last)
	}
	for _, q := range h.approvals() {
		if q.Status != store.ApprovalCancelled || q.DecidedVia != approval.ViaGone {
			t.Errorf("%+v", q)
		}
	}
	if len(a.told)+len(a.called) > 0 {
		t.Error("an agent that is gone was told something")
	}
}

// One that was to be told a decision, and can be called again, is called with it. What is open is cancelled: the call
// says so.
func TestAnAgentThatIsGoneIsChildWithWhatWasDecided(t *testing.T) {
	t.Parallel()
	a := &scripted{block: make(chan struct{})}
	a.script = func(_ bridge.Call, answers []approval.Delivery) []bridge.Output {
		if answers == nil { // it asks twice, and its answer breaks off
			return []bridge.Output{permission("q1"), permission("q2"), {}}
		}
		a.block = nil
		return append(textOutputs("m", "again"), done())
	}
	h := newHarness(t, a)
	h.chat(ask("t1", "hi"))
	first := h.approvals()[0]
	if _, err := h.sessions.Approvals().Decide(t.Context(), h.who, first.ID, yes(""), approval.ViaREST); err != nil {
		t.Fatal(err)
	}
	close(a.block)
	events := h.ended("t1")
	if got := types(events); !strings.HasSuffix(got, "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED") {
		t.Fatalf("got %s", got)
	}
	heard := a.heard()
	if len(heard) != 2 || len(heard[1]) != 2 || heard[1][0].Status != "resolved" || heard[1][1].Status != "cancelled" {
		t.Fatalf("%+v", heard)
	}
}

// A tool message that answers before its Question was shown belongs to the Run that is open: channels find their place
// by the Runs of messages.
func TestAToolMessageBeforeTheQuestionIsShownHasItsRun(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, never(), nil)
	h.post(ask("t1", "hi"))
	a.emit("1", permission("q1"))
	h.until("1")
	h.post(bridge.ChatRequest{ThreadID: "t1", Messages: []agui.Message{
		{ID: "tool-1", Role: "tool", ToolCallID: h.approvals()[0].ID, Content: agui.Text(`{"approved":true}`)},
	}})
	receive(h, a.told)
	rows, err := h.store.Messages(t.Context(), store.System(), h.session("t1").ID, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.RunID == "" {
			t.Errorf("%s belongs to no run", row.Data)
		}
	}
	if len(rows) != 2 {
		t.Errorf("%d messages", len(rows))
	}
}

// The last word of an Agent ends its Turn at once, whatever it had asked.
func TestAFailureWhileAQuestionIsOpenEndsTheTurn(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, ids := parkedHarness(t, a, "q1")
	a.emit("2", append(text("sorry"), bridge.Output{End: &bridge.End{Failure: fault.New("agent_died", "It died.")}})...)
	events := h.ended("t1")
	if last := events[len(events)-1]; !strings.Contains(last, "agent_died") {
		t.Fatalf("ended with %s", last)
	}
	if q := h.approvals()[0]; q.Status != store.ApprovalCancelled || q.DecidedVia != approval.ViaGone {
		t.Fatalf("%+v", q)
	}
	if _, err := h.sessions.Approvals().Decide(t.Context(), h.who, ids[0], yes(""), approval.ViaREST); err == nil {
		t.Fatal("a person could still approve it")
	}
}

func TestARepeatedQuestionIsAskedOnce(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, ids := parkedHarness(t, a, "q1")
	a.emit("2", permission("q1"))
	h.until("2")
	a.alone = true
	h.restart()
	a.emit("3", permission("q1")) // settled by now, and perhaps not heard
	a.emit("4", done())
	h.chat(answer("t1", yes(ids[0])))
	if n := len(h.approvals()); n != 1 {
		t.Fatalf("asked %d times", n)
	}
	again := receive(h, a.told)
	if call := receive(h, a.called); len(call.answers) != 1 || string(call.answers[0].Payload) != string(again.Payload) || again.UpstreamID != "q1" {
		t.Fatalf("%+v, then %+v", call, again)
	}
}

// An Agent whose upstream repeats nothing may use an id again.
func TestAnIDMayBeUsedAgainByWhoRepeatsNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: permitTwice})
	h.chat(ask("t1", "hi"))
	h.chat(answer("t1", yes(h.openQuestion())))
	h.chat(answer("t1", yes(h.openQuestion())))
	if n := len(h.approvals()); n != 2 {
		t.Fatalf("asked %d times", n)
	}
}

// permitTwice asks under one id, and again under the same when that was answered.
func permitTwice(c bridge.Call, answers []approval.Delivery) []bridge.Output {
	results := 0
	for _, m := range c.Messages {
		if m.Role == "tool" {
			results++
		}
	}
	if answers == nil || results == 0 {
		return []bridge.Output{permission("q1"), {End: &bridge.End{Pending: []string{"q1"}}}}
	}
	return []bridge.Output{done()}
}

// What became of one of two Questions is in a Run that ends at once when the Agent has ended: nothing more can come.
func TestARunOfAnAgentThatHasEndedWaitsForNothing(t *testing.T) {
	t.Parallel()
	h := newHarnessWith(t, &scripted{script: func(bridge.Call, []approval.Delivery) []bridge.Output {
		return []bridge.Output{permission("q1"), permission("q2"), done()}
	}}, never())
	h.chat(ask("t1", "hi"))
	all := h.approvals()
	if _, err := h.sessions.Approvals().Decide(t.Context(), h.who, all[0].ID, yes(""), approval.ViaREST); err != nil {
		t.Fatal(err)
	}
	h.resting("t1")
	events := h.log("t1")
	if got := types(events[len(events)-3:]); got != resulted+"RUN_FINISHED" || !strings.Contains(events[len(events)-1], all[1].ID) {
		t.Errorf("got %s: %s", got, events[len(events)-1])
	}
}

// A permission that was approved while its Agent was about to end is on record as one that was never told.
func TestAnApprovalThatNobodyStayedToHear(t *testing.T) {
	t.Parallel()
	a := &scripted{block: make(chan struct{})}
	a.script = func(bridge.Call, []approval.Delivery) []bridge.Output {
		return []bridge.Output{permission("q1"), {End: &bridge.End{Pending: []string{}}}}
	}
	h := newHarness(t, a)
	h.chat(ask("t1", "hi"))
	id := h.openQuestion()
	if _, err := h.sessions.Approvals().Decide(t.Context(), h.who, id, yes(""), approval.ViaREST); err != nil {
		t.Fatal(err)
	}
	close(a.block)
	h.ended("t1")
	call, err := h.store.ToolCall(t.Context(), store.System(), id)
	if err != nil || call.Status != store.ToolFailed || call.ErrorCode != approval.CodeAskerGone {
		t.Fatalf("%s %q, %v", call.Status, call.ErrorCode, err)
	}
}
