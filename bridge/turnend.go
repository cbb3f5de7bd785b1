package bridge

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// ended is the upstream's last word: the Turn is done, failed, or waits for answers.
//
// An Agent ends in one of two ways. It waits for nothing: then the Turn is done, whatever it asked before. Or it waits
// for answers to some of its Questions: then its call is over, the Turn is paused, and it is called again when the
// answers are there (deliverer). UpstreamWaits on the row tells the two apart after a restart.
func (t *turn) ended(ctx context.Context, end *End) error {
	if end.Failure != nil {
		return t.lost(ctx, end.Failure)
	}
	if end.Cancelled {
		return t.deliverer.endUnanswered(ctx)
	}
	t.deliverer.release()
	all, err := t.questions.all(ctx)
	if err != nil {
		return err
	}
	awaited, unknown := awaitedBy(end, all)
	if unknown {
		return fault.New(CodeUpstreamProtocol, "The agent waits for an answer to a question it never asked.")
	}
	if len(awaited) == 0 { // whatever it asked, it waits for nothing
		return t.done(ctx, end, all)
	}
	if t.writer.run != nil {
		t.writer.run.usage = end.Usage
	}
	if err := t.deliverer.cancel(ctx, all, awaited, approval.WithdrawnByAgent(), false); err != nil {
		return err
	}
	records := t.writer.trace.invokeEnded(t.writer.lastSeq(), trace.InvokeWaiting, "", time.Now())
	if err := t.writer.keep(ctx, records, store.TurnMove{ID: t.row.ID, From: []store.TurnStatus{t.row.Status}, Upstream: store.UpstreamWaits}); err != nil {
		return err
	}
	t.row.Upstream = store.UpstreamWaits
	if t.writer.run == nil {
		return t.deliverer.deliver(ctx)
	}
	return t.endQuietRun(ctx)
}

// done ends the Turn well. What is still open of its Questions has no asker any more.
//
// The Agent may end a moment before this goroutine reads that one of its calls has failed in a way that ends the Turn;
// the command for that is looked for, or the Turn would be reported as done.
func (t *turn) done(ctx context.Context, end *End, all []approval.Question) error {
	if t.writer.run != nil {
		command, err := t.questions.pendingFailure(ctx)
		if err != nil {
			return err
		}
		if command != nil {
			return t.obey(ctx, *command)
		}
	} else if err := t.writer.beginUnreserved(ctx); err != nil {
		return err
	}
	t.writer.run.usage = end.Usage
	if err := t.deliverer.cancel(ctx, all, nil, approval.WithdrawnByAgent(), true); err != nil {
		return err
	}
	moves := undeliveredEnds(all, time.Now())
	// The machine lets a Turn be DONE from RUNNING only.
	if t.row.Status.Paused() {
		moves = append(moves, store.TurnMove{ID: t.row.ID, From: []store.TurnStatus{t.row.Status}, To: store.TurnRunning})
		t.row.Status = store.TurnRunning
	}
	_, err := t.writer.end(ctx, ending{
		turn: store.TurnDone, result: end.Result, outcome: &agui.Outcome{Type: agui.OutcomeSuccess}, moves: moves,
	})
	return err
}

// lost ends a Turn whose upstream failed. An Agent that can be called again, and has not got what was decided, is called
// again with it.
// After a restart the missing Agent is the server's fault and not the Agent's, and the code is another.
func (t *turn) lost(ctx context.Context, f *fault.Error) error {
	if t.restarted && f.Code == CodeAgentGone {
		f = &fault.Error{Code: CodeServerRestarted, Message: "The server was restarted while the agent was at work. Please try again.", Cause: f.Cause}
	}
	again, err := t.deliverer.callAgain(ctx)
	if err != nil || again {
		return err
	}
	return f
}

// fail ends Run and Turn with one RUN_ERROR. The Agent waits no more for the answers to what is open of its Questions.
//
// Settling what is open may wake an Agent that waits in :wait, and it then goes on with a Turn that is about to fail.
// So the upstream is released only afterwards; what it still sends is not taken.
func (t *turn) fail(ctx context.Context, f *fault.Error, moves ...store.Move) error {
	t.cfg.Logger.Warn("turn failed", slog.String("session_id", t.log.id), slog.String("turn_id", t.row.ID),
		slog.String("code", f.Code), slog.Any("error", f))
	all, err := t.questions.all(ctx)
	if err != nil {
		return err
	}
	if t.writer.run == nil {
		if err := t.writer.beginUnreserved(ctx); err != nil {
			return err
		}
	}
	if _, err := t.children.read(ctx); err != nil { // their usage counts
		return err
	}
	gone := approval.AskerGone()
	if f.Code == CodeServerRestarted {
		gone = approval.AskerGoneByRestart()
	}
	if err := t.deliverer.cancel(ctx, all, nil, gone, true); err != nil {
		return err
	}
	t.deliverer.release() // not before: an Agent in :wait goes on when its call is settled
	if ran := executed(all); ran != "" {
		longer := *f
		longer.Message, f = f.Message+" "+ran, &longer
	}
	_, err = t.writer.end(ctx, ending{turn: store.TurnFailed, failure: f, moves: slices.Concat(moves, undeliveredEnds(all, time.Now()))})
	return err
}

