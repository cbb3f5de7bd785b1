package bridge

import (
	"context"
	"errors"
	"slices"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/internal/schema"
	"aqueduct/store"
)

const (
	// busyLooks is how often within Limits.BusyWait the rows are looked at for a tail that has left another replica.
	busyLooks = 10
	// maxQueued bounds the Turns that wait in one Session: each holds a response open.
	maxQueued = 16
)

// What becomes of a message that comes while somebody tails the Turn under way.
const (
	OnBusyRefuse = "refuse"
	OnBusyQueue  = "queue"
)

// errTailed says that a request would be refused because somebody tails what runs, and that it is worth looking again:
// a client that closed its response and asked at once may be faster than we notice.
var errTailed = errors.New("bridge: the turn under way is tailed")

// underway is what a new message meets.
type underway struct {
	stop   []string // Turns that nobody tails: they are cancelled for it
	tailed bool     // somebody tails one that is not being ended
	asks   bool     // a Question is open
	queued int
}

// meet looks at the Turns that are not over.
func (in *intake) meet(ctx context.Context) error {
	if in.active == nil || in.req.JoinOnly || len(in.fresh) == 0 && in.branch == nil {
		return nil
	}
	runs, err := in.tx.ReservedRuns(ctx, store.System(), in.session.ID)
	if err != nil {
		return err
	}
	last, err := in.tx.LastRun(ctx, store.System(), in.session.ID)
	switch {
	case err == nil && last.Status == store.RunRunning:
		runs = append(runs, last)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	}
	pending, err := in.tx.PendingCommands(ctx, store.System(), in.session.ID)
	if err != nil {
		return err
	}
	ending := func(turnID string) bool {
		return slices.ContainsFunc(pending, func(c store.Command) bool { return c.TurnID == turnID })
	}
	in.under.queued = len(runs)
	in.under.asks = in.active.Status.Paused() && !ending(in.active.ID)
	turns := []string{in.active.ID}
	for _, run := range runs {
		if !slices.Contains(turns, run.TurnID) {
			turns = append(turns, run.TurnID)
		}
	}
	for _, id := range turns {
		if ending(id) {
			continue
		}
		tailed, err := in.turnTailed(ctx, id, runs)
		if err != nil {
			return err
		}
		if tailed {
			in.under.tailed = true
		} else {
			in.under.stop = append(in.under.stop, id)
		}
	}
	return nil
}

// turnTailed reports whether somebody tails one of a Turn's Runs that are not over. Nobody waits for the end of what an
// Agent says by itself.
func (in *intake) turnTailed(ctx context.Context, turnID string, open []store.Run) (bool, error) {
	if turnID == in.active.ID && isUnprompted(*in.active) {
		return false, nil
	}
	for _, run := range open {
		if run.TurnID != turnID {
			continue
		}
		if is, err := in.tailed(ctx, run); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

// endOthers asks for the end of what nobody tails: a message has come that the user wants answered instead.
func (in *intake) endOthers(ctx context.Context) error {
	for _, id := range in.under.stop {
		c := store.Command{
			ID: newID(), SessionID: in.session.ID, TurnID: id, Kind: store.CommandCancel, CreatedAt: time.Now(),
			Payload: mustJSON(commandPayload{By: in.req.Principal.User}),
		}
		if id == in.active.ID && isUnprompted(*in.active) {
			c.Kind, c.Payload = store.CommandFinish, nil
		}
		if err := in.tx.InsertCommand(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// taking is one request on its way through its transaction, as often as it takes.
type taking struct {
	s       *Sessions
	req     ChatRequest
	last    bool // no more waiting: what is refused now is refused
	session string
	reply   Reply
	rung    bool
	settled []inbox.Settled
}

// try makes one attempt. Answers are checked against their schemas between two transactions.
func (k *taking) try(ctx context.Context) error { return schema.Outside(ctx, k.tryChecked) }

func (k *taking) tryChecked(ctx context.Context) error {
	take := func(tx store.Tx) (err error) {
		in := intake{s: k.s, tx: tx, req: k.req, last: k.last}
		k.reply, k.rung, err = in.take(ctx)
		k.settled, k.session, k.reply.Access = in.settled, in.session.ID, in.access
		return err
	}
	err := k.s.cfg.Store.InTx(ctx, take)
	if errors.Is(err, store.ErrConflict) {
		// Two POSTs made the same thread or Run at once; the other was first, and is seen now.
		err = k.s.cfg.Store.InTx(ctx, take)
	}
	return err
}

// patiently tries until nobody tails what runs, for no longer than Limits.BusyWait.
func (k *taking) patiently(ctx context.Context) error {
	err := k.try(ctx)
	if !errors.Is(err, errTailed) {
		return err
	}
	changed, stop := k.s.tails.changes(k.session)
	defer stop()
	look := time.NewTicker(k.s.cfg.Limits.BusyWait / busyLooks)
	defer look.Stop()
	for looks := 0; ; {
		if err = k.try(ctx); !errors.Is(err, errTailed) {
			return err
		}
		select {
		case <-changed:
		case <-look.C:
			if looks++; looks == busyLooks {
				k.last = true
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
