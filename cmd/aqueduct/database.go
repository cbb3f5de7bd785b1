// The database flag: which of the two stores it names, how it is printed, and where files lie that belong beside it.

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
)

// databaseFlag names a database: sqlite:PATH or a postgres:// URL, which may hold a password. It goes into logs by
// LogValue and into errors by String, neither of which has the password.
type databaseFlag string

// LogValue implements slog.LogValuer.
func (d databaseFlag) LogValue() slog.Value { return slog.StringValue(d.String()) }

// String is the flag without its password, which a URL of PostgreSQL may hold before the host or among its parameters.
func (d databaseFlag) String() string {
	if strings.HasPrefix(string(d), "sqlite:") {
		return string(d)
	}
	u, err := url.Parse(string(d))
	if err != nil || u.Opaque != "" || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "[unreadable]"
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") { // password, sslpassword
			query.Set(name, "xxxxx")
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}

// open opens the database and brings its schema up to date. key is that of the audit; the zero value is for those who write
// no entries.
func (d databaseFlag) open(ctx context.Context, key store.AuditKey) (store.Store, error) {
	kind, path, _ := strings.Cut(string(d), ":")
	switch kind {
	case "sqlite":
		// sqlite://PATH means the same, for those who know URLs of databases.
		return sqlite.Open(ctx, strings.TrimPrefix(path, "//"), sqlite.Options{AuditKey: key})
	case "postgres", "postgresql":
		return postgres.Open(ctx, string(d), postgres.Options{AuditKey: key})
	}
	return nil, errNoDatabase
}

// errNoDatabase is what a flag gets that names neither kind.
var errNoDatabase = errors.New("--database: expected sqlite:PATH or postgres://…")

// beside is where a file of the server lies that no flag names: in the folder of the SQLite database, or, where the database has
// no folder here, in that of the signing key.
func (d databaseFlag) beside(key keyFlag, name string) string {
	if path, ok := d.file(); ok {
		return filepath.Join(filepath.Dir(path), name)
	}
	return filepath.Join(filepath.Dir(string(key.SigningKeyFile)), name)
}

// file is the SQLite database's file; false for any other database.
func (d databaseFlag) file() (string, bool) {
	kind, path, _ := strings.Cut(string(d), ":")
	path, _, _ = strings.Cut(strings.TrimPrefix(path, "//"), "?") // parameters of the driver
	return path, kind == "sqlite"
}

// looking is a database that is only read.
type looking interface {
	store.Reader
	io.Closer
}

// look opens a database that is there and leaves it as it is, its schema too: looking must not change what replicas
// of another version work with. A command that only looks may run beside a server of another version.
func (d databaseFlag) look(ctx context.Context) (looking, error) {
	kind, path, _ := strings.Cut(string(d), ":")
	switch kind {
	case "sqlite":
		return sqlite.OpenReadOnly(ctx, strings.TrimPrefix(path, "//"))
	case "postgres", "postgresql":
		return postgres.Open(ctx, string(d), postgres.Options{NoMigrate: true}) // nothing is written, though it could be
	}
	return nil, errNoDatabase
}
