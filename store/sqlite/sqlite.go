// Package sqlite is the store in one SQLite file, for one process: no cgo, nothing to
// install. One connection writes, first come first served; others read beside it.
//
// The fence needs no database here: a lock on a file beside the database keeps a second process out (lock_unix.go), so
// the process that has it fences all replicas of before. What keeping costs is the sync of a commit, so the writer lets
// writes that wait together share one (writer.go) and paces itself (pace.go). The SQL is sqldb's.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"aqueduct/migrations"
	"aqueduct/store"
	"aqueduct/store/sqldb"

	_ "modernc.org/sqlite" // the driver
)

const (
	// readers bounds the connections that read. SQLite reads are CPU work in our own
	// process, so more than a few only wait for each other.
	readers = 4
	// busyTimeout is how long a statement waits for a lock of another program that opened
	// the file (the sqlite3 shell, a backup); this process never competes with itself.
	busyTimeout = 5 * time.Second
	// DefaultLockWait is how long Open waits for a dying predecessor to let the file go.
	DefaultLockWait = 10 * time.Second
)

// secureDelete overwrites with zeros what is deleted. It costs nothing where nothing is deleted or grows over its page.
const secureDelete = "secure_delete(1)"

// sizeOf reads a value's header only.
const sizeOf = "octet_length(%s)"

// nextPlace is the number after the last. There is one writer, so it is free.
const nextPlace = "(SELECT COALESCE(MAX(p.place), 0) + 1 FROM search_texts p)"

// Options configure Open; the zero value is right for a server.
type Options struct {
	// LockWait is how long to wait for the lock on the file; 0 is DefaultLockWait, less
	// than 0 is not at all.
	LockWait time.Duration
	// Now is the clock of heartbeats and delegations; nil is time.Now.
	Now func() time.Time
	// AuditKey makes the MACs of the audit's entries; the zero value makes none.
	AuditKey store.AuditKey
	// Sent gets each statement before it is run, for tests that judge how its rows are found. Nil is not called.
	Sent func(query string, args []any)
}

// Store implements store.Store.
type Store struct {
	sqldb.Reader
	dialect *sqldb.Dialect
	sent    func(query string, args []any)
	lock    *fileLock
	writer  *writer
	readDB  *sql.DB
	reads   *prepared
	path    string
	reserve reserve
}

var _ store.Store = (*Store)(nil)

// Open opens or creates the database at path and brings its schema up to date. While
// another process holds it, Open waits and then fails with store.ErrLocked.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(abs), 0o700); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	wait := o.LockWait
	if wait == 0 {
		wait = DefaultLockWait
	}
	lock, err := lockFile(ctx, abs+".lock", wait)
	if err != nil {
		return nil, err
	}
	if err := private(abs); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	s := &Store{lock: lock, sent: o.Sent, dialect: &sqldb.Dialect{StreamsRows: true, SizeOf: sizeOf, ItemsOf: "json_each", TokenTable: true, NextPlace: nextPlace, Contains: "instr", Classify: classify, Now: o.Now, AuditKey: o.AuditKey}}
	s.reserve.path = abs + ".reserve"
	if err := s.open(ctx, abs); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: open %s: %w", path, classify(err)), s.Close())
	}
	// The lock on the file means that no other process can write any more, so every replica
	// that is still listed as living died without fencing itself. On a full disk the start takes the reserve, since no user
	// can delete threads of a server that does not start.
	s.reserve.hold()
	if err := s.write(store.Deleting(ctx), func(ctx context.Context, tx *sqldb.Tx) error { return tx.FenceAll(ctx) }); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: open %s: %w", path, err), s.Close())
	}
	return s, nil
}

