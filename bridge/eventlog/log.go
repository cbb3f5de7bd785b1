// Package eventlog keeps events and lets anybody tail them. It deals in bytes: what an
// event means is not known here.
//
// One committer per replica turns what all Sessions appended while its last commit was
// in flight into the next store.Batch. Only what is committed reaches a tail.
//
// An Entry goes from Writer.Put into the Writer's pending part, with the parts of all other Writers into a Batch, and
// from there into the ring, which live tails read. The Bell wakes them. Notes and Keeps are for those who have rows to
// write beside the log without owning the Session. A Writer that had a part refused is of no use any more; the others
// go on. When the replica is fenced, or the process ends, the Log refuses everything and settles all that waits.
package eventlog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"aqueduct/internal/wake"
	"aqueduct/store"
)

// Config is what a Log needs.
type Config struct {
	Store   store.Store
	Bell    *Bell
	Replica string
	Logger  *slog.Logger
	// Observe is called for every commit that landed; it must be quick. May be nil.
	Observe func(CommitStats)
}

// CommitStats describes one commit.
type CommitStats struct {
	Sessions, Events, Bytes int
	Took                    time.Duration
}

// Log is the event log of one replica.
type Log struct {
	cfg  Config
	ring *ring

	wake  wake.Signal // of the committer: something was appended
	moved func(sessionID string, moves []store.Move)

	// The lock is held for moments: never together with a Writer's or the ring's, nor during a commit.
	mu    sync.Mutex
	dirty []*Writer // those with a pending part, in order of arrival; each once
	notes notes
	since time.Time // of the commit in flight; zero when there is none
	fatal error     // set once; nothing is accepted any more
	// urgent has rung while something is appended that is not to be put off.
	urgent wake.Signal
}

// New makes a Log; Run must be running for anything to be kept.
func New(cfg Config) *Log {
	return &Log{cfg: cfg, ring: newRing(ringBudget), wake: wake.New(), urgent: wake.New()}
}

// OnMoves sets the one function that is called with the rows that a Session's Writer is about to change. It
// must be set before Run and be quick.
func (l *Log) OnMoves(heard func(sessionID string, moves []store.Move)) { l.moved = heard }

// Forget drops from memory what is held of a Session that was deleted. What is committed of it afterwards may be held
// again.
func (l *Log) Forget(sessionID string) { l.ring.forget(sessionID) }

// Open makes the one Writer of a Session, at the end of its log.
func (l *Log) Open(ctx context.Context, sessionID string) (*Writer, error) {
	last, err := l.cfg.Store.LastSeq(ctx, store.System(), sessionID)
	if err != nil {
		return nil, err
	}
	return l.OpenAt(sessionID, last), nil
}

// OpenAt is Open for an owner that knows where the log ends.
func (l *Log) OpenAt(sessionID string, last int64) *Writer {
	l.ring.written(sessionID, last)
	return &Writer{log: l, sessionID: sessionID, last: last, room: wake.New()}
}

// ErrStopped is the error of writers when the Log is stopping.
var ErrStopped = errors.New("eventlog: stopped")

// Run is the committer. It returns when ctx ends, after a last commit of what was
// appended, or with store.ErrFenced when this replica has been replaced.
func (l *Log) Run(ctx context.Context) error {
	c := committer{log: l}
	for {
		select {
		case <-l.wake:
			if err := c.linger(ctx); err == nil {
				c.commitAll(ctx, l.take())
			}
		case <-ctx.Done():
			final, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCommitWait)
			c.commitAll(final, l.take())
			cancel()
			l.stop(ErrStopped)
			return nil
		}
		if err := l.stopped(); err != nil {
			return err
		}
	}
}

// lastCommitWait bounds the commit made while shutting down, so that a dead database
// cannot hold the process.
const lastCommitWait = 5 * time.Second

// hurry has the next commit not put off. The lock keeps the ring and what it is for together: take clears it with what
// it takes, so a ring that is left is for what is still there.
func (l *Log) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.urgent.Ring()
}

// take hands over what has been appended, a part a Writer, in order of arrival.
func (l *Log) take() []*part {
	l.mu.Lock()
	dirty, noted := l.dirty, l.notes.take()
	l.dirty = nil
	l.urgent.Clear()
	l.mu.Unlock()
	parts := make([]*part, 0, len(dirty)+len(noted))
	for _, w := range dirty {
		if p := w.takePart(); p != nil {
			parts = append(parts, p)
		}
	}
	return append(parts, noted...)
}

// markDirty queues a Writer for the next commit, or, when there will be none, fails its
// part: a caller that waits for it would wait for ever.
func (l *Log) markDirty(w *Writer) {
	l.mu.Lock()
	err := l.fatal
	if err == nil {
		l.dirty = append(l.dirty, w)
	}
	l.mu.Unlock()
	if err == nil {
		l.wake.Ring()
	} else if p := w.takePart(); p != nil {
		w.settle(p, nil, err)
	}
}

// stop refuses all further appends with err and fails what is pending. fatal is set before: what is appended in between
// is either taken here or fails in markDirty.
func (l *Log) stop(err error) {
	l.mu.Lock()
	if l.fatal == nil {
		l.fatal = err
	}
	l.mu.Unlock()
	for _, p := range l.take() {
		p.settle(nil, err)
	}
}

func (l *Log) stopped() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

// stalledAfter is how long a commit may take before the store counts as stalled: far beyond
// what a busy database needs, and soon enough for who must choose between waiting for
// everybody and giving up one Session.
const stalledAfter = time.Second

// Stalled reports whether the store stalls: what is full then is so for everybody.
func (l *Log) Stalled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.since.IsZero() && time.Since(l.since) > stalledAfter
}

func (l *Log) began(at time.Time) {
	l.mu.Lock()
	l.since = at
	l.mu.Unlock()
}
