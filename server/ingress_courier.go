package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"aqueduct/store"
)

// cursor is how far a channel with a callback has been told of a Turn. It is kept as a row of
// the outbox that nobody sends: whoever claims it carries on, on any replica, and moves it in
// the transaction that writes what is to be sent. So nothing is left out, or written twice.
type cursor struct {
	Channel   string `json:"channel"`
	Tenant    string `json:"tenant"`
	User      string `json:"user"`
	SessionID string `json:"session_id"`
	TurnID    string `json:"turn_id"`
	Seq       int64  `json:"seq"`
	Replay    bool   `json:"replay,omitempty"`
}

// outboxCursor is the kind of such rows.
const outboxCursor = "ingress_cursor"

func (c cursor) row(id string, at time.Time) store.OutboxItem {
	payload, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and a number
	}
	return store.OutboxItem{ID: id, SessionID: c.SessionID, Kind: outboxCursor, Target: c.Channel, Payload: payload, CreatedAt: at, NextAt: at}
}

// courier carries what channels with callbacks are to hear from the log to the outbox.
type courier struct {
	h     *ingress
	wake  chan struct{}
	known map[string]*carried // by the cursor's row
}

// carried is how far a log was read for a cursor: events that say nothing on this wire move
// no cursor.
type carried struct {
	reader *ingressReader
	at     int64
}

const (
	// carryEvery is how often it is looked whether Turns have said more, and so about how
	// much of an answer goes into one delivery.
	carryEvery = 500 * time.Millisecond
	carryClaim = time.Minute
	carryAgain = 5 * time.Second // after a failure
	// carryMost is how many cursors are looked at in a round.
	carryMost = 200
	// letterBytes is about how much one delivery holds.
	letterBytes = 256 << 10
)

