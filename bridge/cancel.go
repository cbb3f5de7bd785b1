package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// cancelWait bounds how long an upstream may take to hear that it is cancelled.
const cancelWait = time.Second

// lastWordsWait is how long a cancelled upstream may go on about what it has begun.
const lastWordsWait = 250 * time.Millisecond

// Cancel asks for the end of the Turn a Run belongs to. It takes our run id or the
// client's. A Turn that is over stays as it is.
func (s *Sessions) Cancel(ctx context.Context, who store.Principal, runID string) (store.Run, error) {
	return s.CancelWithin(ctx, store.As(who), who, runID)
}

// CancelWithin is Cancel of a Run that the Scope sees, one of a thread that is shared for instance.
func (s *Sessions) CancelWithin(ctx context.Context, in store.Scope, who store.Principal, runID string) (store.Run, error) {
	run, err := s.cfg.Store.FindRun(ctx, in, runID)
	if err != nil {
		return store.Run{}, err
	}
	turn, err := s.cfg.Store.Turn(ctx, in, run.TurnID)
	if err != nil || turn.Status.Terminal() {
		return run, err
	}
	return run, s.requestCancel(ctx, turn, who.User)
}

func (s *Sessions) requestCancel(ctx context.Context, turn store.Turn, by string) error {
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		return tx.InsertCommand(ctx, store.Command{
			ID: newID(), SessionID: turn.SessionID, TurnID: turn.ID, Kind: store.CommandCancel, CreatedAt: time.Now(),
			Payload: mustJSON(commandPayload{By: by}),
		})
	})
	if err == nil {
		s.cfg.Bell.Ring(turn.SessionID)
	}
	return err
}

// Left is called when a tail with on_leave=cancel has gone. When nobody has tailed the
// Session for the length of the grace, the Turn is cancelled.
func (s *Sessions) Left(sessionID, turnID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil || s.running.Err() != nil || s.leaving[turnID] {
		return
	}
	s.leaving[turnID] = true
	running := s.running
	s.wg.Go(func() {
		s.leave(running, sessionID, turnID)
		s.mu.Lock()
		delete(s.leaving, turnID)
		s.mu.Unlock()
	})
}

// leaveLooks is how often within the grace it is looked whether somebody is there.
const leaveLooks = 5

// leave waits until everybody has been gone for the grace, or the Turn is over: another
// tab may stay for long, and a reload is back soon.
func (s *Sessions) leave(ctx context.Context, sessionID, turnID string) {
	for alone := 0; alone < leaveLooks; {
		sleep(ctx, s.cfg.Limits.LeaveGrace/leaveLooks)
		if ctx.Err() != nil {
			return
		}
		if alone++; s.cfg.Bell.Listeners(sessionID) > 0 {
			alone = -1 // who is there now may leave right after
		}
		turn, err := s.cfg.Store.Turn(ctx, store.System(), turnID)
		switch {
		case errors.Is(err, store.ErrNotFound), err == nil && turn.Status.Terminal():
			return
		case err == nil && alone == leaveLooks:
			err = s.requestCancel(ctx, turn, "")
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("turn not cancelled after its client left, trying again", "turn_id", turnID, "error", err)
			alone = 0
		}
	}
}

// obey carries out a command while no Run is open.
func (s *session) obey(ctx context.Context, c store.Command, reserved *store.Run) error {
	row, err := s.m.cfg.Store.Turn(ctx, store.System(), c.TurnID)
	if err != nil {
		return err
	}
	if row.Status.Terminal() {
		_, err := s.log.Keep(ctx, entryOf(store.CommandDone{ID: c.ID, At: time.Now()}))
		return err
	}
	if s.turn == nil || s.turn.row.ID != row.ID {
		s.release()
		s.turn = newTurn(s, row)
	}
	return s.finish(ctx, s.turn.cancelParked(ctx, c, reserved))
}

