package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/inbox"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// turnInput is what a Turn's Agent is called with beside the transcript; kept on the row.
type turnInput struct {
	Context     []agui.Context  `json:"context,omitempty"`
	Props       json.RawMessage `json:"forwarded_props,omitempty"`
	Traceparent string          `json:"traceparent,omitempty"`
	Queued      bool            `json:"queued,omitempty"`     // behind a Turn that was not over
	Unprompted  bool            `json:"unprompted,omitempty"` // the Agent spoke by itself
}

// turn drives one Turn: it reads the upstream and writes the Turn's Runs. Only the goroutine of its Session uses it.
//
// A Run is open (run is set), or none is. Without one, the Turn is paused by open Questions; as soon as the upstream
// says something, or the result of a Question is to be told, a further Run opens (further.go).
type turn struct {
	s     *session
	row   store.Turn
	input turnInput

	pump      *pump   // nil when nothing is being read
	ahead     *batch  // read, but it needs a Run and another one is due first
	run       *run    // the open Run
	profile   Profile // of the newest Run
	restarted bool    // an earlier process called the Agent
	carry     carry
	halves    agui.Halves           // of characters that the upstream's deltas cut in two
	calls     map[string]*shownCall // the tool calls that the log has, as far as this process knows

	mark   string // of the newest Output taken, not handed to the log yet
	marker Marker // learns when it is kept; nil when the upstream does not care

	trace     trace.Context    // see span
	invokedAt time.Time        // when the Agent was called whose call is open; zero when none is
	waits     []inbox.Question // of the Turn, as they were last read

	asks    asks
	called  bool      // the Turn has ToolCalls, as far as was looked
	owed    bool      // all was answered, and the upstream, which is still read, is to be called again with it
	asked   bool      // the open Run has yet to show a Question
	askedAt time.Time // when the first of these was asked
	quiet   *time.Timer
}

func newTurn(s *session, row store.Turn) *turn {
	t := &turn{s: s, row: row, quiet: time.NewTimer(time.Hour), invokedAt: calledSince(row)}
	t.quiet.Stop()
	if err := json.Unmarshal(row.Input, &t.input); err != nil && len(row.Input) > 0 {
		s.m.cfg.Logger.Error("turn input unreadable", slog.String("turn_id", row.ID), slog.Any("error", err))
	}
	return t
}

