package bridge

import (
	"context"
	"errors"

	"aqueduct/store"
)

// tail is the Reply that gives a Run from its first event.
func (in *intake) tail(ctx context.Context, run store.Run) (Reply, error) {
	r := Reply{Session: in.session, Run: run, RunID: run.ExternalID, Dialect: in.req.Dialect, Notes: in.notes}
	var err error
	if r.CallNames, err = in.callNames(ctx, run); err != nil {
		return r, err
	}
	if run.FirstSeq > 0 {
		r.After = run.FirstSeq - 1
		return r, nil
	}
	if !in.exists {
		return r, nil
	}
	r.After, err = in.tx.LastSeq(ctx, store.System(), in.session.ID)
	if err != nil || run.ID == "" || run.ID == in.queued.ID {
		return r, err
	}
	// The owner may have begun the Run since its row was read. It then begins before the
	// end of the log, and who waits for it behind that waits for ever.
	if r.Run, err = in.tx.Run(ctx, store.System(), run.ID); err == nil && r.Run.FirstSeq > 0 {
		r.After = r.Run.FirstSeq - 1
	}
	return r, err
}

func (in *intake) callNames(ctx context.Context, run store.Run) (map[string]string, error) {
	if in.req.Dialect != DialectTDesign || run.ID == "" {
		return nil, nil
	}
	calls, err := questionsOf(ctx, in.tx, run.TurnID)
	names := make(map[string]string, len(calls))
	for _, q := range calls {
		names[q.Call.ID] = q.ShownName()
	}
	return names, err
}

// join is the Reply of somebody who comes to what is there: the Run under way, the one
// that is about to begin, or the thread at rest.
func (in *intake) join(ctx context.Context) (Reply, error) {
	run, err := in.currentRun(ctx)
	if err != nil {
		return Reply{}, err
	}
	r, err := in.tail(ctx, run)
	r.Join, r.answering = true, in.answering
	if in.active != nil {
		r.turnID = in.active.ID
	}
	if run.ID == "" {
		r.RunID = in.req.RunID
	}
	if r.RunID == "" {
		r.RunID = newID()
	}
	return r, err
}

// currentRun is the Run that is open or reserved next; the zero Run when all is at rest.
func (in *intake) currentRun(ctx context.Context) (store.Run, error) {
	// In this order: a Run that begins in between is then seen by one of the two.
	waiting, err := in.tx.ReservedRuns(ctx, store.System(), in.session.ID)
	if err != nil {
		return store.Run{}, err
	}
	last, err := in.tx.LastRun(ctx, store.System(), in.session.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Run{}, err
	}
	if err == nil && last.Status == store.RunRunning {
		return last, nil
	}
	for _, run := range waiting {
		if in.active != nil && run.TurnID == in.active.ID {
			return run, nil
		}
	}
	return store.Run{}, nil
}
