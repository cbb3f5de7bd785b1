package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"strings"

	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
)

// databaseFlag names a database: sqlite:PATH or a postgres:// URL, which may hold a
// password.
type databaseFlag string

// LogValue implements slog.LogValuer.
func (d databaseFlag) LogValue() slog.Value { return slog.StringValue(d.String()) }

// String is the flag without its password.
func (d databaseFlag) String() string {
	u, err := url.Parse(string(d))
	switch {
	case strings.HasPrefix(string(d), "sqlite:"):
		return string(d)
	case err != nil:
		return "[unreadable]"
	}
	return u.Redacted()
}

// open opens the database and brings its schema up to date.
func (d databaseFlag) open(ctx context.Context) (store.Store, error) {
	return d.openKeyed(ctx, store.AuditKey{})
}

// openKeyed is open for those who write entries of the audit.
func (d databaseFlag) openKeyed(ctx context.Context, key store.AuditKey) (store.Store, error) {
	kind, path, _ := strings.Cut(string(d), ":")
	switch kind {
	case "sqlite":
		return sqlite.Open(ctx, strings.TrimPrefix(path, "//"), sqlite.Options{AuditKey: key})
	case "postgres", "postgresql":
		return postgres.Open(ctx, string(d), postgres.Options{AuditKey: key})
	}
	return nil, errNoDatabase
}

var errNoDatabase = errors.New("--database: expected sqlite:PATH or postgres://…")

// looking is a database that is only read.
type looking interface {
	store.Reader
	io.Closer
}

// look opens a database that is there and leaves it as it is, its schema too: looking must
// not change what replicas of another version work with.
func (d databaseFlag) look(ctx context.Context) (looking, error) {
	kind, path, _ := strings.Cut(string(d), ":")
	switch kind {
	case "sqlite":
		return sqlite.OpenReadOnly(ctx, strings.TrimPrefix(path, "//"))
	case "postgres", "postgresql":
		return postgres.Open(ctx, string(d), postgres.Options{NoMigrate: true})
	}
	return nil, errNoDatabase
}
