// This file repeats a Turn for a client that asks for it, for instance a page that was opened in the
// middle of one.

package channel

import (
	"context"
	"slices"
	"time"

	"aqueduct/internal/pace"
	"aqueduct/server/wsconn"
	"aqueduct/store"
)

// ReplayFrame is a request for a Turn as it was. speed is a number by which the pauses inside of its Runs are divided;
// "max", and no speed, leave them out. For example {"type":"replay_run","run_id":"…","speed":10}.
type ReplayFrame struct {
	Speed pace.Speed `json:"speed"`
}

// replay sends a Turn once more from its first event, beside what the connection's subscriptions send. A task of the
// connection owns it. It has a reader of its own, because the one of a subscription stands somewhere else in the log.
type replay struct {
	h      *Handler
	in     store.Scope
	to     *wsconn.Conn
	reader *logReader
	speed  pace.Speed
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
// the first time: a client that stores the highest seq it has seen is not set back. Pauses are those between the
// messages of one Run: what lies between two Runs is the wait for a person, and is left out.
func (r *replay) log(ctx context.Context, sessionID string, after, end int64) error {
	var sent int64 // the time of the message before
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
			if sent != 0 {
				if err := r.speed.Wait(ctx, time.Duration(m.TS-sent)*time.Millisecond); err != nil {
					return err
				}
			}
			m.Replay, sent = true, m.TS
			if err := r.to.Send(m); err != nil {
				return err
			}
		}
	}
	return nil
}
