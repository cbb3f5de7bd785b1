package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"
)

const (
	// scrubTries and scrubPause bound how long Scrub tries. A reader or the writer holds the log for milliseconds.
	scrubTries = 50
	scrubPause = 10 * time.Millisecond
)

// Scrub implements store.Store. Deleted rows are zeros in the file (secure_delete), but the log still has the pages as they
// were: it is written back and truncated. The connection is one of its own that never waits for a lock, so neither the
// writer nor a reader is held up by other readers.
func (s *Store) Scrub(ctx context.Context) (err error) {
	u := url.URL{Scheme: "file", Path: s.path, RawQuery: url.Values{"_pragma": {"busy_timeout(0)"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	tick := time.NewTicker(scrubPause)
	defer tick.Stop()
	for range scrubTries {
		// busy means that a reader stands in the log, or that another writes: not an error, but nothing was truncated.
		// It is left so when the tries are used up.
		var busy, pages, done int
		err = classify(db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &done))
		if err == nil && busy == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}
