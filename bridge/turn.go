package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// turnInput is what a Turn's Agent is called with beside the transcript; kept on the row.
// It is written with the Turn's row by the request, which may be another replica than the one that drives the Turn.
type turnInput struct {
	Context     []agui.Context  `json:"context,omitempty"`
	Props       json.RawMessage `json:"forwarded_props,omitempty"`
	Traceparent string          `json:"traceparent,omitempty"`
	Queued      bool            `json:"queued,omitempty"`      // behind a Turn that was not over
	Unprompted  bool            `json:"unprompted,omitempty"`  // the Agent spoke by itself
	Task        bool            `json:"task,omitempty"`        // its id is from before it was begun (TaskStart)
	ParentSpan  string          `json:"parent_span,omitempty"` // that the Turn's span is a child of
	Acts        bool            `json:"acts,omitempty"`        // no message began it
	Added       []addedMessage  `json:"added,omitempty"`       // the client's messages for this Turn only
}

// turn drives one Turn: it takes what its upstream sends, and what others wrote for it, and has its parts act. Only the
// goroutine of its Session uses it and them.
//
// A Run is open, or none is. Without one the Turn is paused by open Questions; as soon as the upstream sends something, or
// the result of a Question is to be shown, a further Run begins (runWriter).
//
// A *fault.Error of a part ends the Turn with RUN_ERROR; any other error stalls the Session, which begins anew from the
// rows.
//
// It is in memory only while its upstream is read, or between two Runs in which it is held: a Turn that waits for a
// person, with an Agent that has ended to wait, is rows and nothing else. Everything in here can be built again from
// them (newTurn, runWriter.replay, questions.all, the log's newest cursor), which is how a Turn survives a restart.
//
// Of its files, turn.go is the loop, turnstart.go how it begins or is taken up, turnend.go how it ends, executions.go
// what runners of tools hand to it.
type turn struct {
	cfg        *Config
	log        *sessionLog
	row        store.Turn
	input      turnInput
	bell       <-chan struct{}     // rings when there is something to read for the Session
	executions <-chan *toolKeeping // what runners of ToolCalls keep
	transcript *Transcript
	restarted  bool             // an earlier process called the Agent
	park       func(rests bool) // rests: no Run is open, and nothing is read

	upstream  upstream
	quiet     quietTimer
	writer    runWriter
	calling   calling
	questions questions
	deliverer deliverer
	asker     asker
	children  children
}

func newTurn(s *session, row store.Turn) *turn {
	m := s.m
	cfg, log := &m.cfg, &s.log
	t := &turn{cfg: cfg, log: log, row: row, bell: s.bell, executions: s.calls, transcript: m.transcript, quiet: newQuietTimer(cfg.Limits)}
	// The Agent of users' programs waits for them.
	t.park = func(rests bool) {
		m.draining.park(s, rests && t.row.Status.Paused() || ReservedAgent(row.AgentID) || isProgram(log.row))
	}
	if err := json.Unmarshal(row.Input, &t.input); err != nil && len(row.Input) > 0 {
		cfg.Logger.Error("turn input unreadable", slog.String("turn_id", row.ID), slog.Any("error", err))
	}
	t.upstream = upstream{
		store: cfg.Store, agents: cfg.Agents, agent: cfg.Agents.serving(log.row, row.AgentID), tenant: log.row.Tenant, agentID: row.AgentID,
		turnID: row.ID, task: t.input.Task, callers: &m.agents.callers, resumable: row.Resumable,
	}
	t.writer = runWriter{
		cfg: cfg, log: log, pasts: m.pasts, quota: m.quota, row: &t.row, upstream: &t.upstream, quiet: &t.quiet,
		runs:  turnRuns{store: cfg.Store, sessionID: log.id, turnID: row.ID},
		calls: shownCalls{turnID: row.ID}, trace: newTurnTrace(&t.row, row.Prompter(log.row), t.input),
	}
	t.writer.speech.masking.filter = cfg.Filter
	if row.AgentID != log.row.AgentID {
		t.writer.speech.author = row.AgentID
	}
	t.calling = calling{cfg: cfg, log: log, pasts: m.pasts, row: &t.row, input: t.input, trace: &t.writer.trace, first: s.transcript}
	// The first Turn of a thread gets the messages from the request that wrote them; a later one must read what the
	// log has made of them.
	s.transcript = nil
	t.questions = questions{cfg: cfg, approvals: m.approvals, quota: m.quota, log: log, row: &t.row, calls: &t.writer.calls, trace: &t.writer.trace}
	t.deliverer = deliverer{
		cfg: cfg, deadlines: m.approvals.Deadlines, log: log, row: &t.row, writer: &t.writer, upstream: &t.upstream, questions: &t.questions,
		calling: &t.calling, quiet: &t.quiet,
	}
	t.asker = asker{
		cfg: cfg, deadlines: m.approvals.Deadlines, log: log, row: &t.row, writer: &t.writer, upstream: &t.upstream, questions: &t.questions,
		deliverer: &t.deliverer, quiet: &t.quiet,
	}
	t.children = children{
		cfg: cfg, log: log, row: &t.row, writer: &t.writer, upstream: &t.upstream, questions: &t.questions, asker: &t.asker,
		unread: row.Status != store.TurnQueued,
	}
	t.writer.children, t.deliverer.children = &t.children, &t.children
	return t
}

