package bridge

import (
	"context"
	"errors"

	"aqueduct/bridge/eventlog"
	"aqueduct/store"
)

// sessionLog is a Session as its one writer holds it: the row, the end of the log, and how much the log holds. Only the
// goroutine of the Session uses it; the parts of its Turn share it.
// It is shared by the session and the parts of its Turn, and outlives Turns: positions and sizes go on from one to the
// next.
type sessionLog struct {
	id     string
	row    store.Session
	writer *eventlog.Writer // nil until the Session is claimed
	// again is set when the rows have more work than was done: who finds such work that belongs behind the Run that is open,
	// or to another part, sets it, and the Session's loop reads the rows once more before it waits.
	again bool

	bytes   int64 // of the log: since the Session is driven here, and before that if whole is set
	whole   bool
	unmoved int64 // of bytes: what the Session's row does not count yet
}

// last is the position of the newest event that was handed to the log.
func (l *sessionLog) last() int64 { return l.writer.Last() }

// keep commits moves alone.
func (l *sessionLog) keep(ctx context.Context, moves ...store.Move) error {
	_, err := l.writer.Keep(ctx, entryOf(moves...))
	return err
}

// count adds bytes that were handed to the log.
func (l *sessionLog) count(n int) {
	l.bytes += int64(n)
	l.unmoved += int64(n)
}

// full reports whether the log holds as much as it may. What was kept before this process is added up once, and only
// where the log has so many events that it can matter.
// The sum is over the whole thread and so costs a scan of its rows; a thread that cannot have that many bytes yet is
// never scanned.
func (l *sessionLog) full(ctx context.Context, st store.Store, limits Limits) (bool, error) {
	// An event has at most about twice EventBytes, so a log of fewer events than this cannot be full.
	if !l.whole && l.last() >= limits.ThreadBytes/int64(2*limits.EventBytes) {
		kept, err := st.EventBytes(ctx, store.System(), l.id)
		if errors.Is(err, store.ErrNotFound) { // deleted meanwhile
			err = nil
		}
		if err != nil {
			return false, err
		}
		l.bytes, l.whole = kept, true // what is in flight is at most one commit
	}
	return l.bytes > limits.ThreadBytes, nil
}

// settle waits until all events of the Writer are committed or refused, and returns the error of a refusal.
func (l *sessionLog) settle(ctx context.Context) error {
	if l.writer == nil {
		return nil
	}
	return l.writer.Settle(ctx)
}

// reopen opens the log at its true end, after a part of it was refused.
func (l *sessionLog) reopen(ctx context.Context, log *eventlog.Log) (err error) {
	if err := l.settle(ctx); ctx.Err() != nil {
		return err
	}
	l.writer, err = log.Open(ctx, l.id)
	return err
}

// close gives up the log. Except at the end of the process, settle comes first.
func (l *sessionLog) close() {
	if l.writer != nil {
		l.writer.Close()
		l.writer = nil
	}
}
