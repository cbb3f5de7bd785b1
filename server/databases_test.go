package server_test

import (
	"database/sql"
	"testing"

	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// database is an empty one, for a test that runs on each kind and may look at, or change, its rows behind the store's back.
type database struct {
	t           *testing.T
	driver, dsn string
	open        func(t testing.TB) (store.Store, error) // for a plan
}

// onBothDatabases runs a test on SQLite and on PostgreSQL, at the same time.
func onBothDatabases(t *testing.T, test func(t *testing.T, db database)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := storetest.SQLite(t)
		test(t, database{t, "sqlite", path + "?_pragma=busy_timeout(20000)", func(t testing.TB) (store.Store, error) {
			return sqlite.Open(t.Context(), path, sqlite.Options{Sent: sentSQLite.Note})
		}})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		dsn := storetest.Postgres(t)
		test(t, database{t, "pgx", dsn, func(t testing.TB) (store.Store, error) {
			return postgres.Open(t.Context(), dsn, postgres.Options{Tracer: &sentPostgres})
		}})
	})
}

// exec runs statements as an attacker who has the database and not the server.
func (db database) exec(statements ...string) {
	db.t.Helper()
	conn, err := sql.Open(db.driver, db.dsn)
	if err != nil {
		db.t.Fatal(err)
	}
	defer conn.Close()
	for _, s := range statements {
		if _, err := conn.ExecContext(db.t.Context(), s); err != nil {
			db.t.Fatal(s, err)
		}
	}
}
