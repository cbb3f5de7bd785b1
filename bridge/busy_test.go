package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
	"aqueduct/store/storetest"
)

// talker answers each prompt with "re <prompt>", and holds the answers to prompts that begin with "slow" until they are
// cancelled.
type talker struct {
	mu        sync.Mutex
	calls     []bridge.Call
	called    chan string // what each call asked
	cancelled chan string
	finish    chan struct{} // ends one that is held
}

func newTalker() *talker {
	return &talker{called: make(chan string, 256), cancelled: make(chan string, 64), finish: make(chan struct{}, 64)}
}

func (a *talker) Start(_ context.Context, call bridge.Call) (bridge.Turn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, call)
	a.called <- call.Input().Content.String()
	return &talk{a: a, asked: call.Input().Content.String(), id: fmt.Sprint("a", len(a.calls)), stop: make(chan struct{})}, nil
}

func (a *talker) Resume(context.Context, bridge.Call, []approval.Delivery) (bridge.Turn, error) {
	return nil, bridge.ErrCannotResume
}

// heard is what the Agent was given at its n-th call.
func (a *talker) heard(n int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n >= len(a.calls) {
		return "not called"
	}
	return said(a.calls[n].Messages)
}

func said(messages []agui.Message) string {
	var out []string
	for _, m := range messages {
		out = append(out, m.Content.String())
	}
	return strings.Join(out, " | ")
}

type talk struct {
	a         *talker
	asked, id string
	spoke     bool
	stop      chan struct{}
	once      sync.Once
}