// held reports whether the Turn must stay in memory although no Run is open.
func (t *turn) held() bool {
	return !t.row.Status.Terminal() && (t.pump != nil || t.ahead != nil)
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
	defer t.recovered(&err)
	if err := t.openRun(ctx, row); err != nil {
		return err
	}
	switch {
	case t.row.Status == store.TurnQueued:
		err = t.start(ctx)
	case !t.row.Status.Terminal():
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

// recovered makes a panic the failure of this one Turn.
func (t *turn) recovered(err *error) {
	if p := recover(); p != nil {
		t.s.m.cfg.Logger.Error("panic in a turn", slog.String("turn_id", t.row.ID), slog.Any("panic", p))
		*err = fmt.Errorf("%w: panic: %v", store.ErrData, p)
	}
}

// follow carries what the upstream says into the log: into the open Run, or into a further one. It returns when no
// Run is open and the Session has something to look at, or when nothing is being read any more.
func (t *turn) follow(ctx context.Context) (err error) {
	defer t.recovered(&err)
	for t.run != nil || t.held() && !t.s.more {
		if b := t.ahead; b != nil { // before anything newer, whatever became of the Run that was due
			t.ahead = nil
			if err := t.take(ctx, *b); err != nil {
				return err
			}
			continue
		}
		select {
		case b := <-t.frames():
			err = t.take(ctx, b)
		case k := <-t.s.calls:
			err = t.keepCall(ctx, k)
		case <-t.quiet.C:
			err = t.endQuietRun(ctx)
		case <-t.s.bell:
			if t.run == nil { // what the bell rang for may be more than this Turn's
				t.s.more = true
				return nil
			}
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

func (t *turn) frames() <-chan batch {
	if t.pump == nil {
		return nil
	}
	return t.pump.frames
}

// take writes one batch of the upstream's. What needs a Run while another one is due first stays ahead.
func (t *turn) take(ctx context.Context, b batch) error {
	if t.run == nil && b.needsRun() {
		if ok, err := t.openFurtherRun(ctx); err != nil || !ok {
			t.ahead = &b
			return err
		}
	}
	t.marker = b.marker
	if t.pump != nil && len(b.outputs) > 0 {
		t.pump.spoke = true
	}
	for i, o := range b.outputs {
		if t.run == nil && o.needsRun() { // it ended within this batch
			if ok, err := t.openFurtherRun(ctx); err != nil || !ok {
				b.outputs = b.outputs[i:]
				t.ahead = &b
				return err
			}
		}
		if err := t.takeOne(ctx, o); err != nil || t.row.Status.Terminal() {
			return err
		}
	}
	switch {
	case b.err != nil:
		return t.lost(ctx, asFailure(b.err))
	case b.opened: // answers may have waited for it
		return t.takenUp(ctx)
	case t.run == nil:
		return t.putMark(ctx)
	case t.run.bytes > t.s.m.cfg.Limits.RunBytes:
		return t.fail(ctx, runTooLarge())
	}
	t.listenOn()
	return t.run.flush(ctx)
}

func runTooLarge() *Failure {
	return &Failure{Code: CodeRunTooLarge, Message: "The agent said more than one answer may hold."}
}

// needsRun reports whether a batch has something for the log. Of an upstream that only ended to wait it has not.
func (b batch) needsRun() bool {
	return b.err != nil || slices.ContainsFunc(b.outputs, Output.needsRun)
}

func (o Output) needsRun() bool { return o.Event != nil || o.Question != nil || o.Withdrawn != "" }

// listenOn puts the end of a Run with open Questions off while the upstream goes on.
func (t *turn) listenOn() {
	switch {
	case t.noWait() && t.row.Status.Paused():
		t.quiet.Reset(0)
	case t.asked:
		if time.Since(t.askedAt) < t.s.m.cfg.Limits.QuietMost {
			t.quiet.Reset(t.s.m.cfg.Limits.Quiet)
		}
	case t.row.Status.Paused(), t.owed:
		t.quiet.Reset(t.s.m.cfg.Limits.QuietPaused)
	}
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
		err = t.emit(ctx, o.Event)
	}
	return t.failOr(ctx, err)
}

// ended is the upstream's last word: the Turn is done, failed, or waits for answers.
func (t *turn) ended(ctx context.Context, end *End) error {
	if end.Failure != nil {
		return t.lost(ctx, end.Failure)
	}
	t.release()
	all, err := t.questions(ctx)
	if err != nil {
		return err
	}
	awaited, unknown := awaitedBy(end, all)
	if unknown {
		return t.fail(ctx, &Failure{Code: CodeUpstreamProtocol, Message: "The agent waits for an answer to a question it never asked."})
	}
	if len(awaited) == 0 { // whatever it asked, it waits for nothing
		command, err := t.pendingFailure(ctx)
		if err != nil {
			return err
		}
		if command != nil {
			return t.cancel(ctx, *command)
		}
		return t.done(ctx, end, all)
	}
	if t.run != nil {
		t.run.usage = end.Usage
	}
	moves, err := t.cancelQuestions(ctx, all, awaited, inbox.WithdrawnByAgent(), false)
	if err != nil {
		return err
	}
	ended := t.invokeEnded(t.lastSeq(), trace.InvokeWaiting, "", time.Now())
	if err := t.keep(ctx, ended, append(moves, store.TurnMove{ID: t.row.ID, From: []store.TurnStatus{t.row.Status}, Upstream: store.UpstreamWaits})...); err != nil {
		return err
	}
	t.row.Upstream = store.UpstreamWaits
	if t.run == nil {
		return t.catchUp(ctx)
	}
	return t.endQuietRun(ctx)
}

// pendingFailure is the command of a ToolCall whose failure ends the Turn, when the Agent was quicker to end than we to
// read it.
func (t *turn) pendingFailure(ctx context.Context) (*store.Command, error) {
	if !t.called || t.run == nil {
		return nil, nil
	}
	commands, err := t.s.m.cfg.Store.PendingCommands(ctx, store.System(), t.s.id)
	for _, c := range commands {
		if c.TurnID == t.row.ID && c.Kind == store.CommandFail {
			return &c, err
		}
	}
	return nil, err
}

// done ends the Turn well. What is still open of its Questions has no asker any more.
func (t *turn) done(ctx context.Context, end *End, all []inbox.Question) error {
	var begun []store.Move
	if t.run == nil {
		var err error
		if begun, err = t.beginRunOfOurs(ctx); err != nil {
			return err
		}
	}
	t.run.usage = end.Usage
	moves, err := t.cancelQuestions(ctx, all, nil, inbox.WithdrawnByAgent(), true)
	if err != nil {
		return err
	}
	moves = slices.Concat(begun, moves, neverHeard(all, time.Now()))
	if t.row.Status.Paused() {
		moves = append(moves, store.TurnMove{ID: t.row.ID, From: []store.TurnStatus{t.row.Status}, To: store.TurnRunning})
		t.row.Status = store.TurnRunning
	}
	return t.run.end(ctx, ending{
		turn: store.TurnDone, result: end.Result, outcome: &agui.Outcome{Type: agui.OutcomeSuccess}, moves: moves,
	})
}

// lost ends a Turn whose upstream failed. An Agent that can be called again, and has not been told what was decided,
// is called again with it.
func (t *turn) lost(ctx context.Context, f *Failure) error {
	if t.restarted && f.Code == CodeAgentGone {
		f = &Failure{Code: CodeServerRestarted, Message: "The server was restarted while the agent was at work. Please try again.", Cause: f.Cause}
	}
	again, err := t.callAgain(ctx)
	if err != nil || again {
		return err
	}
	return t.fail(ctx, f)
}

// fail ends Run and Turn with one RUN_ERROR. Nobody waits for the answers to what is open of its Questions.
func (t *turn) fail(ctx context.Context, f *Failure, before ...store.Move) error {
	t.s.m.cfg.Logger.Warn("turn failed", slog.String("session_id", t.s.id), slog.String("turn_id", t.row.ID),
		slog.String("code", f.Code), slog.Any("error", f))
	all, err := t.questions(ctx)
	if err != nil {
		return err
	}
	if t.run == nil {
		var moves []store.Move
		if moves, err = t.beginRunOfOurs(ctx); err != nil {
			return err
		}
		before = append(before, moves...)
	}
	moves, err := t.cancelQuestions(ctx, all, nil, inbox.AskerGone(), true)
	if err != nil {
		return err
	}
	t.release() // not before: an Agent in :wait goes on when its call is settled
	moves = append(moves, neverHeard(all, time.Now())...)
	if ran := executed(all); ran != "" {
		told := *f
		told.Message, f = f.Message+" "+ran, &told
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
		return &Failure{Code: CodeAgentGone, Message: "The agent stopped before it had finished, and cannot go on where it was.", Cause: err}
	}
	return &Failure{Code: CodeInternal, Message: "The agent could not be reached because of an internal error.", Cause: err}
}