// held reports whether the Turn must stay in memory although no Run is open.
// An Agent that is called once and sends its answer is held until its stream ends; one that has ended to wait is not.
func (t *turn) held() bool {
	return !t.row.Status.Terminal() && !t.upstream.idle()
}

// drive opens a reserved Run and goes on until it has its terminal event.
func (t *turn) drive(ctx context.Context, row store.Run) (err error) {
	defer t.recovered(&err)
	if err := t.writer.open(row, 0); err != nil {
		return err
	}
	switch {
	case t.row.Status == store.TurnQueued:
		err = t.start(ctx)
	case !t.row.Status.Terminal():
		err = t.continueTurn(ctx)
	default: // the Turn ended while this Run was reserved: an answer came too late
		if err = t.writer.start(nil); err == nil {
			_, err = t.writer.end(ctx, ending{})
		}
	}
	if err := t.failFor(ctx, err); err != nil {
		return err
	}
	return t.follow(ctx)
}

// recovered makes a panic the failure of this one Turn.
// A panic in translation must not end the other Sessions of this process. ErrData makes the Session's loop end the Run
// with RUN_ERROR (session.finish).
func (t *turn) recovered(err *error) {
	if p := recover(); p != nil {
		t.cfg.Logger.Error("panic in a turn", slog.String("turn_id", t.row.ID), slog.Any("panic", p))
		*err = fmt.Errorf("%w: panic: %v", store.ErrData, p)
	}
}