// commandPayload is the content of a Command beside its kind.
type commandPayload struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	By      string `json:"by,omitempty"` // who cancelled; "" when no person did
}

// payloadOf reads what a Command has beside its kind; what it lacks is filled so that a RUN_ERROR has a code and a
// message.
func payloadOf(c store.Command) commandPayload {
	p := commandPayload{Code: CodeInternal, Message: "The turn was ended."}
	_ = json.Unmarshal(c.Payload, &p) // of our own writing
	return p
}

// obeyParked carries out a Command for a queued or parked Turn: in the Run that is reserved for it, or in one of ours,
// because its open tool calls must get their results.
// The Run is begun before the command is obeyed, because what ends must have begun: the tool calls that are open get
// their results in it, and a client that tails the Turn sees an end.
func (t *turn) obeyParked(ctx context.Context, c store.Command, reserved *store.Run) error {
	var row store.Run
	if reserved != nil && reserved.TurnID == t.row.ID {
		row = *reserved
	} else {
		runs, err := t.cfg.Store.RunsOfTurn(ctx, store.System(), t.row.ID)
		if err != nil {
			return err
		}
		if row = runs[len(runs)-1]; row.Status != store.RunReserved {
			row = nextRun(row, "", nil)
			t.writer.due = append(t.writer.due, store.InsertRun{Run: row})
		}
	}
	if t.row.Status == store.TurnQueued {
		if err := t.calling.placeInputs(ctx); err != nil {
			return err
		}
	}
	if err := t.writer.begin(row, nil); err != nil {
		return err
	}
	return t.failFor(ctx, t.obey(ctx, c))
}

// obey stops the upstream and ends the open Run and the Turn, as a Command has it. What was decided before goes to the
// Agent first: the cancel is for what is open.
//
// Cancel and finish let the upstream speak for a moment (upstream.cancel), because an ACP agent reports the state of
// its running tools only then. Fail does not: it is for Turns that cannot go on.
func (t *turn) obey(ctx context.Context, c store.Command) error {
	p := payloadOf(c)
	done := store.CommandDone{ID: c.ID, At: time.Now()}
	if err := t.children.cancel(ctx); err != nil { // not behind its own upstream's last words
		return err
	}
	if c.Kind == store.CommandFail {
		return t.fail(ctx, fault.New(p.Code, p.Message), done)
	}
	if t.upstream.reader != nil && t.row.Status.Paused() {
		if err := t.deliverer.deliver(ctx); err != nil {
			return err
		}
	}
	switch {
	case t.row.Status.Terminal():
		return t.writer.keep(ctx, nil, done)
	case t.writer.run == nil: // it ended for one that an answer reserved: the Command is carried out in that
		t.log.again = true
		return nil
	}
	// What the upstream asks now, no person is asked.
	if err := t.upstream.cancel(ctx, func(b batch) bool { return t.lastWords(ctx, b) }); err != nil {
		return err
	}
	all, err := t.questions.all(ctx)
	if err != nil {
		return err
	}
	if err := t.deliverer.cancel(ctx, all, nil, approval.CancelledBy(p.By), true); err != nil {
		return err
	}
	t.deliverer.release() // not before: an Agent in :wait goes on when its call is settled
	end := ending{
		turn: store.TurnCancelled, outcome: &agui.Outcome{Type: agui.OutcomeCancelled},
		moves: append(undeliveredEnds(all, time.Now()), done),
	}
	if c.Kind == store.CommandFinish && t.row.Status.Paused() && !slices.ContainsFunc(all, approval.Question.Open) {
		end.moves = append(statusMoves(&t.row, store.TurnRunning), end.moves...)
		t.row.Status = store.TurnRunning
	}
	if c.Kind == store.CommandFinish && t.row.Status == store.TurnRunning {
		end.turn, end.outcome = store.TurnDone, &agui.Outcome{Type: agui.OutcomeSuccess}
	}
	_, err = t.writer.end(ctx, end)
	return err
}

// lastWords puts the last events of a cancelled upstream into the Run, and reports whether that was all.
// Errors of the Agent's events are not looked at: the Run ends with the cancel whatever they are.
func (t *turn) lastWords(ctx context.Context, b batch) bool {
	for _, o := range b.outputs {
		t.upstream.advance(o)
		if o.Amended != nil && t.writer.amend(ctx, *o.Amended) != nil {
			return true
		}
		if o.Event != nil && t.writer.emitUpstream(ctx, o.Event) != nil {
			return true // the Run ends here, in order or not
		}
	}
	return b.err != nil || ended(b.outputs)
}
