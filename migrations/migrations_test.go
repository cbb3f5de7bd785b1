package migrations_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"aqueduct/migrations"
	"aqueduct/store/storetest"
)

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// column is what both databases must agree on, in the words of neither.
type column struct {
	kind     string
	required bool
	key      bool
}

// TestSameSchema: the one SQL text runs on both databases because their tables and
// columns are the same.
func TestSameSchema(t *testing.T) {
	lite, pg := open(t, "sqlite", filepath.Join(t.TempDir(), "aqueduct.db")), open(t, "pgx", storetest.Postgres(t))
	up(t, migrations.SQLite, lite)
	up(t, migrations.Postgres, pg)
	a, b := sqliteColumns(t, lite), postgresColumns(t, pg)
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			t.Errorf("%s: SQLite %+v, PostgreSQL %+v", name, a[name], b[name])
		}
	}
	for name := range b {
		if _, both := a[name]; !both {
			t.Errorf("%s: PostgreSQL only", name)
		}
	}
	for _, table := range strings.Fields("sessions turns runs events records messages tool_calls approvals commands replicas proxies sandbox_instances tools grants outbox audit decision_links approval_positions delegations message_parts credentials credential_holders shares sealed_originals bootstrap_uses agents model_calls context_blobs blobs budgets tasks queue_lock events_cut search_texts used_tickets") {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(a)), func(c string) bool { return strings.HasPrefix(c, table+".") }) {
			t.Errorf("no table %s", table)
		}
	}
	// SQLite has one writer, so that the trigger alone keeps rows apart.
	x, y := indexes(t, lite, sqliteIndexes), slices.DeleteFunc(indexes(t, pg, postgresIndexes), func(name string) bool {
		return name == "events.events_begin" || name == "search_texts.search_texts_tokens"
	})
	if !slices.Equal(x, y) {
		t.Errorf("indexes differ:\n%v\n%v", x, y)
	}
}

// TestDownAndUp: every migration can be taken back and made again.
func TestDownAndUp(t *testing.T) {
	lite, pg := open(t, "sqlite", filepath.Join(t.TempDir(), "aqueduct.db")), open(t, "pgx", storetest.Postgres(t))
	for name, p := range map[string]*goose.Provider{
		"sqlite":   up(t, migrations.SQLite, lite),
		"postgres": up(t, migrations.Postgres, pg),
	} {
		if _, err := p.DownTo(t.Context(), 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := p.Up(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(sqliteColumns(t, lite)) == 0 || len(postgresColumns(t, pg)) == 0 {
		t.Error("no tables after down and up")
	}
}

// TestAuditStays: neither database lets a row of the audit be changed, replaced or taken away.
func TestAuditStays(t *testing.T) {
	lite, pg := open(t, "sqlite", filepath.Join(t.TempDir(), "aqueduct.db")), open(t, "pgx", storetest.Postgres(t))
	up(t, migrations.SQLite, lite)
	const row = "INTO audit (seq, ts, action, prev_hash, hash) VALUES (1, 1, 'x', '', 'h')"
	forbidden := []string{"UPDATE audit SET action = 'y'", "UPDATE audit SET action = action WHERE seq = 1", "DELETE FROM audit", "INSERT " + row}
	for name, c := range map[string]struct {
		db   *sql.DB
		more []string
	}{
		"sqlite":   {lite, []string{"INSERT OR REPLACE " + row, "REPLACE " + row, "INSERT " + row + " ON CONFLICT (seq) DO UPDATE SET action = 'y'"}},
		"postgres": {pg, []string{"TRUNCATE audit", "INSERT " + row + " ON CONFLICT (seq) DO UPDATE SET action = 'y'"}},
	} {
		if _, err := c.db.ExecContext(t.Context(), "INSERT "+row); err != nil {
			t.Fatal(name, err)
		}
		for _, statement := range append(c.more, forbidden...) {
			if _, err := c.db.ExecContext(t.Context(), statement); err == nil {
				t.Errorf("%s: %s", name, statement)
			}
		}
		var action string
		if err := c.db.QueryRowContext(t.Context(), "SELECT action FROM audit").Scan(&action); err != nil || action != "x" {
			t.Errorf("%s: %q %v", name, action, err)
		}
	}
}

func up(t *testing.T, provider func(*sql.DB) (*goose.Provider, error), db *sql.DB) *goose.Provider {
	t.Helper()
	p, err := provider(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Up(context.Background()); err != nil {
		t.Fatal(err)
	}
	return p
}

func sqliteColumns(t *testing.T, db *sql.DB) map[string]column {
	return columns(t, db, `SELECT m.name, c.name, lower(c.type), c."notnull" = 1, c.pk > 0
		FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'
		AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'goose_%' AND m.name NOT LIKE 'search_index%'`) // PostgreSQL has search_texts.tokens
}

func postgresColumns(t *testing.T, db *sql.DB) map[string]column {
	return columns(t, db, `SELECT c.table_name, c.column_name, c.data_type, c.is_nullable = 'NO',
		EXISTS (SELECT 1 FROM information_schema.key_column_usage k JOIN information_schema.table_constraints x
			USING (constraint_name, table_name) WHERE x.constraint_type = 'PRIMARY KEY'
			AND k.table_name = c.table_name AND k.column_name = c.column_name)
		FROM information_schema.columns c WHERE c.table_schema = 'public' AND c.table_name NOT LIKE 'goose_%' AND c.table_name || '.' || c.column_name <> 'search_texts.tokens'`)
}

func columns(t *testing.T, db *sql.DB, query string) map[string]column {
	t.Helper()
	found := map[string]column{}
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var table, name string
		var c column
		if err := rows.Scan(&table, &name, &c.kind, &c.required, &c.key); err != nil {
			t.Fatal(err)
		}
		switch c.kind { // what the databases call differently
		case "json":
			c.kind = "text"
		case "bytea":
			c.kind = "blob"
		}
		found[table+"."+name] = c
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

const (
	sqliteIndexes   = `SELECT tbl_name || '.' || name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL`
	postgresIndexes = `SELECT tablename || '.' || indexname FROM pg_indexes WHERE schemaname = 'public'
		AND indexname NOT LIKE '%_pkey' AND tablename NOT LIKE 'goose_%'`
)

func indexes(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if rows.Err() != nil || len(names) == 0 {
		t.Fatal(fmt.Sprint("no indexes: ", rows.Err()))
	}
	return names
}

// TestNewerDatabaseIsRefused: a program does not start on a database whose schema a later one has changed, and names both
// versions.
func TestNewerDatabaseIsRefused(t *testing.T) {
	for name, of := range map[string]struct {
		db       *sql.DB
		provider func(*sql.DB) (*goose.Provider, error)
	}{
		"SQLite":     {open(t, "sqlite", filepath.Join(t.TempDir(), "aqueduct.db")), migrations.SQLite},
		"PostgreSQL": {open(t, "pgx", storetest.Postgres(t)), migrations.Postgres},
	} {
		p := up(t, of.provider, of.db)
		if err := migrations.Up(t.Context(), p); err != nil {
			t.Errorf("%s, up to date: %v", name, err)
		}
		known, err := p.GetDBVersion(t.Context())
		if err == nil {
			_, err = of.db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO goose_db_version (version_id, is_applied) VALUES (%d, TRUE)", known+1))
		}
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("schema version %d and is newer than this program, which knows versions up to %d", known+1, known)
		if err := migrations.Up(t.Context(), p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
