package bridge

import (
	"context"
	"errors"

	"aqueduct/store"
)

// replier makes the Reply to a request: what the response tails.
// A Reply names positions, never content: the response reads the log from there like any tail.
type replier struct {
	*thread
	queued    string // the Turn that this request queued; "" for none
	answering bool   // the request answers something
}

// tail is the Reply that gives a Run from its first event.
func (r *replier) tail(ctx context.Context, run store.Run) (Reply, error) {
	out := Reply{Session: r.session, Run: run, RunID: run.ExternalID, Dialect: r.req.Dialect, Notes: r.notes}
	var err error
	if out.CallNames, err = r.callNames(ctx, run); err != nil {
		return out, err
	}
	if run.FirstSeq > 0 {
		out.After = run.FirstSeq - 1
		return out, nil
	}
	if !r.exists {
		return out, nil
	}
	out.After, err = r.tx.LastSeq(ctx, store.System(), r.session.ID)
	if err != nil || run.ID == "" || run.ID == r.queued {
		return out, err
	}
	// The owner may have begun the Run since its row was read. It then begins before the
	// end of the log, and who waits for it behind that waits for ever.
	if out.Run, err = r.tx.Run(ctx, store.System(), run.ID); err == nil && out.Run.FirstSeq > 0 {
		out.After = out.Run.FirstSeq - 1
	}
	return out, err
}

// callNames are the names of the tool calls of a Run's Turn. TDesign's page looks its component up by the name, which
// its answer does not repeat.
func (r *replier) callNames(ctx context.Context, run store.Run) (map[string]string, error) {
	if r.req.Dialect != DialectTDesign || run.ID == "" {
		return nil, nil
	}
	calls, err := questionsOf(ctx, r.tx, run.TurnID)
	names := make(map[string]string, len(calls))
	for _, q := range calls {
		names[q.Call.ID] = q.ShownName()
	}
	return names, err
}

// join is the Reply of a client that comes to what is there: the Run under way, the one
// that is about to begin, or the thread at rest.
// A response always has a runId, which clients insist on, also where no Run is there.
func (r *replier) join(ctx context.Context) (Reply, error) {
	run, err := r.currentRun(ctx)
	if err != nil {
		return Reply{}, err
	}
	out, err := r.tail(ctx, run)
	out.Join, out.answering = true, r.answering
	if r.active != nil {
		out.turnID = r.active.ID
	}
	if run.ID == "" {
		out.RunID = r.req.RunID
	}
	if out.RunID == "" {
		out.RunID = newID()
	}
	// A client that joined this Run before, and was cut, has its beginning.
	if run.FirstSeq > 0 && r.req.After >= run.FirstSeq {
		out.continueAfter(r.req.After)
	}
	return out, err
}

// currentRun is the Run that is open or reserved next; the zero Run when all is at rest.
// A Run that is reserved counts only if it is the active Turn's: one of a queued Turn begins after this one has ended,
// and a join is to what is there now.
func (r *replier) currentRun(ctx context.Context) (store.Run, error) {
	// In this order: a Run that begins in between is then seen by one of the two.
	waiting, err := r.tx.ReservedRuns(ctx, store.System(), r.session.ID)
	if err != nil {
		return store.Run{}, err
	}
	last, err := r.tx.LastRun(ctx, store.System(), r.session.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Run{}, err
	}
	if err == nil && last.Status == store.RunRunning {
		return last, nil
	}
	for _, run := range waiting {
		if r.active != nil && run.TurnID == r.active.ID {
			return run, nil
		}
	}
	return store.Run{}, nil
}
