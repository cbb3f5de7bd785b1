// Package postgres is the store in PostgreSQL, for any number of replicas. Reads and
// requests go through a pool; the Batches of a replica go through one connection of
// their own, in one write each, so that no transaction of ours is ever left open.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"aqueduct/internal/retry"
	"aqueduct/migrations"
	"aqueduct/store"
	"aqueduct/store/sqldb"
)

const (
	// DefaultMaxConns bounds the pool: more requests at once wait for a connection here
	// rather than for a processor there.
	DefaultMaxConns = 16
	// maxTries is how often a transaction the database gave up on (a deadlock, a
	// serialization failure) is run.
	maxTries = 5
	// tryAgain bounds the pause before the second try; those after it grow.
	tryAgain = 10 * time.Millisecond

	// lockAudit takes a lock of our own number; with the row at the end locked instead, two
	// that begin the chain would not meet.
	lockAudit = "SELECT pg_advisory_xact_lock(7241970311)"

	// sizeOf counts what is sent; pg_column_size would count what compression left.
	sizeOf = "octet_length(%s::text)"

	// idleInTransaction ends the transaction of a replica that froze inside it, which
	// would otherwise hold a Session's row against everybody.
	idleInTransaction = "5s"
	// statementTimeout and lockTimeout bound what one statement may take.
	statementTimeout = "30s"
	lockTimeout      = "10s"
)

// Options configure Open; the zero value is right for a server.
type Options struct {
	// MaxConns bounds the pool of reads and requests; 0 is DefaultMaxConns.
	MaxConns int
	// NoMigrate leaves the schema as it is.
	NoMigrate bool
	// Now is the clock of heartbeats and delegations; nil is time.Now.
	Now func() time.Time
	// AuditKey makes the MACs of the audit's entries; the zero value makes none.
	AuditKey store.AuditKey
	// Tracer gets all statements that are sent, for tests that judge how rows are found. Nil traces none.
	Tracer pgx.QueryTracer

	noStatistics bool // of tests that look at plans made without any
}

// Store implements store.Store. Reads outside of transactions go to the pool as they are, each a transaction of its own.
type Store struct {
	sqldb.Reader
	dialect   *sqldb.Dialect
	db        *sql.DB
	committer *committer
	pooled    bool // connections end at a pooler, and so keep nothing
	stop      context.CancelFunc
	tasks     sync.WaitGroup // that end with stop
}

var _ store.Store = (*Store)(nil)

// Open connects to the database dsn names (a URL or keywords) and brings its schema up
// to date.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	cfg, err := config(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Tracer = o.Tracer
	pooled, err := isPooled(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", classify(err))
	}
	if pooled {
		cfg = pooledConfig(cfg)
	}
	db := stdlib.OpenDB(*cfg)
	conns := o.MaxConns
	if conns <= 0 {
		conns = DefaultMaxConns
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	d := &sqldb.Dialect{LockRow: " FOR NO KEY UPDATE", LockAudit: lockAudit, SkipLocked: " FOR NO KEY UPDATE SKIP LOCKED", SizeOf: sizeOf, ItemsOf: "json_array_elements_text", NextPlace: "nextval('search_places')", Contains: "strpos", Classify: classify, Now: o.Now, AuditKey: o.AuditKey}
	s := &Store{Reader: sqldb.NewReader(db, d), dialect: d, db: db, committer: newCommitter(cfg, pooled), pooled: pooled, stop: func() {}}
	if err := s.prepare(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("postgres: open: %w", classify(err)), s.Close())
	}
	if !o.NoMigrate && !o.noStatistics { // who leaves the schema as it is only looks
		background, stop := context.WithCancel(context.WithoutCancel(ctx))
		s.stop = stop
		s.tasks.Go(func() { s.statistics(background) })
	}
	return s, nil
}

// config is the connection's settings. READ COMMITTED is set by us: the fence and the
// compare-and-sets depend on seeing what others have just committed.
func config(dsn string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err) // pgx leaves the password out of it
	}
	for name, value := range settings() {
		cfg.RuntimeParams[name] = value
	}
	return cfg, nil
}

