package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Each test here is a row of the table "body, after merging known messages by id".

func TestRowKnownRunSameBodyTailsItAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: helloScript})
	req := ask("t1", "hi")
	req.RunID, req.BodyHash = "r1", []byte("same")
	first, again := h.chat(req), h.chat(req)
	if strings.Join(first, "\n") != strings.Join(again, "\n") {
		t.Fatalf("first %v\nagain %v", first, again)
	}
	if n := len(h.agent.heard()); n != 1 {
		t.Fatalf("the agent was called %d times", n)
	}
}

func TestRowKnownRunOtherBodyIsRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: helloScript})
	req := ask("t1", "hi")
	req.RunID = "r1"
	h.chat(req)
	other := ask("t1", "something else")
	other.RunID = "r1"
	h.refused(other, bridge.RefusedRunIDConflict)
}

func TestRowNewMessageWhileRunningIsRefused(t *testing.T) {
	t.Parallel()
	a := &scripted{script: helloScript, block: make(chan struct{})}
	h := newHarness(t, a)
	started := h.begin(ask("t1", "hi"))
	h.refused(ask("t1", "more"), bridge.RefusedRunInProgress)
	close(a.block)
	started.rest(t)
}

func TestRowNewMessageWhileAskedJoins(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: permitScript})
	h.chat(ask("t1", "hi"))
	joined := h.chat(ask("t1", "hello?"))
	if got, want := types(joined), "RUN_STARTED MESSAGES_SNAPSHOT STATE_SNAPSHOT CUSTOM RUN_FINISHED"; got != want {
		t.Fatalf("got %s", got)
	}
	if id := h.openQuestion(); !strings.Contains(joined[4], id) {
		t.Fatalf("the join does not list the open question: %s", joined[4])
	}
	if strings.Contains(joined[1], "hello?") {
		t.Fatal("the message was stored")
	}
}

func TestRowOnlyAThreadJoinsTheRunUnderWay(t *testing.T) {
	t.Parallel()
	a := &scripted{script: helloScript, block: make(chan struct{})}
	h := newHarness(t, a)
	started := h.begin(ask("t1", "hi"))
	second := h.begin(bridge.ChatRequest{ThreadID: "t1"})
	close(a.block)
	first, joined := started.rest(t), second.rest(t)
	if got, want := types(joined), "RUN_STARTED MESSAGES_SNAPSHOT TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"; got != want {
		t.Fatalf("got %s", got)
	}
	if strings.Join(first[1:], "") != strings.Join(joined[2:], "") {
		t.Fatal("the joined stream differs from the first")
	}
}

func TestRowUnknownThreadAloneIsRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: helloScript})
	h.refused(bridge.ChatRequest{ThreadID: "nobody"}, bridge.RefusedNothingToDo)
	h.refused(bridge.ChatRequest{}, bridge.RefusedNothingToDo)
}

func TestRowAnswerAndMessageContinueThenStartTheNextTurn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: func(c bridge.Call, answers []approval.Delivery) []bridge.Output {
		if c.Input().Content.String() == "next" && answers == nil {
			return helloScript(c, nil)
		}
		return permitScript(c, answers)
	}})
	h.chat(ask("t1", "hi"))
	req := answer("t1", approval.Answer{QuestionID: h.openQuestion(), Payload: json.RawMessage(`{"approved":true}`)})
	req.Messages = []agui.Message{user("u2", "next")}
	got := types(h.chat(req))
	want := "RUN_STARTED TOOL_CALL_RESULT TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED " +
		"RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"
	if got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// The Turn that asks again does not get what the user wrote for the one after it.
func TestAMessageBesideAnAnswerWaitsUntilAllIsAnswered(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: func(c bridge.Call, answers []approval.Delivery) []bridge.Output {
		heard := textOutputs("m-"+newTestID(), c.Input().Content.String())
		if answers == nil && c.Input().Content.String() == "hi" {
			return append(heard, permission("q1"), bridge.Output{End: &bridge.End{Pending: []string{"q1"}}})
		}
		if answers != nil && answers[0].UpstreamID == "q1" {
			return append(heard, permission("q2"), bridge.Output{End: &bridge.End{Pending: []string{"q2"}}})
		}
		return append(heard, done())
	}})
	yes := json.RawMessage(`{"approved":true}`)
	h.chat(ask("t1", "hi"))
	first := answer("t1", approval.Answer{QuestionID: h.openQuestion(), Payload: yes})
	first.Messages = []agui.Message{user("u2", "next")}
	h.chat(first)
	h.chat(answer("t1", approval.Answer{QuestionID: h.openQuestion(), Payload: yes}))
	h.idle("t1")
	h.agent.mu.Lock()
	defer h.agent.mu.Unlock()
	var heard []string
	for _, c := range h.agent.calls {
		heard = append(heard, c.Input().Content.String())
	}
	if got := strings.Join(heard, " "); got != "hi hi hi next" {
		t.Fatalf("the agent was called with %q", got)
	}
}

