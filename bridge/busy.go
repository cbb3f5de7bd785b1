package bridge

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/contextstore"
	"aqueduct/internal/schema"
	"aqueduct/store"
)

const (
	// busyLooks is how often within Limits.BusyWait the rows are looked at for a tail that has left another replica.
	busyLooks = 10
	// maxQueued bounds the Turns that wait in one Session: each holds a response open.
	maxQueued = 16
)

// What becomes of a message that comes while a response tails the Turn under way.
const (
	OnBusyRefuse = "refuse"
	OnBusyQueue  = "queue"
)

// errTailed means that a request would be refused because a response tails what runs, and that it is worth looking again:
// a client that closed its response and asked at once may be faster than we notice.
var errTailed = errors.New("bridge: the turn under way is tailed")

// underway is what a new message meets.
type underway struct {
	stop   []string         // Turns that no response tails: they are cancelled for the new message
	tailed bool             // a response tails one that is not being ended
	asks   bool             // a Question is open that a person answers
	left   []store.ToolCall // calls of clients' tools, if nothing else is open
	queued int
}

// busyCheck looks at the Turns that are not over when a message comes.
//
// A second message while an answer is written is ambiguous: the user may have pressed Stop first, which is nothing but
// a closed response, or may type ahead. What tells them apart is whether any response still reads the Turn.
type busyCheck struct {
	*thread
	tails *tails

	under underway
}

// load reads what is under way.
func (e *busyCheck) load(ctx context.Context) error {
	runs, err := e.tx.ReservedRuns(ctx, store.System(), e.session.ID)
	if err != nil {
		return err
	}
	last, err := e.tx.LastRun(ctx, store.System(), e.session.ID)
	switch {
	case err == nil && last.Status == store.RunRunning:
		runs = append(runs, last)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	}
	pending, err := e.tx.PendingCommands(ctx, store.System(), e.session.ID)
	if err != nil {
		return err
	}
	// A Turn with a Command counts as over: the message behind a Stop must not be refused for the moment until its
	// owner has read the Command.
	ending := func(turnID string) bool {
		return slices.ContainsFunc(pending, func(c store.Command) bool { return c.TurnID == turnID && c.Kind.Ends() })
	}
	// The Run under way is among them, and so counts against maxQueued.
	e.under.queued = len(runs)
	if e.active.Status.Paused() && !ending(e.active.ID) {
		open, err := e.tx.OpenToolCalls(ctx, store.System(), e.session.ID)
		if err != nil {
			return err
		}
		if e.under.asks = !leaves(open); !e.under.asks {
			e.under.left = open
		}
	}
	turns := []string{e.active.ID}
	for _, run := range runs {
		if !slices.Contains(turns, run.TurnID) {
			turns = append(turns, run.TurnID)
		}
	}
	for _, id := range turns {
		if ending(id) {
			continue
		}
		tailed, err := e.turnTailed(ctx, id, runs)
		if err != nil {
			return err
		}
		if tailed {
			e.under.tailed = true
		} else {
			e.under.stop = append(e.under.stop, id)
		}
	}
	return nil
}

// turnTailed reports whether a response tails one of a Turn's Runs that are not over. No client waits for the end of what an
// Agent sends unprompted.
func (e *busyCheck) turnTailed(ctx context.Context, turnID string, open []store.Run) (bool, error) {
	if turnID == e.active.ID && isUnprompted(*e.active) {
		return false, nil
	}
	for _, run := range open {
		if run.TurnID != turnID {
			continue
		}
		if is, err := e.tailed(ctx, run); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

// endOthers requests the end of every Turn that no response tails, because the user wants the new message answered instead. A
// Turn whose questions are all answered, so that the message continues it, ends successfully.
func (e *busyCheck) endOthers(ctx context.Context, answered bool) error {
	for _, id := range e.under.stop {
		c := store.Command{
			ID: newID(), SessionID: e.session.ID, TurnID: id, Kind: store.CommandCancel, CreatedAt: time.Now(),
			Payload: mustJSON(commandPayload{By: e.req.Principal.User}),
		}
		if id == e.active.ID && (answered || isUnprompted(*e.active)) {
			c.Kind, c.Payload = store.CommandFinish, nil
		}
		if err := e.tx.InsertCommand(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// tailed reports whether a response tails the Run, at any replica that lives, or its client reads by a channel.
// A replica that is gone cannot take its name off the row, so a name counts only while its replica lives.
func (e *busyCheck) tailed(ctx context.Context, run store.Run) (bool, error) {
	is, known := e.tails.tailing(run.ID)
	if is {
		return true, nil
	}
	for _, replica := range strings.Fields(run.Tails) {
		if replica+" " == store.TailedByChannel || replica == e.tails.replica && !known {
			return true, nil
		}
		if replica == e.tails.replica {
			continue // it has left; the row does not say so yet
		}
		if lives, err := e.tx.ReplicaLives(ctx, replica); lives || err != nil {
			return lives, err
		}
	}
	return false, nil
}

// taking is one request on its way through its transaction, as often as it takes.
// What a try has found is kept only if it is the last one: each begins from the request as it came.
type taking struct {
	s        *Sessions
	req      ChatRequest
	last     bool // do not wait any more: return the refusal
	draining bool // this replica did when the request came
	session  string
	reply    Reply
	rung     bool
	settled  []approval.Settled
	// attachments are all that were written, whether or not a message has kept them.
	attachments []contextstore.Attachment
}

// try makes one attempt. Answers are checked against their schemas between two transactions, and there too the bytes of
// attachments are written.
func (k *taking) try(ctx context.Context) error {
	for {
		err := schema.Outside(ctx, k.tryChecked)
		var named *unattached
		if !errors.As(err, &named) {
			return err
		}
		// Each round reads what one message names, so there are no more of them than messages.
		if err := k.attach(ctx, named); err != nil {
			return err
		}
	}
}

func (k *taking) tryChecked(ctx context.Context) error {
	take := func(tx store.Tx) (err error) {
		in := newIntake(k.s, tx, k.req, k.last)
		in.full = k.draining
		k.reply, k.rung, err = in.take(ctx)
		k.settled, k.session, k.reply.Access, k.reply.Answered = in.answers.settled, in.session.ID, in.access, in.answers.calls.answered
		return err
	}
	err := k.s.cfg.Store.InTx(ctx, take)
	if errors.Is(err, store.ErrConflict) {
		// Two POSTs made the same thread or Run at once; the other was first, and is seen now.
		err = k.s.cfg.Store.InTx(ctx, take)
	}
	return err
}

// whileTailed tries again while a response still reads the Turn under way, for no longer than Limits.BusyWait.
// It waits for the tails of this replica by a channel and looks at the rows for those of others, ten times within the
// wait.
func (k *taking) whileTailed(ctx context.Context) error {
	err := k.try(ctx)
	if !errors.Is(err, errTailed) {
		return err
	}
	changed, stop := k.s.tails.changes(k.session)
	defer stop()
	look := time.NewTicker(k.s.cfg.Limits.BusyWait / busyLooks)
	defer look.Stop()
	// The first of these tries comes behind the subscription: a tail that left between the try before and it has rung
	// for no receiver.
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
