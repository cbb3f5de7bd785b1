// Package channelfeed moves the messages of channels with a callback from the log to the outbox. It owns the transactions of
// that; the edge only reads the log and words the messages (Position).
//
// The row of a cursor is a queue of one. It is due, then claimed for a while. Then it is either given back unchanged, or
// replaced by the row of the cursor's next position, together with the delivery. The notifier sends deliveries by itself. The
// positions that a process keeps in memory only save reading a Turn again from its start.
//
// A Session has one delivery under way on a channel at a time. Messages that its Turns emit meanwhile go into the next
// delivery. So a receiver gets the messages in the order of the log, and a slow one gets larger deliveries, not more of them.
package channelfeed

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"aqueduct/internal/wake"
	"aqueduct/store"
)

// Cursor is how far a channel has received a Turn. It is kept as a row of the outbox that no notifier sends: the replica
// that claims the row reads on from it, and replaces it in the transaction that writes the delivery. So no message is
// left out or written twice, whichever replica crashes.
type Cursor struct {
	Channel   string `json:"channel"`
	Tenant    string `json:"tenant"`
	User      string `json:"user"`
	SessionID string `json:"session_id"`
	TurnID    string `json:"turn_id"`
	Seq       int64  `json:"seq"`
	Replay    bool   `json:"replay,omitempty"`
}

// cursorKind is the outbox kind of cursors.
const cursorKind = "ingress_cursor"

// row is the outbox's row of the cursor. It belongs to the Session, so that it is deleted with it.
func (c Cursor) row(id string, at time.Time) store.OutboxItem {
	payload, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and a number
	}
	return store.OutboxItem{ID: id, SessionID: c.SessionID, Kind: cursorKind, Target: c.Channel, Payload: payload, CreatedAt: at, NextAt: at}
}

// Batch is what one read of the log gives.
type Batch struct {
	Payload []byte // the delivery; nil when there is nothing to send
	Seq     int64  // of the last message in the payload
	Over    bool   // the Turn has ended: no message follows
}

// Position reads the log for one cursor. It remembers how far it has read, which can be beyond the cursor: events
// without a message move no cursor.
type Position interface {
	// Read returns what follows the cursor; store.ErrNotFound when the thread was deleted.
	Read(ctx context.Context, cur Cursor) (Batch, error)
}

// Config is what a Relay needs.
type Config struct {
	Store store.Store
	Log   *slog.Logger
	// Kind is the outbox kind of the deliveries.
	Kind string
	// Open starts reading for a cursor.
	Open func(ctx context.Context, cur Cursor) (Position, error)
	// Kick is called when a delivery was committed; nil is not called.
	Kick func()
}

// Relay moves cursors. Run's goroutine owns positions; every other method is safe for concurrent use.
type Relay struct {
	cfg       Config
	wake      wake.Signal
	positions map[string]*reading // by the id of the cursor's row

	mu    sync.Mutex
	known map[string]time.Time // Sessions with a cursor, and when each may have its next delivery
	rung  map[string]bool      // of these, where something happened since they were last looked at
}

// reading is a Position and when it was last used.
type reading struct {
	Position
	used time.Time
}

// New makes a Relay.
func New(cfg Config) *Relay {
	if cfg.Kick == nil {
		cfg.Kick = func() {}
	}
	return &Relay{cfg: cfg, wake: wake.New(), positions: make(map[string]*reading), known: make(map[string]time.Time), rung: make(map[string]bool)}
}

// Rung makes the relay look at a Session, because rows of it were committed. A Session without a cursor here costs no look.
func (r *Relay) Rung(sessionID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.known[sessionID]; known {
		r.rung[sessionID] = true
		r.wake.Ring()
	}
}

// Landed is Rung for the end of a try of a delivery: notify.OnLanded.
func (r *Relay) Landed(i store.OutboxItem) {
	if i.Kind == r.cfg.Kind {
		r.Rung(i.SessionID)
	}
}

// follow notes that a Session has a cursor, and has it looked at.
func (r *Relay) follow(sessionID string) {
	r.mu.Lock()
	if _, known := r.known[sessionID]; !known {
		r.known[sessionID] = time.Time{}
	}
	r.mu.Unlock()
	r.Rung(sessionID)
}

