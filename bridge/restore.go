package bridge

import (
	"context"
	"errors"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/store"
)

// maxArmed is how many open Questions are read at once to arm their deadlines.
const maxArmed = store.MaxPageLimit

// restore takes up what an earlier process of this replica left: deadlines run on from
// the span that remains, and every Session with work is driven. Work is also a Turn whose
// Agent an earlier process called: that one is held again, or found to be gone, before
// anybody decides for it.
func (s *Sessions) restore(ctx context.Context) error {
	if _, err := s.armSoonest(ctx); err != nil {
		return err
	}
	return s.rouseAll(ctx)
}

// armSoonest arms the open Questions that expire first. When there are more than are read
// at once, the poll comes back for the others as these are settled.
func (s *Sessions) armSoonest(ctx context.Context) ([]store.ToolCall, error) {
	waiting, err := s.cfg.Store.ExpiringToolCalls(ctx, store.System(), maxArmed)
	if err != nil {
		return nil, err
	}
	for _, call := range waiting {
		s.deadlines.Arm(call.ID, max(0, time.Until(call.ExpiresAt)))
	}
	s.unarmed = len(waiting) == maxArmed
	return waiting, nil
}

// restore brings a Run to its end that an earlier process left open: the Agent takes the Turn up again, or the Run ends
// in one RUN_ERROR. An Agent that had ended to wait is called when the answers are there.
func (s *session) restore(ctx context.Context) error {
	last, err := s.m.cfg.Store.LastRun(ctx, store.System(), s.id)
	if errors.Is(err, store.ErrNotFound) || err == nil && last.Status != store.RunRunning {
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.reopen(ctx, last); err != nil {
		return err
	}
	t := s.turn
	switch {
	case t.row.Status.Terminal(): // it ended past its Run, which only the log of an older version has
		err = t.run.end(ctx, ending{failure: asFailure(ErrCannotResume)})
	case t.row.Upstream == store.UpstreamWaits:
		err = t.endQuietRun(ctx)
	default:
		if err = t.reattach(ctx, last.ID); err == nil {
			t.listenOn()
		}
	}
	if err == nil {
		err = t.follow(ctx)
	}
	return s.finish(ctx, err)
}

// reopen rebuilds an open Run from its slice of the log.
func (s *session) reopen(ctx context.Context, row store.Run) error {
	turnRow, err := s.m.cfg.Store.Turn(ctx, store.System(), row.TurnID)
	if err != nil {
		return err
	}
	s.release()
	s.turn = newTurn(s, turnRow)
	s.turn.carry.strange = true
	first := row.FirstSeq
	if err := s.turn.openRun(ctx, row); err != nil {
		return err
	}
	s.turn.run.row.FirstSeq = first
	return s.turn.run.replay(ctx, first)
}

// replay folds what the log already has of the Run, without keeping it again.
func (r *run) replay(ctx context.Context, first int64) error {
	tail := r.t.s.m.cfg.Log.Tail(store.System(), r.t.s.id, first-1)
	defer tail.Close()
	for tail.Pos() < r.t.s.log.Last() {
		rows, err := tail.Ready(ctx)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return errors.New("bridge: the log is shorter than its end")
		}
		var bad error
		eventlog.Each(rows, func(_ int64, event []byte) bool {
			bad = r.replayOne(ctx, event)
			return bad == nil
		})
		if bad != nil {
			return bad
		}
	}
	return nil
}

func (r *run) replayOne(ctx context.Context, event []byte) error {
	ev, err := agui.Decode(event)
	if err == nil {
		err = r.recallActivity(ctx, ev)
	}
	if err != nil {
		return err
	}
	if err := r.grammar.Check(ev); err != nil {
		return err
	}
	switch e := ev.(type) {
	case *agui.StateSnapshot:
		r.stateShown = true
		_, err = r.trackSnapshot(e)
	case *agui.StateDelta:
		r.stateShown = true
		err = r.trackDelta(e)
	}
	r.spoke = true
	r.t.carry.meet(ev)
	r.fold.Apply(ev)
	r.note(ev)
	return err
}

// orphaned reports whether the Agent was called, and neither ended to wait nor is held here.
func (t *turn) orphaned() bool {
	return t.pump == nil && !t.row.Status.Terminal() && t.row.Status != store.TurnQueued && t.row.Upstream != store.UpstreamWaits
}

// reattach asks the Agent to go on with a Turn that this process does not hold, and reads it. An Agent that is gone is
// found out then: its Questions are cancelled before anybody decides for it.
func (t *turn) reattach(ctx context.Context, runID string) error {
	t.restarted, t.carry.strange = t.row.Upstream != t.s.m.cfg.Replica, true
	profile := t.profile
	full, err := t.callIn(ctx, runID, profile)
	if err != nil {
		return err
	}
	if t.pump = t.resume(ctx, full.Call, nil); t.pump == nil {
		return t.fail(ctx, agentUnknown())
	}
	return nil
}

// takenUp notes that this process holds an upstream that has opened again. Before that nobody knows whether the Agent
// is there: a call approved for it would run for nobody.
func (t *turn) takenUp(ctx context.Context) error {
	if t.row.Upstream != t.s.m.cfg.Replica {
		t.row.Upstream = t.s.m.cfg.Replica
		if err := t.keep(ctx, nil, store.TurnMove{ID: t.row.ID, Upstream: t.row.Upstream}); err != nil {
			return err
		}
		if t.s.m.cfg.Tools != nil {
			t.s.m.cfg.Tools.Look()
		}
	}
	return t.catchUp(ctx)
}

// endBroken ends the Run the log shows as open with an error.
func (s *session) endBroken(ctx context.Context, f *Failure) error {
	last, err := s.m.cfg.Store.LastRun(ctx, store.System(), s.id)
	if err != nil {
		return err
	}
	if last.Status != store.RunRunning {
		return s.failReserved(ctx, f)
	}
	if err := s.reopen(ctx, last); err != nil {
		return err
	}
	defer s.release()
	return s.turn.fail(ctx, f)
}

// failReserved ends a Run that could not even begin.
func (s *session) failReserved(ctx context.Context, f *Failure) error {
	todo, err := s.m.cfg.Store.Agenda(ctx, store.System(), s.id)
	if err != nil || todo.Run == nil || todo.Turn == nil {
		return err
	}
	s.turn = newTurn(s, *todo.Turn)
	defer s.release()
	if err := s.turn.openRun(ctx, *todo.Run); err != nil {
		return err
	}
	begun, err := s.turn.run.started(nil)
	if err != nil {
		return err
	}
	return s.turn.run.end(ctx, ending{turn: store.TurnFailed, failure: f, moves: []store.Move{begun}})
}
