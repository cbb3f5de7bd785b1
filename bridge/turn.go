package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"aqueduct/agui"
	"aqueduct/store"
)

// turnInput is what a Turn's Agent is called with beside the transcript; kept on the row.
type turnInput struct {
	Context     []agui.Context  `json:"context,omitempty"`
	State       json.RawMessage `json:"state,omitempty"`
	Props       json.RawMessage `json:"forwarded_props,omitempty"`
	Traceparent string          `json:"traceparent,omitempty"`
	Unprompted  bool            `json:"unprompted,omitempty"` // the Agent spoke by itself
}

// turn drives one Turn: it reads its upstream and writes its Runs. Its Session's
// goroutine alone uses it.
type turn struct {
	s     *session
	row   store.Turn
	input turnInput

	pump      *pump    // nil when nothing is being read
	run       *run     // the open Run, nil while parked
	back      []Output // what came while parked, for the next Run
	backBytes int
	carry     carry
	parked    []store.Record // of what came while parked, not handed to the log yet

	mark   string // of the newest Output taken, not handed to the log yet
	marker Marker // hears when it is kept; nil when the upstream does not care

	asked   bool      // in the open Run, which is to end when quiet
	askedAt time.Time // when first
	quiet   *time.Timer
}

func newTurn(s *session, row store.Turn) *turn {
	t := &turn{s: s, row: row, quiet: time.NewTimer(time.Hour)}
	t.quiet.Stop()
	if err := json.Unmarshal(row.Input, &t.input); err != nil && len(row.Input) > 0 {
		s.m.cfg.Logger.Error("turn input unreadable", slog.String("turn_id", row.ID), slog.Any("error", err))
	}
	return t
}

// held reports whether the Turn must stay in memory although no Run is open.
func (t *turn) held() bool {
	return !t.row.Status.Terminal() && t.pump != nil
}

func (t *turn) release() {
	t.quiet.Stop()
	t.s.m.callers.remove(t.row.ID)
	if t.pump != nil {
		t.pump.stop()
		t.pump = nil
	}
}

// drive opens a reserved Run and goes on until it has its terminal event.
func (t *turn) drive(ctx context.Context, row store.Run) (err error) {
	defer func() {
		if p := recover(); p != nil {
			t.s.m.cfg.Logger.Error("panic in a turn", slog.String("turn_id", t.row.ID), slog.Any("panic", p))
			err = fmt.Errorf("%w: panic: %v", store.ErrData, p)
		}
	}()
	if err := t.openRun(ctx, row); err != nil {
		return err
	}
	switch {
	case t.row.Status == store.TurnQueued:
		err = t.start(ctx)
	case t.row.Status.Paused():
		err = t.proceed(ctx)
	default: // the Turn ended while this Run was reserved: an answer came too late
		var begun store.Move
		if begun, err = t.run.started(nil); err == nil {
			err = t.run.end(ctx, ending{moves: []store.Move{begun}})
		}
	}
	if err != nil {
		return err
	}
	return t.follow(ctx)
}