const applicationName = "aqueduct"

// settings are those of every connection of our own.
func settings() map[string]string {
	return map[string]string{
		"default_transaction_isolation":       "read committed",
		"idle_in_transaction_session_timeout": idleInTransaction,
		"statement_timeout":                   statementTimeout,
		"lock_timeout":                        lockTimeout,
		"application_name":                    applicationName,
		// Every query here is a look-up by an index. A plan made while a table was empty
		// would read all of it for as long as the plan is kept.
		"enable_seqscan": "off",
		"jit":            "off",
		// A list of rows to move is short; joining it any other way would read a whole index.
		"enable_hashjoin":  "off",
		"enable_mergejoin": "off",
		// Planning one of our look-ups costs several times what running it does.
		"plan_cache_mode": "force_generic_plan",
	}
}

// prepare checks the database behind a pooler and migrates it, unless the Options leave the schema alone.
func (s *Store) prepare(ctx context.Context, o Options) error {
	if s.pooled {
		if err := checkPooled(ctx, s.db); err != nil {
			return err
		}
	}
	if o.NoMigrate {
		return s.db.PingContext(ctx)
	}
	if s.pooled {
		return migratePooled(ctx, s.db)
	}
	p, err := migrations.Postgres(s.db)
	if err != nil {
		return err
	}
	return migrations.Up(ctx, p)
}

// InTx implements store.Store.
func (s *Store) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return sqldb.Patiently(ctx, func() error {
		return s.inTx(ctx, func(_ *pipeline, tx *sqldb.Tx) error { return fn(tx) })
	})
}

// inTx runs fn, again when the database ended its transaction in favour of another.
func (s *Store) inTx(ctx context.Context, fn func(*pipeline, *sqldb.Tx) error) error {
	for try := 1; ; try++ {
		again, err := s.tryTx(ctx, fn)
		if !again || try == maxTries {
			return err
		}
		// The two that met must not meet again.
		if retry.Sleep(ctx, rand.N(time.Duration(try)*tryAgain)) != nil {
			return err
		}
	}
}

// tryTx runs fn in one transaction, once. again is true when the database has undone it for the sake of another, so that
// nothing of it is left.
func (s *Store) tryTx(ctx context.Context, fn func(*pipeline, *sqldb.Tx) error) (again bool, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return false, classifyIdle(err)
	}
	defer conn.Close() // it goes back to the pool
	raw := begin(conn)
	if s.pooled {
		raw.Later(pooledTx)
	}
	defer raw.rollback(ctx)
	tx := sqldb.NewTx(raw, s.dialect)
	// An error of a statement counts even where fn has swallowed it: PostgreSQL would answer COMMIT with a rollback and
	// no error. What failed tells whether to try again, whatever fn made of it.
	err = fn(raw, tx)
	if failed := tx.Err(); failed != nil {
		if err == nil {
			err = failed
		}
		return collided(failed), err
	}
	if err != nil {
		return false, err
	}
	if err := raw.commit(ctx); err != nil {
		return collided(err), classifyCommit(err)
	}
	return false, nil
}

// Ping implements store.Store.
func (s *Store) Ping(ctx context.Context) error {
	var readOnly bool
	err := s.db.QueryRowContext(ctx, "SELECT current_setting('transaction_read_only')::boolean").Scan(&readOnly)
	if err != nil {
		return classifyIdle(err)
	}
	if readOnly {
		return fmt.Errorf("%w: the database is read-only", store.ErrUnavailable)
	}
	if _, err := s.db.ExecContext(ctx, sqldb.PingStatement); err != nil {
		return classifyIdle(err)
	}
	return nil
}

// Scrub implements store.Store. Nothing is done: what was deleted is overwritten when the server vacuums, which is its
// administrator's to arrange.
func (s *Store) Scrub(context.Context) error { return nil }

// Close implements store.Store.
func (s *Store) Close() error {
	s.stop()
	s.tasks.Wait()
	return errors.Join(s.committer.close(), s.db.Close())
}
