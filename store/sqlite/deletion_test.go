package sqlite_test

import (
	"database/sql"
	"slices"
	"testing"

	"aqueduct/store/sqldb"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// TestEveryTableIsPurged: a new table with rows of Sessions must be deleted from with them.
func TestEveryTableIsPurged(t *testing.T) {
	path := storetest.SQLite(t)
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), `SELECT DISTINCT m.name FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND c.name IN ('session_id', 'turn_id', 'run_id', 'approval_id', 'tool_call_id')`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	seen := 0
	for ; rows.Next(); seen++ {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		// Rows of blobs go behind their bytes, which bridge/contextstore deletes.
		if table != "sessions" && table != "blobs" && !slices.Contains(sqldb.PurgedTables(), table) {
			t.Errorf("rows of a deleted Session stay in %s; see purges in store/sqldb/deletion.go", table)
		}
	}
	if err := rows.Err(); err != nil || seen < 10 {
		t.Errorf("%d tables, %v", seen, err)
	}
}
