package storetest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"aqueduct/migrations"
)

// SQLite is the path of an empty, migrated database of the test's own, which the end of the
// test removes. It is a copy of one that was migrated once: under the race detector, making
// the tables anew for each test would be most of the test's time.
func SQLite(t testing.TB) (path string) {
	t.Helper()
	raw, err := migratedSQLite()
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	path = filepath.Join(t.TempDir(), "aqueduct.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatalf("storetest: %v", err)
	}
	return path
}

// migratedSQLite is the file that every test's database is a copy of. The first call must be made
// outside of the bubbles of tests (internal/bubbletest): what one of them waits for must not be done by another.
var migratedSQLite = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "aqueduct-sqlite")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "aqueduct.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)")
	if err != nil {
		return nil, err
	}
	m, err := migrations.SQLite(db)
	if err == nil {
		_, err = m.Up(context.Background())
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})
