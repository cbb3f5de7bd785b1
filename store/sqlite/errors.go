package sqlite

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"aqueduct/store"
	"aqueduct/store/sqldb"
)

// classify turns an error of the driver into one of store's.
func classify(err error) error {
	var failed *sqlite.Error
	if err == nil || !errors.As(err, &failed) || sqldb.Classified(err) {
		return err
	}
	switch code := failed.Code(); {
	case code == sqlite3.SQLITE_CONSTRAINT_UNIQUE, code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
		code == sqlite3.SQLITE_CONSTRAINT_ROWID,   // extended codes; the primary one is that of all constraints
		code == sqlite3.SQLITE_CONSTRAINT_TRIGGER: // events_append: another writer's row is there
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	case refused(code & 0xff):
		return fmt.Errorf("%w: %w", store.ErrData, err)
	case code&0xff == sqlite3.SQLITE_FULL, code == sqlite3.SQLITE_IOERR_SHMSIZE: // the index of the log grows by itself
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// refused are the primary codes that speak about the content of a write.
func refused(code int) bool {
	return code == sqlite3.SQLITE_CONSTRAINT || code == sqlite3.SQLITE_MISMATCH ||
		code == sqlite3.SQLITE_TOOBIG || code == sqlite3.SQLITE_RANGE
}

// classifyCommit is classify for COMMIT: when the disk fails while the log is being
// written or synced, it is unknown what of it a restart will find.
func classifyCommit(err error) error {
	var failed *sqlite.Error
	if errors.As(err, &failed) && failed.Code()&0xff == sqlite3.SQLITE_IOERR {
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	return classify(err)
}

// commitError makes sure that a Batch fails with an error of the contract. A context that ended did so before COMMIT, so
// nothing was written; what is left is an error of the program, of one of the Batch's rows: repeating it cannot help.
func commitError(err error) error {
	if sqldb.Classified(err) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", store.ErrData, err)
}
