package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// mostPages is how many pages of an SQLite file a statement may visit: those of a few look-ups. A walk of the least index
// there is visits several times as many.
const (
	mostPages   = 200
	pagesPerArg = 4 // a list of ids is a look-up for each
)

// WalksSQLite judges what stores on SQLite sent: it plans and runs each statement on tables of filledRows rows, and lists
// those that walk a table or an index, or visit many pages. With all, it lists exceptions that are not needed too.
func (s *Sent) WalksSQLite(all bool) ([]string, error) {
	texts := s.texts()
	if len(texts) == 0 {
		return nil, nil
	}
	raw, err := migratedSQLite()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "aqueduct-plans")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "plans.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(off)&_pragma=journal_mode(off)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	defer db.Close()
	if err := withoutTriggers(db); err != nil {
		return nil, err
	}
	for _, table := range neededTables(texts) {
		if err := fillSQLite(db, table); err != nil {
			return nil, err
		}
	}
	if err := execAll(db, "PRAGMA journal_mode = MEMORY"); err != nil { // a statement that changes rows is rolled back
		return nil, err
	}
	partial, err := partialIndexes(db)
	if err != nil {
		return nil, err
	}
	var walks []walk
	for _, text := range texts {
		found, err := visitSQLite(db, text, s.argsFor(text), partial)
		if err != nil {
			return nil, err
		}
		if found != "" {
			walks = append(walks, walk{text, found})
		}
	}
	return judge(walks, all), nil
}

// withoutTriggers drops those that keep sums, which the filling has no use for.
func withoutTriggers(db *sql.DB) error {
	rows, err := db.Query("SELECT 'DROP TRIGGER ' || name FROM sqlite_master WHERE type = 'trigger' AND name NOT LIKE 'audit_%'")
	if err != nil {
		return err
	}
	defer rows.Close()
	var drops []string
	for rows.Next() {
		var drop string
		if err := rows.Scan(&drop); err != nil {
			return err
		}
		drops = append(drops, drop)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	return execAll(db, drops...)
}

func fillSQLite(db *sql.DB, table string) error {
	rows, err := db.Query("SELECT name, type, \"notnull\", dflt_value FROM pragma_table_info(?)", table)
	if err != nil {
		return err
	}
	defer rows.Close()
	var columns []column
	for rows.Next() {
		var c column
		var notNull bool
		var value sql.NullString
		if err := rows.Scan(&c.name, &c.typ, &notNull, &value); err != nil {
			return err
		}
		c.hasDefault = !notNull || value.Valid
		columns = append(columns, c)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	fill := fillOf(table, columns, "printf('"+idPrefix+"%012d', i)")
	return execAll(db, strings.ReplaceAll(fill, "{bytes}", "x'7b7d'")+
		fmt.Sprintf(" FROM (WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n)", filledRows))
}

// partialIndexes are the names of the indexes that hold only some rows of their table. Those that hold all but a few
// rows, such as the living Sessions, count as whole.
func partialIndexes(db *sql.DB) (map[string]bool, error) {
	rows, err := db.Query(`SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %' AND sql NOT LIKE '%deleted_at = 0'
		AND sql NOT LIKE '%> ''''' AND sql NOT LIKE '%NOT replaced' AND sql NOT LIKE '%source = ''api'''`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	partial := make(map[string]bool)
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		partial[name] = true
	}
	return partial, rows.Err()
}

// visitSQLite returns the problem of a statement whose rows SQLite finds by too many pages, or "".
func visitSQLite(db *sql.DB, text string, args [3][]any, partial map[string]bool) (string, error) {
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	plan, scans, err := planSQLite(ctx, conn, text, args[0], partial)
	if err != nil {
		return "", fmt.Errorf("%s: %w", text, err)
	}
	for _, with := range args {
		pages, err := runSQLite(ctx, conn, text, with)
		if err != nil {
			return "", err
		}
		if scans || pages > mostPages+pagesPerArg*len(with) {
			return fmt.Sprintf("-- %d pages, %v\n%s", pages, with, plan), nil
		}
	}
	return "", nil
}

// runSQLite runs a statement, rolls it back, and counts the pages that it visited.
func runSQLite(ctx context.Context, conn *sql.Conn, text string, args []any) (pages int, err error) {
	before, err := pagesVisited(conn)
	if err != nil {
		return 0, err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return 0, err
	}
	drain(ctx, conn, text, args)
	after, err := pagesVisited(conn)
	if _, e := conn.ExecContext(ctx, "ROLLBACK"); err == nil {
		err = e
	}
	return after - before, err
}

// planSQLite returns SQLite's plan of a statement, and reports whether that walks a table or an index.
func planSQLite(ctx context.Context, conn *sql.Conn, text string, args []any, partial map[string]bool) (plan string, scans bool, err error) {
	rows, err := conn.QueryContext(ctx, "EXPLAIN QUERY PLAN "+text, args...)
	if err != nil {
		return "", false, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			return "", false, err
		}
		plan += detail + "\n"
		words := strings.Fields(detail)
		if words[0] == "SCAN" && !strings.Contains(detail, "VIRTUAL TABLE") && !inMemory(words[1], text) && !partial[words[len(words)-1]] || strings.Contains(detail, "AUTOMATIC") {
			scans = true
		}
	}
	return plan, scans, rows.Err()
}

// inMemory reports whether SCAN reads rows that the statement itself made, and not a table.
func inMemory(name, text string) bool {
	if strings.Contains(text, ") "+name) || name == "CONSTANT" || strings.HasPrefix(name, "json_each") || strings.HasPrefix(name, "(") {
		return true
	}
	for _, table := range tablesOf(text) {
		if name == table || strings.Contains(text, table+" "+name+" ") || strings.Contains(text, table+" "+name+")") || strings.Contains(text, table+" AS "+name+" ") ||
			strings.HasSuffix(text, table+" "+name) {
			return false
		}
	}
	return true
}

// drain runs a statement to its end. Its own error, such as a key that is there, does not concern its plan.
func drain(ctx context.Context, conn *sql.Conn, text string, args []any) {
	rows, err := conn.QueryContext(ctx, text, args...)
	if err != nil {
		return
	}
	defer rows.Close()
	for rows.Next() {
	}
	_ = rows.Err()
}

// pagesVisited counts the pages that a connection has visited so far.
func pagesVisited(conn *sql.Conn) (pages int, err error) {
	err = conn.Raw(func(raw any) error {
		for _, op := range []sqlite.DBStatusOp{sqlite.DBStatusCacheHit, sqlite.DBStatusCacheMiss} {
			n, _, err := raw.(sqlite.DBStatus).Status(op, false)
			if err != nil {
				return err
			}
			pages += n
		}
		return nil
	})
	return pages, err
}