// follow carries what the upstream says into the open Run until it ends.
func (t *turn) follow(ctx context.Context) error {
	for t.run != nil {
		var err error
		if b, ok := t.ahead(); ok {
			if err = t.take(ctx, b); err != nil {
				return err
			}
			continue
		}
		select {
		case b := <-t.frames():
			err = t.take(ctx, b)
		case <-t.quiet.C:
			err = t.park(ctx)
		case <-t.s.bell:
			err = t.requests(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wait is follow for a parked Turn whose upstream is still there: what it says is kept,
// and opens the next Run. It returns when something is asked of the Session, or when the
// upstream is gone.
func (t *turn) wait(ctx context.Context) error {
	for t.pump != nil && !t.s.more {
		if b, ok := t.ahead(); ok {
			if err := t.keepBack(ctx, b); err != nil {
				return err
			}
			continue
		}
		select {
		case b := <-t.frames():
			if err := t.keepBack(ctx, b); err != nil {
				return err
			}
		case <-t.s.bell:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (t *turn) ahead() (batch, bool) {
	if t.pump == nil {
		return batch{}, false
	}
	return t.pump.next()
}

func (t *turn) frames() <-chan batch {
	if t.pump == nil {
		return nil
	}
	return t.pump.frames
}

// take writes one batch of the upstream's into the open Run.
func (t *turn) take(ctx context.Context, b batch) error {
	t.marker = b.marker
	for _, o := range b.outputs {
		if err := t.takeOne(ctx, o); err != nil || t.run == nil {
			return err
		}
	}
	if b.err != nil {
		return t.fail(ctx, asFailure(b.err))
	}
	if t.run.bytes > t.s.m.cfg.Limits.RunBytes {
		return t.fail(ctx, &Failure{Code: CodeRunTooLarge, Message: "The agent said more than one answer may hold."})
	}
	if t.asked && time.Since(t.askedAt) < t.s.m.cfg.Limits.QuietMost {
		t.quiet.Reset(t.s.m.cfg.Limits.Quiet)
	}
	return t.run.flush(ctx)
}

func (t *turn) takeOne(ctx context.Context, o Output) error {
	if o.Question != nil {
		return t.failOr(ctx, t.ask(ctx, o))
	}
	t.reached(o)
	var err error
	switch {
	case o.Withdrawn != "":
		err = t.unasked(ctx, o.Withdrawn)
	case o.End != nil:
		err = t.ended(ctx, o.End)
	case o.Event != nil:
		err = t.emit(o.Event)
	}
	return t.failOr(ctx, err)
}

// ended is the upstream's last word: the Turn is done, failed, or waits for answers.
func (t *turn) ended(ctx context.Context, end *End) error {
	t.release()
	if end.Failure != nil {
		return t.fail(ctx, end.Failure)
	}
	if err := t.waitsForNothing(ctx, end); err != nil {
		return err
	}
	open, err := t.open(ctx)
	if err != nil {
		return err
	}
	if end.Pending != nil {
		if err := t.withdrawAllBut(ctx, open, end.Pending); err != nil {
			return err
		}
	}
	if end.Pending != nil && len(end.Pending) == 0 { // whatever it asked, it waits for nothing
		if err := t.unpause(ctx); err != nil {
			return err
		}
		return t.done(ctx, end)
	}
	if len(open) > 0 {
		t.run.usage = end.Usage
		return t.park(ctx)
	}
	if len(end.Pending) > 0 && !t.asked {
		return t.fail(ctx, &Failure{Code: CodeUpstreamProtocol, Message: "The agent waits for an answer to a question it never asked."})
	}
	if t.asked { // all it asked has been settled before its Run ended
		return t.park(ctx)
	}
	return t.done(ctx, end)
}

// waitsForNothing says so for an upstream that did not say, when all that it could wait for
// are ToolCalls of ours: those it would have waited for before it ended.
func (t *turn) waitsForNothing(ctx context.Context, end *End) error {
	if end.Pending != nil || end.Failure != nil || !t.asked && !t.row.Status.Paused() {
		return nil
	}
	all, err := t.questions(ctx)
	if err != nil {
		return err
	}
	for _, q := range all {
		if !q.Proxied() && (q.Open() || q.Call.DeliveredAt.IsZero()) {
			return nil
		}
	}
	end.Pending = []string{}
	return nil
}

// unpause lets a Turn run on whose upstream waits for no answer any more.
func (t *turn) unpause(ctx context.Context) error {
	if !t.row.Status.Paused() {
		return nil
	}
	move := store.TurnMove{ID: t.row.ID, From: []store.TurnStatus{t.row.Status}, To: store.TurnRunning}
	t.row.Status, t.asked = store.TurnRunning, false
	t.quiet.Stop()
	return t.keep(ctx, nil, move)
}

func (t *turn) done(ctx context.Context, end *End) error {
	t.run.usage = end.Usage
	return t.run.end(ctx, ending{
		turn:    store.TurnDone,
		result:  end.Result,
		outcome: &agui.Outcome{Type: agui.OutcomeSuccess},
	})
}

// fail ends Run and Turn with one RUN_ERROR. Open Questions are of no use any more.
func (t *turn) fail(ctx context.Context, f *Failure, before ...store.Move) error {
	t.release()
	t.s.m.cfg.Logger.Warn("turn failed", slog.String("session_id", t.s.id), slog.String("turn_id", t.row.ID),
		slog.String("code", f.Code), slog.Any("error", f))
	moves, err := t.withdraw(ctx)
	if err != nil {
		return err
	}
	return t.run.end(ctx, ending{turn: store.TurnFailed, failure: f, moves: append(before, moves...)})
}

// failOr ends the Turn for a *Failure and passes on any other error.
func (t *turn) failOr(ctx context.Context, err error, before ...store.Move) error {
	if f, ok := err.(*Failure); ok {
		return t.fail(ctx, f, before...)
	}
	return err
}

func asFailure(err error) *Failure {
	if f, ok := err.(*Failure); ok {
		return f
	}
	if cannotResume(err) {
		return &Failure{Code: CodeServerRestarted, Message: "The server was restarted while the agent was answering. Please try again.", Cause: err}
	}
	return &Failure{Code: CodeInternal, Message: "The agent could not be reached because of an internal error.", Cause: err}
}

// record is one of the platform contract's events (§9.1) about this Turn.
func (t *turn) record(kind string, payload []byte) store.Record {
	if payload == nil {
		payload = []byte("{}")
	}
	return store.Record{
		ID: newID(), SessionID: t.s.id, TurnID: t.row.ID, Source: store.SourcePlatform, Type: kind,
		AtSeq: t.s.log.Last(), TS: time.Now(), Payload: payload,
	}
}