func (t *talk) Next(ctx context.Context) ([]bridge.Output, error) {
	silent := strings.HasPrefix(t.asked, "silent")
	if !t.spoke && !silent {
		t.spoke = true
		return textOutputs(t.id, "re "+t.asked), nil
	}
	if silent || strings.HasPrefix(t.asked, "slow") {
		select {
		case <-t.a.finish:
		case <-t.stop:
			return nil, context.Canceled
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return []bridge.Output{done()}, nil
}

func (t *talk) Cancel(context.Context) error {
	t.once.Do(func() {
		t.a.cancelled <- t.asked
		close(t.stop)
	})
	return nil
}
func (t *talk) Release() {}

func newTalkHarness(t *testing.T, limits bridge.Limits, onBusy string) (*harness, *talker) {
	t.Helper()
	a := newTalker()
	h := &harness{limits: limits, t: t, path: storetest.SQLite(t), other: a, onBusy: onBusy, who: store.LocalPrincipal()}
	h.start()
	t.Cleanup(func() { h.stop() })
	return h, a
}

// history posts a whole history: "u1:text" is the user's message u1, any other word an assistant's id.
func history(thread string, messages ...string) bridge.ChatRequest {
	req := bridge.ChatRequest{ThreadID: thread}
	for _, m := range messages {
		if id, text, ok := strings.Cut(m, ":"); ok {
			req.Messages = append(req.Messages, user(id, text))
		} else {
			req.Messages = append(req.Messages, agui.Message{ID: m, Role: "assistant", Content: agui.Text("as it was")})
		}
	}
	return req
}

// snapshot is the history that a join shows.
func (h *harness) snapshot(thread string) string {
	h.t.Helper()
	for _, e := range h.chat(bridge.ChatRequest{ThreadID: thread, JoinOnly: true}) {
		if ev, err := agui.Decode([]byte(e)); err == nil {
			if s, ok := ev.(*agui.MessagesSnapshot); ok {
				return said(s.Messages)
			}
		}
	}
	h.t.Fatal("no snapshot")
	return ""
}

func equal(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// TestStopAndGoOn: a client closes its response and asks at once. The old Turn is cancelled, the new one follows it in the
// log, and its prompt comes behind what the old one said.
func TestStopAndGoOn(t *testing.T) {
	t.Parallel()
	h, a := newTalkHarness(t, bridge.Limits{BusyWait: time.Hour}, "")
	for i := range 20 {
		thread := fmt.Sprint("t", i)
		old := h.begin(history(thread, "u1:slow one"))
		closed := make(chan struct{})
		go func() { // as late as a server notices it
			old.feed.Close()
			close(closed)
		}()
		got := h.chat(history(thread, "u1:slow one", "a-of-client", "u2:two"))
		<-closed
		equal(t, types(got), "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED")
		equal(t, receive(h, a.cancelled), "slow one")
		equal(t, a.heard(2*i+1), "slow one | re slow one | two")
		equal(t, h.snapshot(thread), "slow one | re slow one | two | re two")
		log := h.log(thread)
		if s := types(log); strings.Count(s, "RUN_STARTED") != 2 || !strings.Contains(log[4], `"outcome":{"type":"cancelled"}`) {
			t.Fatalf("%v", log)
		}
	}
}

// TestStopAfterAToolResult: a client that stops has the result of a tool that is kept only when the Run ends. It sends it
// with its next message, and it answers nothing.
func TestStopAfterAToolResult(t *testing.T) {
	t.Parallel()
	h, _ := newTalkHarness(t, bridge.Limits{BusyWait: time.Hour}, "")
	h.begin(history("t1", "u1:slow one")).feed.Close()
	next := history("t1", "u1:slow one", "a-of-client")
	next.Messages = append(next.Messages, agui.Message{ID: "r", Role: agui.RoleTool, ToolCallID: "of-the-agent", Content: agui.Text("done")}, user("u2", "two"))
	equal(t, types(h.chat(next)), wholeAnswer)
}

// TestMessageWhileSomebodyTails: 409 stays the default; by setting the message waits for its turn, and its response tails
// its own Run.
func TestMessageWhileSomebodyTails(t *testing.T) {
	t.Parallel()
	h, a := newTalkHarness(t, bridge.Limits{BusyWait: time.Millisecond}, "")
	first := h.begin(history("t1", "u1:slow one"))
	h.refused(ask("t1", "refused"), bridge.RefusedRunInProgress)
	queue := history("t1", "u2:two")
	queue.OnBusy = bridge.OnBusyQueue
	second, _ := h.post(queue)
	queue = history("t1", "u3:three")
	queue.OnBusy = bridge.OnBusyQueue
	third, _ := h.post(queue)
	a.finish <- struct{}{}
	for _, s := range []*stream{first, second, third} {
		equal(t, types(s.rest(t)), "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED")
	}
	equal(t, a.heard(1), "slow one | re slow one | two")
	equal(t, a.heard(2), "slow one | re slow one | two | re two | three")
	equal(t, h.snapshot("t1"), "slow one | re slow one | two | re two | three | re three")

	h.begin(history("t2", "u1:slow one")) // its response stays
	for i := range 15 {
		queue := ask("t2", fmt.Sprint(i))
		queue.OnBusy = bridge.OnBusyQueue
		h.post(queue)
	}
	queue = ask("t2", "one too many")
	queue.OnBusy = bridge.OnBusyQueue
	h.refused(queue, bridge.RefusedRunInProgress)
}

// TestQueueIsASetting: what one request says goes before what the server is set to.
func TestQueueIsASetting(t *testing.T) {
	t.Parallel()
	h, a := newTalkHarness(t, bridge.Limits{BusyWait: time.Millisecond}, bridge.OnBusyQueue)
	h.begin(history("t1", "u1:slow one"))
	refuse := history("t1", "u2:two")
	refuse.OnBusy = bridge.OnBusyRefuse
	h.refused(refuse, bridge.RefusedRunInProgress)
	s, _ := h.post(history("t1", "u3:three"))
	a.finish <- struct{}{}
	s.rest(t)
	equal(t, a.heard(1), "slow one | re slow one | three")
}

// TestMessageDuringACancel: a Turn that is being cancelled is in nobody's way, although its response is still there.
func TestMessageDuringACancel(t *testing.T) {
	t.Parallel()
	h, a := newTalkHarness(t, bridge.Limits{BusyWait: time.Millisecond}, "")
	for i := range 10 {
		thread := fmt.Sprint("t", i)
		s := h.begin(history(thread, "u1:slow one"))
		session := h.session(thread)
		run, err := h.store.LastRun(t.Context(), store.System(), session.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.sessions.Cancels().Cancel(t.Context(), h.who, run.ID); err != nil {
			t.Fatal(err)
		}
		h.chat(history(thread, "u2:two"))
		s.rest(t)
		equal(t, receive(h, a.cancelled), "slow one")
		equal(t, h.snapshot(thread), "slow one | re slow one | two | re two")
	}
}

// TestQuestionIsNotEndedByAMessage: an open Question is answered first, whoever tails.
func TestQuestionIsNotEndedByAMessage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: permitScript})
	h.chat(history("t1", "u1:hi"))
	for _, req := range []bridge.ChatRequest{history("t1", "u1:hi", "u2:more"), history("t1", "u1:hi"), history("t1", "u1:changed")} {
		got := h.chat(req)
		if last := got[len(got)-1]; !strings.Contains(last, `"type":"interrupt"`) {
			t.Fatalf("%v", got)
		}
	}
	h.openQuestion()
}

// TestWatchersDoNotCount: a page that watches the thread, and a second one that does, leave the Turn to be stopped; a
// channel's Turn is its channel's to cancel.
func TestWatchersDoNotCount(t *testing.T) {
	t.Parallel()
	h, _ := newTalkHarness(t, bridge.Limits{BusyWait: time.Millisecond}, "")
	s := h.begin(history("t1", "u1:slow one"))
	watch, err := h.sessions.Feeds().Thread(t.Context(), store.As(h.who), h.session("t1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	run := s.reply.Run
	tail, err := h.sessions.Feeds().Run(t.Context(), store.As(h.who), run, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.feed.Close()
	h.refused(ask("t1", "no"), bridge.RefusedRunInProgress) // the tail of the Run counts
	tail.Close()
	h.chat(ask("t1", "two"))

	channel := history("t2", "u1:slow one")
	channel.Channel = true
	h.begin(channel).feed.Close()
	h.refused(ask("t2", "no"), bridge.RefusedRunInProgress)
}

// TestNoWriteWhileAResponseStays: who tails is written with the Run, and again only when the last leaves early.
func TestNoWriteWhileAResponseStays(t *testing.T) {
	t.Parallel()
	h, a := newTalkHarness(t, bridge.Limits{BusyWait: time.Hour}, "")
	s := h.begin(history("t1", "u1:slow one"))
	a.finish <- struct{}{}
	s.rest(t)
	s.feed.Close()
	tails := func(id string) string {
		run, err := h.store.Run(t.Context(), store.System(), id)
		if err != nil {
			t.Fatal(err)
		}
		return run.Tails
	}
	if got := tails(s.reply.Run.ID); got != h.replica+" " {
		t.Errorf("tails of a Run whose response stayed: %q", got)
	}
	s = h.begin(history("t1", "u2:slow two"))
	s.feed.Close()
	for tails(s.reply.Run.ID) != "" {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	back := h.begin(bridge.ChatRequest{ThreadID: "t1", JoinOnly: true})
	for tails(s.reply.Run.ID) != h.replica+" " {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := h.sessions.Chat(soon, bridge.ChatRequest{Principal: h.who, ThreadID: "t1", Messages: []agui.Message{user("u3", "x")}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a message does not wait for the tail that is there: %v", err)
	}
	back.feed.Close()
	h.chat(ask("t1", "three"))
}