func TestRowAnswerToSettledQuestionJoinsAndHearsWhoDecided(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: permitScript})
	h.chat(ask("t1", "hi"))
	id := h.openQuestion()
	settled, err := h.sessions.Approvals().Decide(t.Context(), h.who, id, approval.Answer{Payload: json.RawMessage(`{"optionId":"no"}`)}, approval.ViaREST)
	if err != nil || !settled.Won {
		t.Fatalf("%+v, %v", settled, err)
	}
	h.idle("t1")
	joined := strings.Join(h.chat(answer("t1", approval.Answer{QuestionID: id, Payload: json.RawMessage(`{"optionId":"yes"}`)})), "\n")
	for _, want := range []string{`"question_settled"`, `"decidedBy":"local"`, `"optionId":"no"`, `"outcome":{"type":"success"}`, "told:"} {
		if !strings.Contains(joined, want) {
			t.Errorf("no %s in\n%s", want, joined)
		}
	}
	if n := len(h.agent.heard()); n != 2 {
		t.Fatalf("the agent was called %d times", n)
	}
}

func TestRowUnclearAnswerLeavesTheQuestionOpenAndSaysSo(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: permitScript})
	h.chat(ask("t1", "hi"))
	id := h.openQuestion()
	for _, payload := range []string{`"yes!"`, `{}`, `{"optionId":"allow_always"}`, `{"approved":true,"optionId":"no"}`, `[1]`} {
		joined := strings.Join(h.chat(answer("t1", approval.Answer{QuestionID: id, Payload: json.RawMessage(payload)})), "\n")
		if !strings.Contains(joined, `"question_open"`) || !strings.Contains(joined, `"interrupt"`) {
			t.Errorf("%s: %s", payload, joined)
		}
	}
	h.openQuestion()
}

func TestRowLateAnswerAndMessageStartTheNextTurn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: permitScript})
	h.chat(ask("t1", "hi"))
	id := h.openQuestion()
	if _, err := h.sessions.Approvals().Decide(t.Context(), h.who, id, approval.Answer{Payload: json.RawMessage(`{"optionId":"no"}`)}, approval.ViaREST); err != nil {
		t.Fatal(err)
	}
	h.idle("t1")
	req := answer("t1", approval.Answer{QuestionID: id, Payload: json.RawMessage(`{"optionId":"yes"}`)})
	req.Messages = []agui.Message{user("u2", "and now?")}
	events := h.chat(req)
	if got := types(events); !strings.HasPrefix(got, "RUN_STARTED CUSTOM TEXT_MESSAGE_START") {
		t.Fatalf("%s", got)
	}
	if !strings.Contains(events[1], `"question_settled"`) || !strings.Contains(events[0], "and now?") {
		t.Fatalf("%v", events[:2])
	}
}

func TestADeletedThreadEndsItsTail(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: helloScript})
	h.chat(ask("t1", "hi"))
	feed, err := h.sessions.Feeds().Thread(t.Context(), store.As(h.who), h.session("t1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	if err := h.sessions.Threads().Delete(t.Context(), h.who, "t1"); err != nil {
		t.Fatal(err)
	}
	if _, err := drain(t.Context(), feed); err != nil {
		t.Fatal(err)
	}
}

func TestTwoQuestionsAnsweredOneAtATime(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: func(_ bridge.Call, answers []approval.Delivery) []bridge.Output {
		if answers == nil {
			return []bridge.Output{permission("q1"), permission("q2"), {End: &bridge.End{Pending: []string{"q1", "q2"}}}}
		}
		return append(textOutputs("m"+newTestID(), string(answers[0].Payload)+string(answers[1].Payload)), done())
	}})
	first := h.chat(ask("t1", "hi"))
	var finished struct {
		Outcome struct{ Interrupts []struct{ ID string } }
	}
	if err := json.Unmarshal([]byte(first[len(first)-1]), &finished); err != nil || len(finished.Outcome.Interrupts) != 2 {
		t.Fatalf("%s %v", first[len(first)-1], err)
	}
	q1, q2 := finished.Outcome.Interrupts[0].ID, finished.Outcome.Interrupts[1].ID
	partial := h.chat(answer("t1", approval.Answer{QuestionID: q1, Payload: json.RawMessage(`{"optionId":"yes"}`)}))
	if got := types(partial); got != "RUN_STARTED TOOL_CALL_RESULT RUN_FINISHED" || !strings.Contains(partial[2], q2) || strings.Contains(partial[2], q1) {
		t.Fatalf("%v", partial)
	}
	last := h.chat(answer("t1", approval.Answer{QuestionID: q2, Payload: json.RawMessage(`{"optionId":"no"}`)}))
	if got := types(last); got != "RUN_STARTED TOOL_CALL_RESULT TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" {
		t.Fatalf("%v", last)
	}
}

func TestCancelWhileRunning(t *testing.T) {
	t.Parallel()
	a := &scripted{script: helloScript, block: make(chan struct{})}
	h := newHarness(t, a)
	req := ask("t1", "hi")
	req.RunID = "r1"
	started := h.begin(req)
	if _, err := h.sessions.Cancels().Cancel(t.Context(), h.who, "r1"); err != nil {
		t.Fatal(err)
	}
	events := started.rest(t)
	if last := events[len(events)-1]; !strings.Contains(last, `"outcome":{"type":"cancelled"}`) {
		t.Fatalf("ended with %s", last)
	}
}

