package bridge_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/policy"
	"aqueduct/store"
	"aqueduct/store/storetest"
)

// held is an Agent whose upstream waits for answers and says what a test has it say. It
// outlives the bridge, as a proxy's agent does.
type held struct {
	says   chan []bridge.Output
	called chan calledWith
	told   chan approval.Delivery
	kept   chan string
	alone  bool                                                  // it is not taken up again until it is answered
	deaf   bool                                                  // it takes no answers while it is read, as an HTTP agent
	resume func(ctx context.Context) error                       // nil: it can
	answer func(context.Context, *held, approval.Delivery) error // nil: it hears
}

// calledWith is one call of the Agent.
type calledWith struct {
	bridge.Call
	resumed bool
	answers []approval.Delivery
}

func newHeld() *held {
	return &held{
		says: make(chan []bridge.Output, 64), called: make(chan calledWith, 64),
		told: make(chan approval.Delivery, 64), kept: make(chan string, 1024),
	}
}

func (a *held) Start(_ context.Context, call bridge.Call) (bridge.Turn, error) {
	a.called <- calledWith{Call: call}
	return a.turn(), nil
}

func (a *held) turn() bridge.Turn {
	if a.deaf {
		return struct{ bridge.Turn }{heldTurn{a}}
	}
	return heldTurn{a}
}

func (a *held) Resume(ctx context.Context, call bridge.Call, answers []approval.Delivery) (bridge.Turn, error) {
	if a.alone && answers == nil {
		return nil, bridge.ErrCannotResume
	}
	a.called <- calledWith{Call: call, resumed: true, answers: answers}
	if a.resume != nil {
		if err := a.resume(ctx); err != nil {
			return nil, err
		}
	}
	return a.turn(), nil
}

type heldTurn struct{ a *held }

func (t heldTurn) Next(ctx context.Context) ([]bridge.Output, error) {
	select {
	case out := <-t.a.says:
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (t heldTurn) Answer(ctx context.Context, answer approval.Delivery) error {
	if t.a.answer != nil {
		return t.a.answer(ctx, t.a, answer)
	}
	t.a.told <- answer
	return nil
}

func (t heldTurn) Cancel(context.Context) error { return nil }
func (t heldTurn) Release()                     {}
func (t heldTurn) Acked(mark string)            { t.a.kept <- mark }

// emit has the upstream say one batch, and marks its last Output.
func (a *held) emit(mark string, out ...bridge.Output) {
	out[len(out)-1].Cursor = mark
	a.says <- out
}

// text is a message whole.
func text(s string) []bridge.Output { return textOutputs("m-"+s, s) }

// newHeldHarness is a harness with a held Agent.
func newHeldHarness(t *testing.T, a *held, limits bridge.Limits, p *policy.Policy) *harness {
	t.Helper()
	h := &harness{limits: limits, t: t, path: storetest.SQLite(t), held: a, policy: p, who: store.LocalPrincipal()}
	h.start()
	t.Cleanup(func() { h.stop() })
	return h
}

// soon is how quickly a Run that asked is parked in tests that wait for it: not before a
// machine under load has come to what the upstream says next.
func soon() bridge.Limits {
	return bridge.Limits{Quiet: 20 * time.Millisecond, QuietPaused: 20 * time.Millisecond}
}

// never is for tests of a Run that asked and is still open.
func never() bridge.Limits {
	return bridge.Limits{Quiet: time.Hour, QuietMost: time.Hour, QuietPaused: time.Hour}
}

// post sends a request and waits for nothing.
func (h *harness) post(req bridge.ChatRequest) (*stream, bridge.Reply) {
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
	return &stream{feed: feed}, reply
}

// until waits until the upstream has heard that it is kept up to the mark, and gives all it
// heard.
func (h *harness) until(mark string) []string {
	h.t.Helper()
	var all []string
	for {
		select {
		case m := <-h.held.kept:
			if all = append(all, m); m == mark {
				return all
			}
		case <-time.After(20 * time.Second):
			h.t.Fatalf("never heard that %s is kept, only %v", mark, all)
		}
	}
}

func receive[T any](h *harness, from chan T) T {
	h.t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		h.t.Fatal("nothing came")
		panic("unreachable")
	}
}

// log is all events of a thread.
func (h *harness) log(thread string) []string {
	h.t.Helper()
	rows, err := h.store.Events(h.t.Context(), store.System(), h.session(thread).ID, 0, 1<<30)
	if err != nil {
		h.t.Fatal(err)
	}
	var events []string
	for _, r := range rows {
		events = append(events, strings.Split(string(r.Data), "\n")...)
	}
	return events
}

func (h *harness) lastMark(thread string) string {
	h.t.Helper()
	mark, err := h.store.LastCursor(h.t.Context(), store.System(), h.session(thread).ID)
	if err != nil {
		h.t.Fatal(err)
	}
	return mark
}

func (h *harness) approvals() []store.Approval {
	h.t.Helper()
	all, err := h.store.Approvals(h.t.Context(), store.System(), store.ApprovalFilter{}, store.Page{})
	if err != nil {
		h.t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

func yes(id string) approval.Answer {
	return approval.Answer{QuestionID: id, Payload: []byte(`{"optionId":"yes"}`)}
}

// ended waits for the end of all Turns of the thread and gives its log.
func (h *harness) ended(thread string) []string {
	h.t.Helper()
	h.idle(thread)
	return h.log(thread)
}

var _ bridge.Acknowledger = heldTurn{}
