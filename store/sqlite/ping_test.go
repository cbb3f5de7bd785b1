package sqlite_test

import (
	"database/sql"
	"testing"

	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// TestPingWrites checks that a ping writes a row, because a full disk refuses writes and not reads.
func TestPingWrites(t *testing.T) {
	t.Parallel()
	path := storetest.SQLite(t)
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	beside, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = beside.Close(), s.Close() })
	tries := func() (n int) {
		t.Helper()
		if err := beside.QueryRowContext(t.Context(), "SELECT tries FROM pings").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := tries()
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := tries(); after != before+1 {
		t.Errorf("%d writes before, %d after", before, after)
	}
}
