package bridge_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// between is a store that runs a step of a test at a chosen point between a request and the owner of the Session.
type between struct {
	store.Store
	answered chan func() // run when an answer that reserved a Run is committed, and the bell has not rung yet
	looked   chan func() // run when the owner has looked for a reserved Run, before it acts on what it saw
}

func newBetween() *between {
	return &between{answered: make(chan func(), 1), looked: make(chan func(), 1)}
}

func (b *between) InTx(ctx context.Context, fn func(store.Tx) error) error {
	reserved := false
	err := b.Store.InTx(ctx, func(tx store.Tx) error { return fn(reserves{tx, &reserved}) })
	if err == nil && reserved {
		step(b.answered)
	}
	return err
}

func (b *between) ReservedRuns(ctx context.Context, in store.Scope, sessionID string) ([]store.Run, error) {
	runs, err := b.Store.ReservedRuns(ctx, in, sessionID)
	step(b.looked)
	return runs, err
}

// reserves notes that a transaction inserts a Run.
type reserves struct {
	store.Tx
	is *bool
}

func (r reserves) InsertRun(ctx context.Context, run store.Run) error {
	*r.is = true
	return r.Tx.InsertRun(ctx, run)
}

func step(steps chan func()) {
	select {
	case do := <-steps:
		do()
	default:
	}
}

// over is an Agent's end that waits for nothing, whatever is open.
func over() bridge.Output { return bridge.Output{End: &bridge.End{Pending: []string{}}} }

// betweenHarness has a Turn with two Questions and no open Run, of an upstream that still waits. A client of that dialect was
// shown both, or one if it can show no more.
func betweenHarness(t *testing.T, dialect string) (h *harness, a *held, b *between, ids []string) {
	t.Helper()
	a, b = newHeld(), newBetween()
	h = &harness{limits: soon(), t: t, path: filepath.Join(t.TempDir(), "a.db"), held: a, who: store.LocalPrincipal(), between: b}
	h.start()
	t.Cleanup(func() { h.stop() })
	a.emit("asked", permission("q1"), permission("q2"))
	hi := ask("t1", "hi")
	hi.Dialect = dialect
	h.post(hi)
	receive(h, a.called)
	h.until("asked")
	h.resting("t1")
	for _, q := range h.approvals() {
		ids = append(ids, q.ID)
	}
	return h, a, b, ids
}

// What an Agent says between an answer's commit and the Run that the answer reserved is read before the owner knows of
// that Run, and has to wait for it. That Run ends with the other Question; what waited comes next, before anything the
// Agent says later, and its last word counts.
func TestWhatIsReadAheadOfAnAnswersRunIsNext(t *testing.T) {
	t.Parallel()
	for name, early := range map[string][]bridge.Output{
		"words": text("one"),
		"end":   append(text("one"), over()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, a, b, ids := betweenHarness(t, bridge.DialectV1)
			b.answered <- func() {
				seen := make(chan struct{})
				b.looked <- func() { close(seen) }
				a.emit("early", early...)
				<-seen
			}
			reply, _ := h.post(answer("t1", yes(ids[0])))
			reply.rest(t)
			if name == "words" {
				h.until("early")
				a.emit("late", append(text("two"), over())...)
			}
			log := strings.Join(h.ended("t1"), "\n")
			one, two := strings.Index(log, `"delta":"one"`), strings.Index(log, `"delta":"two"`)
			if one < 0 || name == "words" && two < one {
				t.Errorf("one at %d, two at %d in\n%s", one, two, log)
			}
		})
	}
}

// racingRun has the owner open a further Run, for what the Agent says, while an answer reserves one: the owner looked
// before the answer was there. meanwhile is done before the owner goes on.
func racingRun(h *harness, a *held, b *between, req bridge.ChatRequest, meanwhile func(), says ...bridge.Output) *stream {
	h.t.Helper()
	looking, goOn := make(chan struct{}), make(chan struct{})
	b.looked <- func() {
		close(looking)
		<-goOn
	}
	a.emit("said", says...)
	<-looking
	response, _ := h.post(req)
	meanwhile()
	close(goOn)
	return response
}

// A cancel that comes when the open Run has to end for one that an answer reserved cancels the Turn all the same.
func TestACancelWhileARunIsDueIsNotLost(t *testing.T) {
	t.Parallel()
	h, a, b, ids := betweenHarness(t, bridge.DialectV1)
	racingRun(h, a, b, answer("t1", yes(ids[0])), func() {
		last, err := h.store.LastRun(t.Context(), store.System(), h.session("t1").ID)
		if err == nil {
			_, err = h.sessions.Cancels().Cancel(t.Context(), h.who, last.ID)
		}
		if err != nil {
			t.Error(err)
		}
	}, text("one")...)
	log := strings.Join(h.ended("t1"), "\n")
	all := h.approvals()
	if all[0].Status != store.ApprovalApproved || all[1].Status != store.ApprovalCancelled || all[1].DecidedVia != approval.ViaCancel {
		t.Errorf("%+v\n%s", all, log)
	}
	if told := receive(h, a.told); told.UpstreamID != "q1" || told.Status != "resolved" {
		t.Errorf("%+v", told)
	}
}

// The open Run ends for one that is due in the middle of what the Agent said at once: the rest is in the log as well.
func TestTheRestOfABatchFollowsTheRunThatIsDue(t *testing.T) {
	t.Parallel()
	h, a, b, ids := betweenHarness(t, bridge.DialectV1)
	racingRun(h, a, b, answer("t1", yes(ids[0])), func() {}, slices.Concat(text("one"), []bridge.Output{{Withdrawn: "q2"}}, text("two"), []bridge.Output{done()})...)
	log := strings.Join(h.ended("t1"), "\n")
	one, two := strings.Index(log, `"delta":"one"`), strings.Index(log, `"delta":"two"`)
	if one < 0 || two < one || strings.Contains(log, "RUN_ERROR") {
		t.Errorf("one at %d, two at %d in\n%s", one, two, log)
	}
}

// A TDesign page shows one card at a time. The next one is in the Run that its answer reserved, not in the one that the Agent's
// words began at the same moment, which no page reads.
func TestTheNextCardIsInTheRunOfTheAnswer(t *testing.T) {
	t.Parallel()
	h, a, b, ids := betweenHarness(t, bridge.DialectTDesign)
	page := func(questionID string) bridge.ChatRequest {
		req := answer("t1", yes(questionID))
		req.Dialect = bridge.DialectTDesign
		return req
	}
	between := racingRun(h, a, b, page(ids[0]), func() {}, text("meanwhile")...)
	if got := types(between.rest(t)); got != resulted+"TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END RUN_FINISHED" {
		t.Errorf("got %s\n%s", got, strings.Join(h.log("t1"), "\n"))
	}
	last, _ := h.post(page(ids[1]))
	a.emit("then", append(text("then"), done())...)
	if got := types(last.rest(t)); got != resulted+"TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" {
		t.Errorf("got %s", got)
	}
}