func TestCancelWhileAsked(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: permitScript})
	req := ask("t1", "hi")
	req.RunID = "r1"
	h.chat(req)
	id := h.openQuestion()
	if _, err := h.sessions.Cancels().Cancel(t.Context(), h.who, "r1"); err != nil {
		t.Fatal(err)
	}
	h.idle("t1")
	got, err := h.store.Approval(t.Context(), store.System(), id)
	if err != nil || got.Status != store.ApprovalCancelled {
		t.Fatalf("%+v %v", got, err)
	}
	h.chat(ask("t1", "again")) // the thread lives
}

// TestExpiryGoesOn checks an expiry: the agent gets no option as an answer, and the reject option in addition.
func TestExpiryGoesOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: func(c bridge.Call, answers []approval.Delivery) []bridge.Output {
		out := permitScript(c, answers)
		for i := range out {
			if out[i].Question != nil {
				out[i].Question.ExpiresIn = 50 * time.Millisecond
			}
		}
		return out
	}})
	h.chat(ask("t1", "hi"))
	h.idle("t1")
	heard := h.agent.heard()
	if len(heard) != 2 || heard[1][0].Payload != nil || heard[1][0].Reason != "expired" || !strings.Contains(string(heard[1][0].Reject), `"optionId":"no"`) {
		t.Fatalf("%+v", heard)
	}
}

func TestARestartEndsWhatCannotResumeAndKeepsQuestions(t *testing.T) {
	t.Parallel()
	a := &scripted{script: func(c bridge.Call, answers []approval.Delivery) []bridge.Output {
		if c.Input().Content.String() == "ask" {
			return permitScript(c, answers)
		}
		return helloScript(c, answers)
	}}
	h := newHarness(t, a)
	h.chat(ask("asked", "ask"))
	a.block = make(chan struct{})
	h.begin(ask("running", "hi"))
	h.restart()
	h.idle("running")
	joined := strings.Join(h.chat(bridge.ChatRequest{ThreadID: "running"}), "\n")
	if !strings.Contains(joined, `"content":"Hello"`) {
		t.Errorf("what was said is gone: %s", joined)
	}
	run, err := h.store.LastRun(t.Context(), store.System(), h.session("running").ID)
	if err != nil || run.Status != store.RunFailed || run.ErrorCode != bridge.CodeServerRestarted {
		t.Fatalf("%+v %v", run, err)
	}
	close(a.block)
	got := types(h.chat(answer("asked", approval.Answer{QuestionID: h.openQuestion(), Payload: json.RawMessage(`"yes"`)})))
	if !strings.HasSuffix(got, "TEXT_MESSAGE_END RUN_FINISHED") {
		t.Fatalf("%s", got)
	}
}

func (h *harness) refused(req bridge.ChatRequest, code string) {
	h.t.Helper()
	_, err := h.tryChat(req)
	var refusal *fault.Error
	if !errors.As(err, &refusal) || refusal.Code != code {
		h.t.Fatalf("got %v, want %s", err, code)
	}
}

func (h *harness) session(thread string) store.Session {
	h.t.Helper()
	s, err := h.store.SessionByExternalID(h.t.Context(), store.As(h.who), thread)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// idle waits until nothing is under way on the thread, by its bell.
func (h *harness) idle(thread string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 20*time.Second)
	defer cancel()
	s := h.session(thread)
	feed, err := h.sessions.Feeds().Thread(ctx, store.As(h.who), s, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	defer feed.Close()
	for {
		if _, err := h.store.ActiveTurn(ctx, store.System(), s.ID); errors.Is(err, store.ErrNotFound) {
			return
		}
		if _, err := feed.Next(ctx); err != nil {
			h.t.Fatalf("%s is not idle: %v", thread, err)
		}
	}
}

// stream is a response that is being read.
type stream struct {
	feed   *bridge.Feed
	events []string
	reply  bridge.Reply
}

// begin posts and reads until the first text.
func (h *harness) begin(req bridge.ChatRequest) *stream {
	h.t.Helper()
	req.Principal, req.BodyHash = h.who, []byte(newTestID())
	if req.Dialect == "" {
		req.Dialect = bridge.DialectV1
	}
	reply, err := h.sessions.Chat(h.t.Context(), req)
	if err != nil {
		h.t.Fatal(err)
	}
	feed, err := h.sessions.Feeds().Chat(h.t.Context(), store.As(h.who), reply, false)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(feed.Close)
	s := &stream{feed: feed, reply: reply}
	for !strings.Contains(types(s.events), "TEXT_MESSAGE_CONTENT") {
		items, err := feed.Next(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		s.take(items)
	}
	return s
}

func (s *stream) take(items []bridge.Item) {
	for _, i := range items {
		s.events = append(s.events, string(i.Event))
	}
}

func (s *stream) rest(t *testing.T) []string {
	t.Helper()
	more, err := drain(t.Context(), s.feed)
	if err != nil {
		t.Fatal(err)
	}
	return append(s.events, more...)
}