// open opens the connections, the writer's first, which migrates. What it leaves behind when it fails, Close ends.
func (s *Store) open(ctx context.Context, path string) error {
	s.path = path
	writeDB, err := sql.Open("sqlite", dsn(path, "synchronous(FULL)", secureDelete))
	if err != nil {
		return err
	}
	writeDB.SetMaxOpenConns(1)
	s.writer = newWriter(writeDB, s.sent)
	p, err := migrations.SQLite(writeDB)
	if err != nil {
		return err
	}
	if err := migrations.Up(ctx, p); err != nil {
		return err
	}
	if err := s.writer.start(ctx); err != nil {
		return err
	}
	if s.readDB, err = sql.Open("sqlite", dsn(path, "query_only(1)")); err != nil {
		return err
	}
	s.readDB.SetMaxOpenConns(readers)
	s.readDB.SetMaxIdleConns(readers)
	s.reads = &prepared{source: s.readDB, sent: s.sent}
	s.Reader = sqldb.NewReader(s.reads, s.dialect)
	return nil
}

// private creates the file readable by its owner only; it holds people's chats, and
// SQLite gives its side files the same mode. It must come before SQLite opens the file.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return f.Close()
}

// dsn names the file and what every connection to it is set to. The journal mode is
// kept in the file, so a second caller only confirms it.
func dsn(path string, pragmas ...string) string {
	q := url.Values{"_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "journal_mode(WAL)",
	}, pragmas...)}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return u.String()
}

// InTx implements store.Store. fn runs once if it does not fail, because one writer has no conflicts. It runs on the
// writer's goroutine, so all other writes wait for it, and one that it makes itself outside of its transaction would never end.
func (s *Store) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return sqldb.Patiently(ctx, func() error {
		return s.write(ctx, func(_ context.Context, tx *sqldb.Tx) error { return fn(tx) })
	})
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, b *store.Batch) (store.Result, error) {
	var res store.Result
	err := s.write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		res, err = tx.Apply(ctx, b)
		return err
	})
	if err != nil {
		return store.Result{}, commitError(err)
	}
	return res, nil
}

// Register implements store.Replicas. No namesake can be in mid-commit: the file is
// ours alone.
func (s *Store) Register(ctx context.Context, r store.Replica) error {
	return s.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := tx.FenceNamesakes(ctx, r.Name, r.ID); err != nil {
			return err
		}
		return tx.InsertReplica(ctx, r)
	})
}

// Beat implements store.Replicas. With it, a reserve that was given up is made again as soon as there is room.
func (s *Store) Beat(ctx context.Context, id string) error {
	err := s.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return tx.Beat(ctx, id) })
	s.reserve.hold()
	return err
}

// Fence implements store.Replicas.
func (s *Store) Fence(ctx context.Context, id string) error {
	return s.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return tx.FenceReplica(ctx, id) })
}

// Ping implements store.Store: it takes its turn among the writers and the file's
// write lock, and writes, which a full disk refuses.
func (s *Store) Ping(ctx context.Context) error {
	return s.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return tx.Ping(ctx) })
}

// write runs fn in a transaction of the writer. An error of one of its statements undoes it even where fn has swallowed
// it, as on PostgreSQL. On a full disk a deletion gives up the reserve and runs once more.
func (s *Store) write(ctx context.Context, fn func(context.Context, *sqldb.Tx) error) error {
	once := func() error {
		return s.writer.inTx(ctx, func(ctx context.Context, q sqldb.Queryer) error {
			tx := sqldb.NewTx(q, s.dialect)
			if err := fn(ctx, tx); err != nil {
				return err
			}
			return tx.Err()
		})
	}
	if err := s.reserve.admit(store.IsDeleting(ctx)); err != nil {
		return err
	}
	err := once()
	if errors.Is(err, store.ErrFull) && store.IsDeleting(ctx) && s.reserve.giveUp() {
		err = once()
	}
	return err
}

// Close implements store.Store.
func (s *Store) Close() error {
	var errs []error
	if s.readDB != nil {
		errs = append(errs, s.readDB.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	return errors.Join(append(errs, s.lock.release())...)
}
