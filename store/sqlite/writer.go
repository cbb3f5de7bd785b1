package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"aqueduct/store"
	"aqueduct/store/sqldb"
)

const (
	// groupMost bounds the writes that share one commit, so that one that fails late holds
	// few others up.
	groupMost = 64
	// queueMost is how many writes may wait without holding their callers up; more wait to
	// be queued, in the order they came.
	queueMost = 256
)

// writer is the one connection that writes, and the goroutine that drives it. Writes are
// served in the order they came; those that wait together are committed together, each
// behind a savepoint of its own, because commits, not rows, are what keeping costs.
type writer struct {
	db    *sql.DB
	sent  func(query string, args []any) // Options.Sent
	conn  *sql.Conn
	q     *prepared
	pace  pace
	queue chan *write

	closing sync.Once
	fate    error         // what closing came to
	closed  chan struct{} // no further write is taken
	ended   chan struct{} // the goroutine has
}

// write is one transaction whose caller waits for its commit.
type write struct {
	ctx   context.Context
	fn    func(context.Context, sqldb.Queryer) error
	state atomic.Int32 // one of the claims below
	done  chan struct{}
	err   error
	panic any
}

// Who has a write: its caller may give it up until the writer has taken it. From then on the caller waits for done
// even when its context has ended, because fn uses what is the caller's, and the outcome is known in a moment.
const (
	claimNone int32 = iota
	claimTaken
	claimGivenUp
)

var errClosed = fmt.Errorf("%w: the store is closed", store.ErrUnavailable)

func newWriter(db *sql.DB, sent func(string, []any)) *writer {
	return &writer{db: db, sent: sent, queue: make(chan *write, queueMost), closed: make(chan struct{}), ended: make(chan struct{})}
}

// start opens the connection and serves writes until close.
func (w *writer) start(ctx context.Context) error {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	w.conn, w.q = conn, &prepared{source: conn, sent: w.sent}
	go w.serve()
	return nil
}

// inTx runs fn in one transaction that has the write lock from its beginning. Only fn's
// statements see the end of ctx: COMMIT is decided once it is reached.
func (w *writer) inTx(ctx context.Context, fn func(context.Context, sqldb.Queryer) error) error {
	job := &write{ctx: ctx, fn: fn, done: make(chan struct{})}
	select {
	case <-w.closed:
		return errClosed
	default:
	}
	select {
	case w.queue <- job:
	case <-w.closed:
		return errClosed
	case <-ctx.Done():
		return fmt.Errorf("%w: waiting to write: %w", store.ErrUnavailable, ctx.Err())
	}
	select {
	case <-job.done:
	case <-ctx.Done():
		if job.state.CompareAndSwap(claimNone, claimGivenUp) {
			return fmt.Errorf("%w: waiting to write: %w", store.ErrUnavailable, ctx.Err())
		}
		<-job.done
	}
	if job.panic != nil {
		panic(job.panic)
	}
	return job.err
}

// serve is the writer's goroutine.
func (w *writer) serve() {
	defer close(w.ended)
	for {
		select {
		case first := <-w.queue:
			w.pace.wait()
			w.group(w.gather(first))
		case <-w.closed:
			w.refuseRest()
			return
		}
	}
}

// gather takes, behind the first, what else waits and is still wanted.
func (w *writer) gather(first *write) []*write {
	group := make([]*write, 0, 8)
	for next := first; ; {
		if next.state.CompareAndSwap(claimNone, claimTaken) {
			group = append(group, next)
		}
		if len(group) == groupMost {
			return group
		}
		select {
		case next = <-w.queue:
		default:
			return group
		}
	}
}

// refuseRest fails what is queued when the store is closed.
func (w *writer) refuseRest() {
	for {
		select {
		case job := <-w.queue:
			if job.state.CompareAndSwap(claimNone, claimTaken) {
				job.finish(errClosed)
			}
		default:
			return
		}
	}
}

// group commits several writes at once. One that fails leaves the others alone, and each caller gets its own write's
// error or the commit's; none is released before COMMIT has returned. The writer's own statements never run under a
// context of a caller's: one that ended in between would leave a transaction open.
func (w *writer) group(jobs []*write) {
	if len(jobs) == 0 {
		return
	}
	bg := context.Background()
	if _, err := w.q.ExecContext(bg, "BEGIN IMMEDIATE"); err != nil {
		finishAll(jobs, classify(err))
		return
	}
	good := jobs[:0:0]
	for _, job := range jobs {
		job.err = w.one(job, len(jobs) > 1)
		if errors.Is(job.err, errGroupLost) {
			w.rollback()
			finishAll(jobs, job.err)
			return
		}
		if job.err == nil {
			good = append(good, job)
		}
	}
	if err := w.commit(len(good) > 0); err != nil {
		for _, job := range good {
			job.err = err
		}
	}
	for _, job := range jobs {
		job.finish(job.err)
	}
}

// errGroupLost: SQLite ended the whole transaction (a full disk does that), and with it
// the writes before this one.
var errGroupLost = fmt.Errorf("%w: the transaction was ended", store.ErrUnavailable)

// one runs a write. With others around it, a savepoint takes back what it did when it fails.
func (w *writer) one(job *write, shared bool) (err error) {
	if err := job.ctx.Err(); err != nil {
		return fmt.Errorf("%w: waiting to write: %w", store.ErrUnavailable, err)
	}
	bg := context.Background()
	if shared {
		if _, err := w.q.ExecContext(bg, "SAVEPOINT one"); err != nil {
			return errors.Join(errGroupLost, err)
		}
	}
	if err = job.run(w.q); err == nil {
		if shared {
			_, err = w.q.ExecContext(bg, "RELEASE one")
		}
		return classify(err)
	}
	if shared {
		if _, lost := w.q.ExecContext(bg, "ROLLBACK TO one"); lost != nil {
			return errors.Join(errGroupLost, err)
		}
		_, _ = w.q.ExecContext(bg, "RELEASE one") // an empty savepoint
	}
	return err
}

// run calls fn; a panic of its is its caller's, and inTx raises it there again. For the group it is a write that failed.
func (job *write) run(q sqldb.Queryer) (err error) {
	defer func() {
		if job.panic = recover(); job.panic != nil {
			err = fmt.Errorf("sqlite: a write panicked: %v", job.panic)
		}
	}()
	return job.fn(job.ctx, q)
}

// commit ends the transaction of a group, with a rollback where no write is wanted.
func (w *writer) commit(wanted bool) error {
	if !wanted {
		w.rollback()
		return nil
	}
	if _, err := w.q.ExecContext(context.Background(), "COMMIT"); err != nil {
		w.rollback()
		return classifyCommit(err)
	}
	return nil
}

// rollback ends a transaction that failed. Some failures (a full disk) have ended it
// already, so its own error adds nothing.
func (w *writer) rollback() { _, _ = w.q.ExecContext(context.Background(), "ROLLBACK") }

func (job *write) finish(err error) {
	job.err = err
	close(job.done)
}

func finishAll(jobs []*write, err error) {
	for _, job := range jobs {
		job.finish(err)
	}
}

// close waits for the write in progress and lets no other begin. Later calls wait for the first and return what it did.
// A writer that was never started has only its database to close.
func (w *writer) close() error {
	w.closing.Do(func() {
		close(w.closed)
		if w.conn == nil {
			w.fate = w.db.Close()
			return
		}
		<-w.ended
		w.fate = errors.Join(w.q.close(), w.conn.Close(), w.db.Close())
	})
	return w.fate
}
