// This file repeats a Turn for a client that asks for it, for instance a page that was opened in the
// middle of one.

package channel

import (
	"context"
	"slices"

	"aqueduct/server/wsconn"
	"aqueduct/store"
)

// replay sends a Turn once more from its first event, beside what the connection's subscriptions send. A task of the
// connection owns it. It has a reader of its own, because the one of a subscription stands somewhere else in the log.
type replay struct {
	h      *Handler
	in     store.Scope
	to     *wsconn.Conn
	reader *logReader
}

// turn sends the events of all Runs of a Turn. Runs that never began have none.
// A Run that is still going on is sent up to the end that the log had when the replay began; what
// comes later is the subscription's.
func (r *replay) turn(ctx context.Context, session store.Session, turn store.Turn) error {
	runs, err := r.h.Store.RunsOfTurn(ctx, r.in, turn.ID)
	if err != nil {
		return err
	}
	last, err := r.h.Store.LastSeq(ctx, r.in, session.ID)
	if err != nil {
		return err
	}
	for _, run := range slices.DeleteFunc(runs, func(run store.Run) bool { return run.FirstSeq == 0 }) {
		end := run.LastSeq
		if end == 0 {
			end = last
		}
		if err := r.log(ctx, session.ID, run.FirstSeq-1, end); err != nil {
			return err
		}
	}
	return nil
}

// log sends the events after a position up to another. Messages carry Replay, and the seqs they had
// the first time: a client that stores the highest seq it has seen is not set back.
func (r *replay) log(ctx context.Context, sessionID string, after, end int64) error {
	for after < end {
		items, err := r.h.slice(ctx, r.in, sessionID, after, end)
		if err != nil || len(items) == 0 {
			return err
		}
		after = items[len(items)-1].Seq
		messages, err := r.reader.read(ctx, items)
		if err != nil {
			return err
		}
		for _, m := range messages {
			m.Replay = true
			if err := r.to.Send(m); err != nil {
				return err
			}
		}
	}
	return nil
}
