package bridge

import (
	"context"
	"errors"
	"slices"

	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// A Question stops only the Agent that asked it. What the Agent says while Questions are open, and what becomes of
// them, goes into further Runs of the same Turn, at once: such a Run opens when there is something to log and none is
// open, and ends when nothing came for QuietPaused or the Agent has ended. Its client is the one of the Run before.

// openFurtherRun opens a Run of ours for what follows at once. It is false when another Run is due first: one that a
// client reserved by an answer.
func (t *turn) openFurtherRun(ctx context.Context) (bool, error) {
	moves, ok, err := t.furtherRun(ctx)
	if err != nil || !ok {
		return ok, err
	}
	e := t.marked(eventlog.Entry{Events: t.run.events, N: t.run.n, Moves: moves})
	err = t.s.log.Put(ctx, e)
	t.run.handed()
	return true, err
}

// furtherRun is openFurtherRun for who keeps the moves with what follows, in one commit.
func (t *turn) furtherRun(ctx context.Context) (moves []store.Move, ok bool, err error) {
	due, err := t.reserved(ctx)
	if err != nil {
		return nil, false, err
	}
	if due {
		t.s.more = true
		return nil, false, nil
	}
	moves, err = t.beginRunOfOurs(ctx)
	return moves, err == nil, err
}

// beginRunOfOurs opens a Run that nobody reserved, and gives the moves of its row.
func (t *turn) beginRunOfOurs(ctx context.Context) ([]store.Move, error) {
	last, err := t.lastRun(ctx)
	if err != nil {
		return nil, err
	}
	row := nextRun(last, "", nil)
	if err := t.openRun(ctx, row); err != nil {
		return nil, err
	}
	begun, err := t.run.started(nil)
	return []store.Move{store.InsertRun{Run: row}, begun}, err
}

// lastRun is the newest Run of the Turn that has begun, or is reserved when none has.
func (t *turn) lastRun(ctx context.Context) (last store.Run, err error) {
	err = patiently(ctx, func() error {
		runs, err := t.s.m.cfg.Store.RunsOfTurn(ctx, store.System(), t.row.ID)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return errors.New("bridge: a turn without runs")
		}
		begun := slices.DeleteFunc(slices.Clone(runs), func(r store.Run) bool { return r.FirstSeq == 0 })
		if last = runs[0]; len(begun) > 0 {
			last = begun[len(begun)-1]
		}
		return nil
	})
	return last, err
}

// reserved reports whether a client's answer has reserved a Run of this Turn.
func (t *turn) reserved(ctx context.Context) (is bool, err error) {
	err = patiently(ctx, func() error {
		runs, err := t.s.m.cfg.Store.ReservedRuns(ctx, store.System(), t.s.id)
		is = slices.ContainsFunc(runs, func(r store.Run) bool { return r.TurnID == t.row.ID })
		return err
	})
	return is, err
}

// requests looks, while a Run is open, for what others have written: a command, an answer, a Run that an answer
// reserved, a ToolCall that waits.
func (t *turn) requests(ctx context.Context) error {
	commands, err := t.s.m.cfg.Store.PendingCommands(ctx, store.System(), t.s.id)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(commands, func(c store.Command) bool { return c.TurnID == t.row.ID }); i >= 0 {
		return t.cancel(ctx, commands[i])
	}
	if t.row.Status.Paused() {
		due, err := t.reserved(ctx)
		if err != nil {
			return err
		}
		if due { // the answers belong into that Run, which its client tails
			return t.endForReserved(ctx)
		}
	}
	return t.catchUp(ctx)
}

// endForReserved ends the open Run without what was settled, so that the reserved one begins.
func (t *turn) endForReserved(ctx context.Context) error {
	t.s.more = true
	open, err := t.open(ctx)
	if err != nil {
		return err
	}
	return t.endWithQuestions(ctx, open, nil)
}

// endQuietRun ends the open Run of a Turn with open Questions. When all were settled meanwhile it goes on.
func (t *turn) endQuietRun(ctx context.Context) error {
	t.quiet.Stop()
	if t.owed && t.pump != nil { // it neither ends nor says anything: it waits to be called
		select {
		case b := <-t.pump.frames: // it did say something, as the time ran out
			err := t.take(ctx, b)
			if err == nil && t.run != nil {
				t.listenOn()
			}
			return err
		default:
			t.release()
		}
	}
	if err := t.catchUp(ctx); err != nil || t.run == nil || !t.row.Status.Paused() {
		return err
	}
	open, err := t.open(ctx)
	if err != nil {
		return err
	}
	if len(open) == 0 { // settled since: the next look passes it on
		return t.catchUp(ctx)
	}
	return t.endWithQuestions(ctx, open, nil)
}

// noWait is for a Turn with open Questions that nothing is read of: its Run ends at once.
func (t *turn) noWait() bool { return t.pump == nil && t.ahead == nil }

// pausedBy is the status of a Turn with these open Questions: RUNNING with none.
func pausedBy(open []inbox.Question) store.TurnStatus {
	status := store.TurnRunning
	for _, q := range open {
		if q.Call.Status == store.ToolWaitingApproval {
			return store.TurnPausedApproval
		}
		status = store.TurnPausedTool
	}
	return status
}