// ready takes the Sessions that were rung and may have a delivery now. wait is until when the next of the others may.
func (r *Relay) ready(now time.Time) (sessions []string, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = every
	for id := range r.rung {
		if early := r.known[id].Sub(now); early > 0 {
			wait = min(wait, early)
			continue
		}
		sessions = append(sessions, id)
		delete(r.rung, id)
	}
	return sessions, wait
}

const (
	// every is the pause between two looks at all cursors: how late a ring that was lost, or was another replica's, makes
	// a delivery.
	every = 500 * time.Millisecond
	// gap is the pause between two deliveries of a Session, and so sets about how much of an answer goes into one.
	// Otherwise each of a model's words would be a request.
	gap = 100 * time.Millisecond
	// claimFor is how long a claimed cursor is withheld from other replicas: a crash delays its Turn by that much.
	claimFor          = time.Minute
	retryAfterFailure = 5 * time.Second
	// maxCursors bounds one round.
	maxCursors = 200
)

// Add begins to relay a Turn. The same name begins it once, on all replicas: a repeated request adds no second cursor.
func (r *Relay) Add(ctx context.Context, name string, cur Cursor) error {
	row := cur.row(rowID(cur.Channel+" "+name), time.Now())
	err := r.cfg.Store.InTx(ctx, func(tx store.Tx) error { return tx.InsertOutbox(ctx, row) })
	if errors.Is(err, store.ErrConflict) {
		return nil // added before
	}
	if err == nil {
		r.follow(cur.SessionID)
	}
	return err
}

// AddIn is Add in the transaction that makes the Turn. The next round finds the cursor.
func (r *Relay) AddIn(ctx context.Context, tx store.Tx, name string, cur Cursor) error {
	return tx.InsertOutbox(ctx, cur.row(rowID(cur.Channel+" "+name), time.Now()))
}

// Run moves cursors until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	var looked time.Time
	for {
		var err error
		sessions, wait := r.ready(time.Now())
		for _, id := range sessions {
			err = errors.Join(err, r.session(ctx, id))
		}
		if time.Since(looked) >= every {
			err = errors.Join(err, r.round(ctx))
			looked = time.Now()
		}
		if err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("the relay to channels failed", slog.Any("error", err))
		}
		select {
		case <-time.After(wait):
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}

// round looks at the Session of each cursor that is due. Each channel has its own look, and a Session that fails holds no
// other up. A Position whose cursor has not been due here for as long as a claim lasts is given up: another replica has
// moved the cursor on.
func (r *Relay) round(ctx context.Context) error {
	maps.DeleteFunc(r.positions, func(_ string, p *reading) bool { return time.Since(p.used) > claimFor })
	lanes, err := r.cfg.Store.OutboxLanes(ctx, store.System(), cursorKind)
	looked := make(map[string]bool)
	for _, lane := range lanes {
		due, failed := r.cfg.Store.OutboxDue(ctx, store.System(), lane, time.Now(), maxCursors)
		err = errors.Join(err, failed)
		for _, row := range due {
			if !looked[row.SessionID] {
				looked[row.SessionID] = true
				r.follow(row.SessionID)
				err = errors.Join(err, r.session(ctx, row.SessionID))
			}
		}
	}
	return err
}

// session moves the cursors of one Session that may be moved: of each channel the first Turn's, unless a delivery to the
// channel is under way. Replays are moved in addition to Turns. The relay forgets a Session without a cursor.
func (r *Relay) session(ctx context.Context, id string) error {
	open, err := r.cfg.Store.OutboxOf(ctx, store.System(), id)
	if err != nil {
		return err
	}
	cursors := make([]cursorRow, 0, len(open))
	busy := make(map[string]bool) // channels
	for _, row := range open {
		switch {
		case row.Kind == cursorKind:
			c := cursorRow{row: row}
			c.broken = json.Unmarshal(row.Payload, &c.Cursor) != nil
			cursors = append(cursors, c)
		case row.Kind == r.cfg.Kind && row.NextAt.Before(store.NeverDue()):
			busy[row.Target] = true
		}
	}
	r.mu.Lock()
	if len(cursors) == 0 {
		delete(r.known, id)
	}
	r.mu.Unlock()
	// Ids of Turns are UUIDv7, and a Session's Turns run one after the other.
	slices.SortStableFunc(cursors, func(a, b cursorRow) int { return strings.Compare(a.TurnID, b.TurnID) })
	for _, c := range cursors {
		if busy[c.row.Target] {
			continue
		}
		busy[c.row.Target] = !c.Replay && !c.broken
		err = errors.Join(err, r.advance(ctx, c))
	}
	return err
}

