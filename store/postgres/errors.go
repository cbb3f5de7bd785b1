// This file sorts PostgreSQL's errors into those of store. Three functions differ in what is known about the
// transaction: nothing was written yet (classifyIdle), a statement of an open one failed (classify), or it may have
// been committed (classifyCommit).

package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"aqueduct/store"
	"aqueduct/store/sqldb"
)

// SQLSTATEs of PostgreSQL's errors, and one that a migration defines.
const (
	stateFenced          = "AQ001"
	stateUniqueViolation = "23505"
	stateSerialization   = "40001"
	stateDeadlock        = "40P01"
	stateLockTimeout     = "55P03"
	stateDiskFull        = "53100"
)

// classify turns an error of a statement into one of store's. An error that is not
// about the database (a context that ended, a bug in a scan) stays as it is.
func classify(err error) error {
	if err == nil || sqldb.Classified(err) {
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return fmt.Errorf("%w: %w", classOf(pg.Code), err)
	}
	if ended(err) || !broken(err) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// classOf sorts SQLSTATEs by what a caller can do: 21 to 23, 42 and 54 are about the statement or its values, and would
// come again.
func classOf(state string) error {
	switch {
	case state == stateFenced:
		return store.ErrFenced
	case state == stateUniqueViolation:
		return store.ErrConflict
	case strings.HasPrefix(state, "22"), strings.HasPrefix(state, "23"), strings.HasPrefix(state, "42"),
		strings.HasPrefix(state, "54"), strings.HasPrefix(state, "21"):
		return store.ErrData
	case state == stateDiskFull:
		return store.ErrFull
	}
	return store.ErrUnavailable // 08 connection, 40 collision, 53 resources, 55 locks, 57 intervention, 58 system
}

// classifyIdle is classify where nothing has been written yet: any other failure than
// the caller's own is the database being away.
func classifyIdle(err error) error {
	if err == nil || ended(err) || sqldb.Classified(err) {
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return classify(err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// classifyCommit is classify where a transaction may have been committed: it was not
// only where a living server answered with an error.
func classifyCommit(err error) error {
	if err == nil || sqldb.Classified(err) {
		return err
	}
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Severity == "ERROR":
		return classify(err)
	case pg == nil && pgconn.SafeToRetry(err): // nothing had been sent
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
}

// collided reports whether the database ended the transaction in favour of another.
func collided(err error) bool {
	return isState(err, stateSerialization) || isState(err, stateDeadlock)
}

func isState(err error, state string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == state
}

// ended reports that the caller's own context did, which is no failure of the database.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// broken reports an error of the connection. pgx has no one type for these: dialling, writing and reading each fail in
// their own, some of them the network's as they are.
func broken(err error) bool {
	var dial *pgconn.ConnectError
	return errors.As(err, &dial) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) || isIO(err)
}

// isIO reports a failure of the network below the driver.
func isIO(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, net.ErrClosed)
}