// follow carries what the upstream sends into the log: into the open Run, or into a further one. It returns when no Run is
// open and the Session has something to look at, or when nothing is being read any more.
//
// A ring is handled differently with and without an open Run. With one, only this Turn's rows matter, and they are
// looked at right here. Without one the ring may be for a Run that a client has reserved or a command, whose order the
// Session's loop decides, so it returns.
func (t *turn) follow(ctx context.Context) (err error) {
	defer t.recovered(&err)
	for t.writer.run != nil || t.held() && !t.log.again {
		if b := t.upstream.takeBuffered(); b != nil { // before anything newer, whatever became of the Run that was due
			if err := t.failFor(ctx, t.take(ctx, *b)); err != nil {
				return err
			}
			continue
		}
		t.park(t.writer.run == nil)
		select {
		case b := <-t.upstream.frames():
			t.park(false)
			err = t.take(ctx, b)
		// A runner waits for the answer, so it is given at once, also where the answer is no.
		case k := <-t.executions:
			t.park(false)
			err = t.keepExecution(ctx, k)
		case <-t.quiet.timer.C:
			t.park(false)
			err = t.endQuietRun(ctx)
		case <-t.bell:
			t.park(false)
			if t.writer.run == nil { // what the bell rang for may be more than this Turn's
				t.log.again = true
				return nil
			}
			err = t.requests(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := t.failFor(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// take writes one batch of the upstream's. What needs a Run while another one is due first is buffered.
//
// An Output may end the Run it stands in (a Question does), and the next of the same batch then needs another one. The
// rest of the batch is kept as if it had been read just then.
func (t *turn) take(ctx context.Context, b batch) error {
	if b.needsRun() {
		if ok, err := t.haveRun(ctx, b); err != nil || !ok {
			return err
		}
	}
	t.upstream.noteBatch(b)
	for i, o := range b.outputs {
		if o.needsRun() && t.writer.run == nil { // it ended within this batch
			rest := b
			rest.outputs = b.outputs[i:]
			if ok, err := t.haveRun(ctx, rest); err != nil || !ok {
				return err
			}
		}
		if err := t.failFor(ctx, t.takeOne(ctx, o)); err != nil || t.row.Status.Terminal() {
			return err
		}
	}
	switch {
	case errors.Is(b.err, ErrMoved): // commit the pending entries before the other replica writes
		return cmp.Or(t.writer.keep(ctx, nil), b.err)
	case b.err != nil:
		return t.lost(ctx, asFailure(b.err))
	case b.opened: // answers may have waited for it
		return t.opened(ctx)
	// Without a Run there is at most a cursor to keep: of output that meant nothing for the log.
	case t.writer.run == nil:
		return t.writer.flush(ctx)
	}
	if err := t.writer.tooMuch(ctx); err != nil {
		return err
	}
	t.quiet.putOff(t.upstream.idle(), t.row.Status.Paused())
	return t.writer.flush(ctx)
}

// haveRun begins a further Run if none is open. When another one is due first it buffers the batch, and is false.
//
// An Agent learns the result of a tool by :wait as soon as the row has it, and may speak before this goroutine has read
// that row, or been rung for it. So what was settled is passed on first: the chat shows the result before the words that
// follow from it.
func (t *turn) haveRun(ctx context.Context, b batch) (ok bool, err error) {
	if t.writer.run == nil && t.questions.any || t.writer.calls.anyRunning() {
		err = t.deliverer.deliver(ctx)
	}
	if t.writer.run != nil && err == nil {
		return true, nil
	}
	if err == nil {
		ok, err = t.writer.beginFurther(ctx)
	}
	if err != nil || !ok {
		t.upstream.buffered = &b
	}
	return ok, err
}

// needsRun reports whether a batch has something for the log. Of an upstream that only ended to wait it has not.
func (b batch) needsRun() bool {
	return b.err != nil && !errors.Is(b.err, ErrMoved) || slices.ContainsFunc(b.outputs, Output.needsRun)
}

func (o Output) needsRun() bool {
	return o.Event != nil || o.Amended != nil || o.Question != nil || o.Withdrawn != ""
}

func (t *turn) takeOne(ctx context.Context, o Output) error {
	// A Question moves the cursor by itself (asker.ask): the upstream has to go on repeating it until it is kept or
	// answered.
	if o.Question != nil {
		return t.asker.ask(ctx, o)
	}
	t.upstream.advance(o)
	switch {
	case o.Withdrawn != "":
		return t.asker.cancelQuestion(ctx, o.Withdrawn)
	case o.End != nil:
		if err := t.children.catchUp(ctx); err != nil {
			return err
		}
		return t.ended(ctx, o.End)
	case o.Amended != nil:
		return t.writer.amend(ctx, *o.Amended)
	case o.Event != nil:
		return t.writer.emitUpstream(ctx, o.Event)
	}
	return nil
}

// requests looks, while a Run is open, for what others have written: a command, an answer, a Run that an answer reserved,
// a ToolCall that waits.
//
// A Run that an answer has reserved comes first: results that went into the open Run instead would be shown to a
// client that tails the other.
func (t *turn) requests(ctx context.Context) error {
	commands, err := t.cfg.Store.PendingCommands(ctx, store.System(), t.log.id)
	if err != nil {
		return err
	}
	var looks []store.Command
	for _, c := range commands {
		switch {
		case c.Kind == store.CommandAppend:
			err := appender{t}.toRun(ctx, c)
			if err != nil || t.row.Status.Terminal() || t.writer.run == nil {
				t.log.again = true // what else there is to do is not for this Run
				return err
			}
		case c.TurnID != t.row.ID:
		case c.Kind.Ends():
			return t.obey(ctx, c)
		default:
			looks = append(looks, c)
		}
	}
	if len(looks) > 0 {
		if err := t.children.carryOut(ctx, looks); err != nil {
			return err
		}
	}
	if t.row.Status.Paused() {
		reserved, err := t.writer.runs.reserved(ctx)
		if err != nil {
			return err
		}
		if reserved { // the answers belong into that Run, which its client tails
			return t.deliverer.endForReserved(ctx)
		}
	}
	return t.deliverer.deliver(ctx)
}

// endQuietRun ends the open Run of a Turn with open Questions. When all were settled meanwhile it goes on.
//
// The timer and the upstream's next frame can be ready at the same time, and select then chooses at random. So the
// frames, and what the Agent may wait for, are looked at once more before an upstream is given up that merely seemed silent.
func (t *turn) endQuietRun(ctx context.Context) error {
	t.quiet.stop()
	if t.quiet.calls && t.upstream.reader != nil { // it neither ends nor sends anything: it waits to be called
		select {
		case b := <-t.upstream.reader.frames: // it did send something, as the time ran out
			err := t.take(ctx, b)
			if err == nil && t.writer.run != nil {
				t.quiet.putOff(t.upstream.idle(), t.row.Status.Paused())
			}
			return err
		default:
			if err := t.deliverer.deliver(ctx); err != nil || !t.quiet.calls {
				return err
			}
			t.deliverer.release()
		}
	}
	return t.deliverer.endPaused(ctx)
}

// failFor ends the Turn for a *fault.Error and passes on any other error.
func (t *turn) failFor(ctx context.Context, err error) error {
	if f, ok := err.(*fault.Error); ok { //nolint:errorlint // the fault itself; an error that wraps one is passed on
		return t.fail(ctx, f)
	}
	return err
}

// Errors of the network and the like stay in the log: the chat gets a code and a sentence.
func asFailure(err error) *fault.Error {
	if f, ok := err.(*fault.Error); ok { //nolint:errorlint // the fault itself; an error that wraps one is passed on
		return f
	}
	if cannotResume(err) {
		return &fault.Error{Code: CodeAgentGone, Message: "The agent stopped before it had finished, and cannot go on where it was.", Cause: err}
	}
	return &fault.Error{Code: CodeInternal, Message: "The agent could not be reached because of an internal error.", Cause: err}
}
