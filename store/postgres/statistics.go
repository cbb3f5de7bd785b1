package postgres

import (
	"context"
	"database/sql"
	"time"
)

// A plan is made once a connection and kept until the statistics of its tables change. One
// made while the tables were empty may read a whole index for each row, and autovacuum comes
// by once a minute only: a server whose first minutes are busy would slow down with every
// thread. So tables that have grown are analyzed by the store, which has everybody plan anew.

const (
	// analyzeEvery is how often it looks; a table cannot grow out of hand in between.
	analyzeEvery = 5 * time.Second
	// analyzeWithin bounds one time: a sample of each table is read, however large it is.
	analyzeWithin = 10 * time.Second
	// grownTables are those that have grown fourfold since they were last analyzed, and beyond
	// the size at which reading all of one costs as much as a look-up. Growth by a factor keeps
	// the number of times small.
	grownTables = `SELECT quote_ident(c.relname) FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
		AND pg_relation_size(c.oid) >= 4 * 8192 * greatest(c.relpages, 4) ORDER BY 1`
	// analyzeLock is a lock of our own number: one replica at a time is enough.
	analyzeLock = "SELECT pg_try_advisory_xact_lock(7241970312)"
)

// statistics looks after them until ctx ends. What fails is tried again: without statistics
// everything works, only slower.
func (s *Store) statistics(ctx context.Context) {
	tick := time.NewTicker(analyzeEvery)
	defer tick.Stop()
	for {
		// It is not broken off: a cancelled statement would take its connection with it, for
		// what is over in a moment.
		patience, done := context.WithTimeout(context.WithoutCancel(ctx), analyzeWithin)
		_ = s.analyzeGrown(patience)
		done()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// analyzeGrown analyzes the tables that have grown. Where another replica is at it, nothing is done.
func (s *Store) analyzeGrown(ctx context.Context) error {
	grown, err := namesOf(ctx, s.db)
	if err != nil || len(grown) == 0 {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	var ours bool
	if err := tx.QueryRowContext(ctx, analyzeLock).Scan(&ours); err != nil || !ours {
		return err
	}
	for _, table := range grown {
		if _, err := tx.ExecContext(ctx, "ANALYZE "+table); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// namesOf lists the tables that have grown, quoted.
func namesOf(ctx context.Context, db *sql.DB) (names []string, err error) {
	rows, err := db.QueryContext(ctx, grownTables)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