// cancelParked ends a queued or parked Turn: in the Run that is reserved for it, or in one
// of ours, because its open tool calls must get their results.
func (t *turn) cancelParked(ctx context.Context, c store.Command, reserved *store.Run) error {
	var insert []store.Move
	var row store.Run
	if reserved != nil && reserved.TurnID == t.row.ID {
		row = *reserved
	} else {
		runs, err := t.s.m.cfg.Store.RunsOfTurn(ctx, store.System(), t.row.ID)
		if err != nil {
			return err
		}
		if row = runs[len(runs)-1]; row.Status != store.RunReserved {
			row = nextRun(row, "", nil)
			insert = append(insert, store.InsertRun{Run: row})
		}
	}
	if t.row.Status == store.TurnQueued {
		if err := t.placeInputs(ctx); err != nil {
			return err
		}
	}
	if err := t.openRun(ctx, row); err != nil {
		return err
	}
	begun, err := t.run.started(nil)
	if err != nil {
		return err
	}
	return t.cancel(ctx, c, append(insert, begun)...)
}

// commandPayload is what a Command says beside its kind.
type commandPayload struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	By      string `json:"by,omitempty"` // who cancelled; "" when no person did
}

func payloadOf(c store.Command) commandPayload {
	p := commandPayload{Code: CodeInternal, Message: "The turn was ended."}
	_ = json.Unmarshal(c.Payload, &p) // of our own writing
	return p
}

// stopUpstream tells the upstream to stop and gives it a moment for its last words: it knows best what
// becomes of what it has begun. What it asks now, nobody is asked.
func (t *turn) stopUpstream(ctx context.Context) error {
	if t.pump == nil {
		return nil
	}
	patience, stop := context.WithTimeout(ctx, cancelWait)
	t.pump.cancelUpstream(patience)
	stop()
	patience, stop = context.WithTimeout(ctx, lastWordsWait)
	defer stop()
	for {
		var b batch
		if t.ahead != nil {
			b, t.ahead = *t.ahead, nil
		} else {
			select {
			case b = <-t.pump.frames:
			case <-patience.Done():
				return ctx.Err()
			}
		}
		if t.lastWords(ctx, b) {
			return nil
		}
	}
}

// lastWords puts what a cancelled upstream says into the Run, and tells whether that was all.
func (t *turn) lastWords(ctx context.Context, b batch) bool {
	t.marker = b.marker
	for _, o := range b.outputs {
		t.reached(o)
		if o.Event != nil && t.emit(ctx, o.Event) != nil {
			return true // the Run ends here, in order or not
		}
	}
	return b.err != nil || ended(b.outputs)
}

// cancel stops the upstream and ends the open Run and the Turn, as the Command says. What was decided before goes to
// the Agent first: it learns of a cancel only for what was open.
func (t *turn) cancel(ctx context.Context, c store.Command, before ...store.Move) error {
	p := payloadOf(c)
	done := store.CommandDone{ID: c.ID, At: time.Now()}
	if c.Kind == store.CommandFail {
		return t.fail(ctx, &Failure{Code: p.Code, Message: p.Message}, append(before, done)...)
	}
	if t.pump != nil && t.row.Status.Paused() {
		if err := t.catchUp(ctx, before...); err != nil {
			return err
		}
		before = nil
	}
	switch {
	case t.row.Status.Terminal():
		return t.keep(ctx, nil, done)
	case t.run == nil: // it ended for one that an answer reserved: the Command is carried out in that
		t.s.more = true
		return nil
	}
	if err := t.stopUpstream(ctx); err != nil {
		return err
	}
	all, err := t.questions(ctx)
	if err != nil {
		return err
	}
	moves, err := t.cancelQuestions(ctx, all, nil, inbox.CancelledBy(p.By), true)
	if err != nil {
		return err
	}
	t.release() // not before: an Agent in :wait goes on when its call is settled
	moves = append(slices.Concat(before, moves, neverHeard(all, time.Now())), done)
	if c.Kind == store.CommandFinish && t.row.Status == store.TurnRunning {
		return t.run.end(ctx, ending{turn: store.TurnDone, outcome: &agui.Outcome{Type: agui.OutcomeSuccess}, moves: moves})
	}
	return t.run.end(ctx, ending{
		turn: store.TurnCancelled, outcome: &agui.Outcome{Type: agui.OutcomeCancelled}, moves: moves,
	})
}