// cursorRow is a cursor and its row.
type cursorRow struct {
	Cursor
	row    store.OutboxItem
	broken bool // the row cannot be read
}

// advance moves one cursor, unless another replica has claimed it.
func (r *Relay) advance(ctx context.Context, c cursorRow) error {
	row, cur := c.row, c.Cursor
	now, mine := time.Now(), false
	err := r.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		mine, err = tx.ClaimOutbox(ctx, row, now, now.Add(claimFor))
		return err
	})
	if err != nil || !mine {
		return err
	}
	if c.broken {
		return r.done(ctx, row.ID)
	}
	batch, err := r.read(ctx, row.ID, cur)
	switch {
	case errors.Is(err, store.ErrNotFound): // the thread was deleted
		return r.done(ctx, row.ID)
	case err != nil:
		delete(r.positions, row.ID) // it may have read further than was written
		return errors.Join(err, r.release(ctx, row.ID, retryAfterFailure, "the log could not be read"))
	case batch.Payload == nil && !batch.Over:
		return r.release(ctx, row.ID, 0, "")
	}
	return r.write(ctx, row, cur, batch)
}

// read goes on where an earlier read by this process ended, or opens the cursor's Turn.
func (r *Relay) read(ctx context.Context, id string, cur Cursor) (Batch, error) {
	p := r.positions[id]
	if p == nil {
		opened, err := r.cfg.Open(ctx, cur)
		if err != nil {
			return Batch{}, err
		}
		p = &reading{Position: opened}
		r.positions[id] = p
	}
	p.used = time.Now()
	return p.Read(ctx, cur)
}

// write commits the delivery and the moved cursor together. The id of the next cursor's row follows from this one's: of
// two replicas, one of which was suspended for longer than its claim, the second gets ErrConflict and writes nothing.
// For this the last batch of a Turn has a next row too, which is done already.
func (r *Relay) write(ctx context.Context, row store.OutboxItem, cur Cursor, batch Batch) error {
	now, id := time.Now(), rowID(row.ID)
	next := cur
	if batch.Payload != nil {
		next.Seq = batch.Seq
	}
	err := r.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if batch.Payload != nil {
			delivery := store.OutboxItem{
				ID: uuid.Must(uuid.NewV7()).String(), SessionID: cur.SessionID, Kind: r.cfg.Kind, Target: cur.Channel, Payload: batch.Payload, CreatedAt: now, NextAt: now,
			}
			if err := tx.InsertOutbox(ctx, delivery); err != nil {
				return err
			}
		}
		err := errors.Join(tx.OutboxDone(ctx, row.ID, now), tx.InsertOutbox(ctx, next.row(id, now)))
		if err == nil && batch.Over {
			err = tx.OutboxDone(ctx, id, now)
		}
		return err
	})
	// The Position has read as far as the batch, so it is of use for the next cursor alone, and only if that is kept.
	p := r.positions[row.ID]
	delete(r.positions, row.ID)
	switch {
	case errors.Is(err, store.ErrConflict): // another replica was faster
		return nil
	case err == nil && !batch.Over && p != nil:
		r.positions[id] = p
	}
	if err == nil {
		r.mu.Lock()
		r.known[cur.SessionID] = now.Add(gap)
		r.mu.Unlock()
		r.cfg.Kick()
	}
	return err
}

// rowID is the same for the same name.
func rowID(name string) string {
	return uuid.NewHash(sha256.New(), uuid.NameSpaceOID, []byte(name), 5).String()
}

// done drops a cursor whose Turn is over.
func (r *Relay) done(ctx context.Context, id string) error {
	delete(r.positions, id)
	return r.cfg.Store.InTx(ctx, func(tx store.Tx) error { return tx.OutboxDone(ctx, id, time.Now()) })
}

// release gives the claim back.
func (r *Relay) release(ctx context.Context, id string, after time.Duration, why string) error {
	return r.cfg.Store.InTx(ctx, func(tx store.Tx) error { return tx.OutboxRetry(ctx, id, time.Now().Add(after), why) })
}
