// This file writes Batches, one at a time, through a connection that bears the replica's name: by that another
// replica finds its backend (fence.go).

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"aqueduct/store"
	"aqueduct/store/sqldb"
)

// closeWithin bounds the goodbye to a server that may be gone.
const closeWithin = 2 * time.Second

// commitWithin bounds one Batch. A server that vanished without a word would otherwise
// be waited for until TCP gives up, which takes a quarter of an hour.
const commitWithin = 20 * time.Second

// committer owns the connection Batches are written through. It is made when the first
// Batch comes and again after every failure that leaves its state in doubt.
type committer struct {
	cfg    *pgx.ConnConfig
	pooled bool
	// turn holds a token while a Batch is written: a lock that a context can end the wait for. It guards what follows.
	turn    chan struct{}
	conn    *pgx.Conn
	replica string // whose name conn bears
	buf     []byte // of joined
	closed  bool
}

func newCommitter(cfg *pgx.ConnConfig, pooled bool) *committer {
	return &committer{cfg: cfg, pooled: pooled, turn: make(chan struct{}, 1)}
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, b *store.Batch) (store.Result, error) {
	c := s.committer
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return store.Result{}, fmt.Errorf("%w: waiting to commit: %w", store.ErrUnavailable, ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, commitWithin)
	defer cancel()
	if err := c.connect(ctx, b.Replica); err != nil {
		return store.Result{}, err
	}
	res, err := c.write(ctx, b)
	if err != nil {
		err = classifyCommit(err)
		// A connection in doubt is not used again: what is in flight on it may still be committed, and closing it
		// cancels that.
		if c.conn.IsClosed() || errors.Is(err, store.ErrUnknownOutcome) {
			c.drop()
		}
		return store.Result{}, err
	}
	return res, nil
}

// connect makes sure of a connection that bears the replica's name. A Batch of another replica gets a new one, because
// the fence finds a replica's backend by the name.
func (c *committer) connect(ctx context.Context, replica string) error {
	if c.closed {
		return fmt.Errorf("%w: the store is closed", store.ErrUnavailable)
	}
	if c.conn != nil && c.replica == replica && !c.conn.IsClosed() {
		return nil
	}
	c.drop()
	cfg := c.cfg.Copy()
	cfg.RuntimeParams["application_name"] = committerName(replica)
	if !c.pooled {
		// Planning anew would copy the rows of every Batch into the plan, to find it the same.
		cfg.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	c.conn, c.replica = conn, replica
	return nil
}

// drop ends the connection, which cancels a statement that may still run on the server.
func (c *committer) drop() {
	if c.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = c.conn.Close(ctx) // the connection is given up whether or not it closes well
	c.conn = nil
}

// close waits for the Batch that is being written, for commitWithin at most.
func (c *committer) close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.closed = true
	c.drop()
	return nil
}

// maxName is what PostgreSQL keeps of an application_name.
const maxName = 63

// committerName is the application_name of a replica's committer: how another replica
// finds its backend when it has to be ended.
func committerName(replica string) string {
	name := committerPrefix + replica
	return name[:min(len(name), maxName)]
}

const committerPrefix = "aqueduct commit "

// write sends the Batch in one write and reads all answers. More than events makes it
// a pipeline: one implicit transaction that the server ends with the last message, and
// undoes when the pipeline breaks off, so nothing of ours can freeze in the middle with
// a transaction open on purpose.
func (c *committer) write(ctx context.Context, b *store.Batch) (store.Result, error) {
	if len(b.Records) == 0 && len(b.Moves) == 0 && len(b.Events) > 0 {
		return store.Result{}, c.appendOnly(ctx, b)
	}
	p := &pgx.Batch{}
	// The order is the order of locks: the replica's row, Sessions by id, then the rows that belong to them. Requests
	// take Sessions first too.
	p.Queue("SELECT aqueduct_fence($1, $2)", b.Replica, sqldb.Number(b))
	if ids := sqldb.LockedFirst(b.Moves); len(ids) > 0 {
		p.Queue("SELECT 1 FROM sessions WHERE session_id = ANY($1) ORDER BY session_id FOR NO KEY UPDATE", ids)
	}
	if len(b.Events) > 0 {
		p.Queue(insertEvents, c.eventArgs(b.Events)...)
	}
	if len(b.Records) > 0 {
		r := sqldb.InsertRecords(b.Records)
		p.Queue(r.SQL, r.Args...)
	}
	before := p.Len()
	moves, err := sqldb.Group(b.Moves)
	if err != nil {
		return store.Result{}, err
	}
	for _, m := range moves {
		p.Queue(m.SQL, m.Args...)
	}
	return send(ctx, c.conn, p, before, moves)
}

// send sends the pipeline and reads an answer for each statement; those behind the first before are moves. An error of
// any of them undoes all: the server skips what follows it up to the end of the pipeline.
func send(ctx context.Context, conn *pgx.Conn, p *pgx.Batch, before int, moves []sqldb.Grouped) (res store.Result, err error) {
	answers := conn.SendBatch(ctx, p)
	// Only Close reads to the end, and so learns whether the transaction was committed.
	defer func() {
		if e := answers.Close(); err == nil {
			err = e
		}
	}()
	for range before {
		if _, err := answers.Exec(); err != nil {
			return store.Result{}, err
		}
	}
	if res.Lost, err = readMoves(answers, moves); err != nil {
		return store.Result{}, err
	}
	slices.Sort(res.Lost)
	return res, nil
}
