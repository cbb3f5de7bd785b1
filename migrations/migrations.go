// Package migrations holds the schema of both databases, as numbered pairs of SQL
// files, and applies them.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed sqlite/*.sql postgres/*.sql
var files embed.FS

// SQLite makes the provider that moves an SQLite database up and down.
func SQLite(db *sql.DB) (*goose.Provider, error) {
	return provider(goose.DialectSQLite3, db, "sqlite")
}

// Postgres makes the provider that moves a PostgreSQL database up and down. It takes
// an advisory lock, so that replicas which start together migrate once.
func Postgres(db *sql.DB) (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, lockTries))
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	return provider(goose.DialectPostgres, db, "postgres", goose.WithSessionLocker(locker))
}

// PostgresUnlocked is Postgres for a caller that holds off other replicas by itself: a lock
// of a session means nothing behind a connection pooler.
func PostgresUnlocked(db *sql.DB) (*goose.Provider, error) {
	return provider(goose.DialectPostgres, db, "postgres")
}

// Up brings a database up to date. It refuses one whose schema is newer than this program: it could misread rows
// that a later version has written.
func Up(ctx context.Context, p *goose.Provider) error {
	has, known, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if has > known {
		return fmt.Errorf("the database has schema version %d and is newer than this program, which knows versions up to %d: start the newer program, or restore a backup from before its first start", has, known)
	}
	_, err = p.Up(ctx)
	return err
}

// lockTries, a second apart, is how long a replica waits for another that migrates.
const lockTries = 60

func provider(d goose.Dialect, db *sql.DB, dir string, more ...goose.ProviderOption) (*goose.Provider, error) {
	sub, err := fs.Sub(files, dir)
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	p, err := goose.NewProvider(d, db, sub, append(more, goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	return p, nil
}
