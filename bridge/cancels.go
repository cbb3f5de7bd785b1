package bridge

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"aqueduct/bridge/eventlog"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

// Cancels requests the end of Turns: for a person, for a thread that is deleted, and for a client that left. The request is
// a row; the owner of the Session obeys it (cancel.go), on whatever replica.
// A cancel takes effect exactly once, because the owner marks the command done in the commit that ends the Turn.
type Cancels struct {
	store  store.Store
	bell   *eventlog.Bell
	grace  time.Duration // after the last tail with on_leave=cancel
	agents *Directory
	logger *slog.Logger
	// start runs a function until the engine stops; false when it stops already.
	start func(func(context.Context)) bool

	mu      sync.Mutex
	leaving map[string]bool // Turns of which a tail with on_leave=cancel has gone
}

// Cancel requests the end of the Turn that a Run belongs to. runID is the server's id of the Run, or the client's. A Turn
// that has ended stays as it is.
func (c *Cancels) Cancel(ctx context.Context, who store.Principal, runID string) (store.Run, error) {
	return c.CancelWithin(ctx, store.As(who), who, runID)
}

// CancelWithin is Cancel for a Run that the Scope sees, as of a thread that is shared with the caller.
func (c *Cancels) CancelWithin(ctx context.Context, in store.Scope, who store.Principal, runID string) (store.Run, error) {
	run, err := c.store.FindRun(ctx, in, runID)
	if err != nil {
		return store.Run{}, err
	}
	turn, err := c.store.Turn(ctx, in, run.TurnID)
	if err != nil || turn.Status.Terminal() {
		return run, err
	}
	return run, c.request(ctx, turn, who.User)
}

// request writes the command to cancel a Turn, which its owner obeys.
// The command is a row because the owner may be another process, or gone: the one that takes the Session over finds
// it. The bell only makes it quick.
func (c *Cancels) request(ctx context.Context, turn store.Turn, by string) error {
	err := c.store.InTx(ctx, func(tx store.Tx) error {
		return tx.InsertCommand(ctx, store.Command{
			ID: newID(), SessionID: turn.SessionID, TurnID: turn.ID, Kind: store.CommandCancel, CreatedAt: time.Now(),
			Payload: mustJSON(commandPayload{By: by}),
		})
	})
	if err == nil {
		c.bell.Ring(turn.SessionID)
	}
	return err
}

// Left is called when the tail of a client has closed. If its request had on_leave=cancel, or the Turn's Agent sets it, the
// Turn is cancelled after no tail of the Session was open for the grace period.
// One goroutine a Turn waits, however many tails leave.
// A replica that stops does not hand the wait over: the Turn goes on without its client.
func (c *Cancels) Left(session store.Session, turnID string, asked bool) {
	if !asked {
		if c.agents.anyCancelsOnLeave() {
			c.start(func(ctx context.Context) {
				if c.wanted(ctx, session.Tenant, turnID) {
					c.Left(session, turnID, true)
				}
			})
		}
		return
	}
	c.mu.Lock()
	known := c.leaving[turnID]
	c.leaving[turnID] = true
	c.mu.Unlock()
	if known {
		return
	}
	forget := func() {
		c.mu.Lock()
		delete(c.leaving, turnID)
		c.mu.Unlock()
	}
	started := c.start(func(ctx context.Context) {
		defer forget()
		c.leave(ctx, session.ID, turnID)
	})
	if !started {
		forget()
	}
}

// wanted reports whether the Agent of a Turn wants it to end with its clients.
func (c *Cancels) wanted(ctx context.Context, tenant, turnID string) bool {
	turn, err := c.store.Turn(ctx, store.System(), turnID)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) {
			c.logger.Error("turn not cancelled after its client left", "turn_id", turnID, "error", err)
		}
		return false
	}
	return c.agents.cancelsOnLeave(tenant, turn.AgentID)
}

// leaveLooks is how many times within the grace the tails are counted.
const leaveLooks = 5

// leave waits until no tail was open for the grace, or the Turn has ended: another tab may stay for long, and a reload is
// back soon.
func (c *Cancels) leave(ctx context.Context, sessionID, turnID string) {
	for alone := 0; alone < leaveLooks; {
		if err := retry.Sleep(ctx, c.grace/leaveLooks); err != nil {
			return
		}
		if alone++; c.bell.Listeners(sessionID) > 0 {
			alone = -1 // a tail that is open now may leave right after
		}
		turn, err := c.store.Turn(ctx, store.System(), turnID)
		switch {
		case errors.Is(err, store.ErrNotFound), err == nil && turn.Status.Terminal():
			return
		case err == nil && alone == leaveLooks:
			err = c.request(ctx, turn, "")
		}
		if err != nil && ctx.Err() == nil {
			c.logger.Error("turn not cancelled after its client left, trying again", "turn_id", turnID, "error", err)
			alone = 0
		}
	}
}
