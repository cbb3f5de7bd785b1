package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"aqueduct/store"
)

// Log writes entries outside of a caller's transaction. A nil one writes none.
//
// Refused attempts are written in a bounded number: each network, and each principal on it, has perAddress of them a
// minute in full, and all that showed no good credential have perMinute together, so that those cannot hide the attempts
// of one that did. What is beyond is counted, and the count is one entry at the minute's end.
type Log struct {
	store transactor
	log   *slog.Logger
	now   func() time.Time

	// What follows is of the minute that began at minute; turnOver empties it.
	mu      sync.Mutex
	minute  time.Time
	written int              // in full, of actors that are unknown
	full    map[tallyKey]int // in full, by keys without an action
	counted map[tallyKey]int // not written, by keys with the action
	lost    int              // attempts beyond the number of keys that are kept
}

// transactor is store.Store's InTx.
type transactor interface {
	InTx(ctx context.Context, fn func(tx store.Tx) error) error
}

const (
	// perAddress entries a minute show what one address tries, and fill 30 MB in a day at most.
	perAddress = 20
	// perMinute bounds what many addresses write together.
	perMinute = 120
	// maxTallies bounds the memory of a minute; attempts beyond are one number.
	maxTallies = 1000
	// writeTime bounds one entry: a request that was refused waits for it.
	writeTime = 5 * time.Second
)

// tallyKey is whose attempts are counted together. Without an action it is the key of the budget, with one that of a
// count.
type tallyKey struct{ network, tenant, user, action string }

// NewLog makes a Log; now is the clock, nil the real one. Run writes the counts.
func NewLog(st transactor, log *slog.Logger, now func() time.Time) *Log {
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Log{store: st, log: log, now: now, full: make(map[tallyKey]int), counted: make(map[tallyKey]int)}
}

// Write writes one action that has happened. Where it cannot be written, that is logged: the action is not undone by it.
// What must not happen without its entry uses Append in the transaction of the action.
func (l *Log) Write(ctx context.Context, who store.Principal, action string, of Subject, details any) {
	if l == nil {
		return
	}
	// A client that leaves before the answer must not leave the action without its entry.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	err := l.store.InTx(ctx, func(tx store.Tx) error { return AppendAt(ctx, tx, who, action, of, details, l.now()) })
	if err != nil {
		l.log.Error("a deed is not in the audit", slog.String("action", action), slog.String("subject", of.ID), slog.Any("error", err))
	}
}

// Record writes an entry, and fails where that cannot be written: for what must not happen without its entry.
func (l *Log) Record(ctx context.Context, who store.Principal, action string, of Subject, details any) error {
	return l.store.InTx(ctx, func(tx store.Tx) error { return AppendAt(ctx, tx, who, action, of, details, l.now()) })
}

// Refused writes an attempt that was refused, or counts it where too many come.
func (l *Log) Refused(ctx context.Context, who store.Principal, action string, of Subject, details any) {
	if l == nil {
		return
	}
	overdue, write := l.admit(tallyKey{network(Remote(ctx)), who.Tenant, who.User, action})
	l.flush(ctx, overdue)
	if write {
		l.Write(ctx, who, action, of, details)
	}
}

// admit counts an attempt and reports whether it is written in full. Counts of a minute that is over come with it.
func (l *Log) admit(key tallyKey) (overdue []tally, write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	overdue = l.turnOver()
	// One budget for all actions of a caller; the count of what is beyond it keeps the actions apart.
	from, stranger := key, key.user == unknown
	from.action = ""
	if l.full[from] < perAddress && !(stranger && l.written >= perMinute) {
		l.full[from]++
		if stranger {
			l.written++
		}
		return overdue, true
	}
	if _, known := l.counted[key]; !known && len(l.counted) >= maxTallies {
		l.lost++
	} else {
		l.counted[key]++
	}
	return overdue, false
}

// tally is a count that is to be written.
type tally struct {
	tallyKey
	count int
	since time.Time
}

// turnOver begins a new minute if the last one is over, and returns its counts. Those are perMinute at most: the rest
// are one number, under no network.
func (l *Log) turnOver() []tally {
	now := l.now()
	if now.Sub(l.minute) < time.Minute && !now.Before(l.minute) {
		return nil
	}
	var out []tally
	rest := l.lost
	for key, n := range l.counted {
		if len(out) < perMinute {
			out = append(out, tally{key, n, l.minute})
		} else {
			rest += n
		}
	}
	if rest > 0 {
		out = append(out, tally{tallyKey{user: unknown, action: AccessRefused}, rest, l.minute})
	}
	l.minute, l.written, l.lost = now, 0, 0
	clear(l.full)
	clear(l.counted)
	return out
}

// flush writes counts in one transaction. They have left the tallies already: counts that cannot be written are
// logged and not tried again.
func (l *Log) flush(ctx context.Context, counts []tally) {
	if len(counts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	err := l.store.InTx(ctx, func(tx store.Tx) error {
		for _, c := range counts {
			e, err := Entry(store.Principal{Tenant: c.tenant, User: c.user}, c.action, Subject{"network", c.network}, map[string]any{
				"more": c.count, "since": c.since.UTC().Format(time.RFC3339),
			}, l.now())
			if err != nil {
				return err
			}
			e.Remote = c.network
			if _, err := tx.AppendAudit(ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.log.Error("counts of refused attempts are not in the audit", slog.Int("networks", len(counts)), slog.Any("error", err))
	}
}

// Run writes the counts of each minute, until ctx ends, and then those that are left.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.mu.Lock()
			overdue := l.turnOver()
			l.mu.Unlock()
			l.flush(ctx, overdue)
		case <-ctx.Done(): // the minute is not over; the zero time makes it so
			l.mu.Lock()
			l.minute = time.Time{}
			rest := l.turnOver()
			l.mu.Unlock()
			l.flush(ctx, rest)
			return nil
		}
	}
}