func (c *courier) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run carries until ctx ends.
func (c *courier) run(ctx context.Context) {
	for {
		if err := c.round(ctx); err != nil && ctx.Err() == nil {
			c.h.log.Warn("channels cannot be told", slog.Any("error", err))
		}
		timer := time.NewTimer(carryEvery)
		select {
		case <-timer.C:
		case <-c.wake:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (c *courier) round(ctx context.Context) error {
	due, err := c.h.store.OutboxDue(ctx, store.System(), time.Now(), carryMost)
	for _, row := range due {
		if row.Kind == outboxCursor {
			err = errors.Join(err, c.move(ctx, row))
		}
	}
	return err
}

// move carries one cursor on, if it is nobody else's.
func (c *courier) move(ctx context.Context, row store.OutboxItem) error {
	now, mine := time.Now(), false
	err := c.h.store.InTx(ctx, func(tx store.Tx) (err error) {
		mine, err = tx.ClaimOutbox(ctx, row.ID, now, now.Add(carryClaim))
		return err
	})
	if err != nil || !mine {
		return err
	}
	var cur cursor
	if json.Unmarshal(row.Payload, &cur) != nil {
		return c.done(ctx, row.ID)
	}
	messages, over, err := c.read(ctx, row.ID, cur)
	switch {
	case errors.Is(err, store.ErrNotFound): // the thread was deleted
		return c.done(ctx, row.ID)
	case err != nil:
		delete(c.known, row.ID) // it may have been read further than it was kept
		return errors.Join(err, c.later(ctx, row.ID, carryAgain, "the log could not be read"))
	case len(messages) == 0 && !over:
		return c.later(ctx, row.ID, carryEvery/2, "")
	}
	return c.keep(ctx, row, cur, messages, over)
}

// read gives what the channel has not been told of the Turn, and whether that is all there
// will be.
func (c *courier) read(ctx context.Context, id string, cur cursor) (messages []ingressMessage, over bool, err error) {
	in := store.As(store.Principal{Tenant: cur.Tenant, User: cur.User})
	k := c.known[id]
	if k == nil {
		session, err := c.h.store.Session(ctx, in, cur.SessionID)
		if err != nil {
			return nil, false, err
		}
		k = &carried{reader: &ingressReader{store: c.h.store, in: in, session: session}}
		if k.at, err = c.start(ctx, in, cur); err != nil {
			return nil, false, err
		}
		c.known[id] = k
	}
	last, err := c.h.store.LastSeq(ctx, in, cur.SessionID)
	if err != nil {
		return nil, false, err
	}
	for size := 0; k.at < last && size < letterBytes && !over; {
		items, err := c.h.slice(ctx, in, cur.SessionID, k.at, last)
		if err != nil {
			return nil, false, err
		}
		if len(items) == 0 {
			return nil, false, store.ErrNotFound
		}
		told, err := k.reader.take(ctx, items)
		if err != nil {
			return nil, false, err
		}
		k.at = items[len(items)-1].Seq
		for _, m := range told {
			if m.RunID != cur.TurnID || m.Seq <= cur.Seq {
				continue
			}
			m.Replay = cur.Replay
			messages = append(messages, m)
			size += len(m.Text) + len(m.Args) + 256
			over = over || m.Type == ingressDone || m.Type == ingressError
		}
	}
	return messages, over || cur.Replay && k.at >= last, nil
}

// start is the position to read from: for a replay that of the Turn's first event.
func (c *courier) start(ctx context.Context, in store.Scope, cur cursor) (int64, error) {
	if !cur.Replay || cur.Seq > 0 {
		return c.h.runAt(ctx, in, cur.SessionID, cur.Seq)
	}
	run, err := c.h.store.Run(ctx, in, cur.TurnID)
	return max(run.FirstSeq-1, 0), err
}

// keep writes what is to be sent and moves the cursor.
func (c *courier) keep(ctx context.Context, row store.OutboxItem, cur cursor, messages []ingressMessage, over bool) error {
	now := time.Now()
	next := cur
	if len(messages) > 0 {
		next.Seq = messages[len(messages)-1].Seq
	}
	// The next row's name follows from this one's: two couriers, of which one was away for
	// longer than its claim, cannot both move the cursor.
	id := rowName(row.ID)
	payload, err := plainText(struct {
		Channel  string           `json:"channel"`
		UserID   string           `json:"user_id"`
		Messages []ingressMessage `json:"messages"`
	}{cur.Channel, cur.User, messages})
	if err != nil {
		return err
	}
	err = c.h.store.InTx(ctx, func(tx store.Tx) error {
		if len(messages) > 0 {
			letter := store.OutboxItem{ID: uuid.Must(uuid.NewV7()).String(), SessionID: cur.SessionID, Kind: OutboxIngress, Target: cur.Channel, Payload: payload, CreatedAt: now, NextAt: now}
			if err := tx.InsertOutbox(ctx, letter); err != nil {
				return err
			}
		}
		if err := tx.OutboxDone(ctx, row.ID, now); err != nil || over {
			return err
		}
		return tx.InsertOutbox(ctx, next.row(id, now.Add(carryEvery/2)))
	})
	k := c.known[row.ID]
	delete(c.known, row.ID)
	switch {
	case errors.Is(err, store.ErrConflict): // another courier was here
		return nil
	case err == nil && !over && k != nil:
		c.known[id] = k
	}
	return err
}

// rowName is the same for the same name.
func rowName(name string) string {
	return uuid.NewHash(sha256.New(), uuid.NameSpaceOID, []byte(name), 5).String()
}

func (c *courier) done(ctx context.Context, id string) error {
	delete(c.known, id)
	return c.h.store.InTx(ctx, func(tx store.Tx) error { return tx.OutboxDone(ctx, id, time.Now()) })
}

// later gives the claim back.
func (c *courier) later(ctx context.Context, id string, after time.Duration, why string) error {
	return c.h.store.InTx(ctx, func(tx store.Tx) error { return tx.OutboxRetry(ctx, id, time.Now().Add(after), why) })
}
