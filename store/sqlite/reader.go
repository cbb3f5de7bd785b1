package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"aqueduct/store/sqldb"
)

// ReadOnly is the database of a server that may run meanwhile, to look at. It takes no lock on the file beside it and
// fences nothing; WAL lets it read while the server writes.
type ReadOnly struct {
	sqldb.Reader
	db *sql.DB
}

// OpenReadOnly opens a database that is there, and leaves it as it is: nothing is created or migrated, so the file may
// be of another version's schema.
func OpenReadOnly(ctx context.Context, path string) (*ReadOnly, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	u := url.URL{Scheme: "file", Path: abs, RawQuery: url.Values{
		"mode": {"ro"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds())},
	}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: open %s: %w", path, classify(err)), db.Close())
	}
	return &ReadOnly{sqldb.NewReader(&prepared{source: db}, &sqldb.Dialect{StreamsRows: true, SizeOf: sizeOf, ItemsOf: "json_each", TokenTable: true, NextPlace: nextPlace, Contains: "instr", Classify: classify}), db}, nil
}

// Close lets the file go.
func (r *ReadOnly) Close() error { return r.db.Close() }
