package tools

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// commitTime bounds how long the commit of a call's end may take once the server is stopping. Until then the commit waits
// for the database: a call whose end is not kept stays RUNNING.
const commitTime = 5 * time.Second

// toItsEnd returns a context for the commit of a call's end, which outlives ctx by commitTime and waits for the database.
func toItsEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	kept, cancel := context.WithCancel(store.Patient(context.WithoutCancel(ctx)))
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(commitTime, cancel)
		context.AfterFunc(kept, func() { late.Stop() })
	})
	return kept, func() { stop(); cancel() }
}

// Keeping is what one commit keeps of a call: that it is executed, or how it ended.
type Keeping struct {
	Call  store.ToolCall // as the Move leaves it
	Move  store.Move     // a TakeToolCall or a ToolCallMove
	Trace []store.Move   // RecordOf: the Records of the call, if the Move takes effect
	Asked bool           // a person was asked: the chat shows the call as a permission
}

// Kept is the outcome of the commit.
type Kept struct {
	Lost  bool // another writer moved the row first
	Shown bool // the call's events are in the same commit
}

// Keeper keeps a call together with the events that show it in its Turn's chat, where this replica drives the Turn;
// elsewhere it keeps the row alone, and the Session's owner shows the call from its row.
type Keeper func(ctx context.Context, k Keeping) (Kept, error)

// commits keeps what happens to the rows of calls.
type commits struct {
	// keep commits what belongs to a Session, and returns which moves were lost.
	keep   func(ctx context.Context, sessionID string, moves []store.Move, records []store.Record) (lost []int, err error)
	keeper Keeper                 // nil: rows alone
	ring   func(sessionID string) // wakes the Session's owner
	store  store.Store
	logger *slog.Logger
}

// withEvents keeps a call, with its events where that is possible.
func (c *commits) withEvents(ctx context.Context, k Keeping) (Kept, error) {
	if c.keeper != nil {
		return c.keeper(ctx, k)
	}
	lost, err := c.keep(ctx, k.Call.SessionID, append([]store.Move{k.Move}, k.Trace...), nil)
	return Kept{Lost: slices.Contains(lost, 0)}, err
}

// end keeps how a call ended. It is lost when another writer ended it first.
func (c *commits) end(ctx context.Context, call store.ToolCall, move store.ToolCallMove, asked bool) (kept Kept, err error) {
	ctx, cancel := toItsEnd(ctx)
	defer cancel()
	if call.OnFailure == store.FailureEndsRun && move.To != store.ToolSucceeded {
		kept, err = c.endWithTurn(ctx, call, move)
	} else {
		kept, err = c.withEvents(ctx, Keeping{Call: call.Ended(move), Move: move, Trace: []store.Move{trace.Ended(call, move)}, Asked: asked})
		if err == nil && !kept.Lost && !kept.Shown {
			c.ring(call.SessionID) // the owner shows the call from its row
		}
	}
	if err != nil {
		c.logger.Error("the end of a tool call was not kept", slog.String("tool_call_id", call.ID), slog.Any("error", err))
	}
	return kept, err
}

// endWithTurn keeps that a call failed, and has the Session's owner end the Turn.
// Both are one transaction: a failure that must end the Turn never stands without the command that does it.
func (c *commits) endWithTurn(ctx context.Context, call store.ToolCall, move store.ToolCallMove) (kept Kept, err error) {
	err = c.store.InTx(ctx, func(tx store.Tx) error {
		won, err := endInTx(ctx, tx, call, move)
		if kept.Lost = !won; err != nil || !won {
			return err
		}
		return approval.EndTurnOn(ctx, tx, call.Ended(move), newID, time.Now())
	})
	c.ring(call.SessionID) // in any case: the owner finds what the rows hold, also where the commit's answer was lost
	return kept, err
}

// endInTx ends a call with its Record, unless another writer was first.
func endInTx(ctx context.Context, tx store.Tx, call store.ToolCall, m store.ToolCallMove) (won bool, err error) {
	if won, err = tx.MoveToolCall(ctx, m); err != nil || !won {
		return won, err
	}
	return true, tx.InsertRecord(ctx, trace.ResultOf(call.Ended(m)).Record(call, m.EndedAt))
}
