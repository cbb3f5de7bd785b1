package sqldb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aqueduct/internal/retry"
	"aqueduct/store"
)

// readWithin bounds one try of a patient read. A database that vanished without a word would otherwise be waited for until
// TCP gives up, which takes a quarter of an hour.
const readWithin = 20 * time.Second

// Patiently runs try, and runs it again while the database is away if ctx is patient (store.Patient). A try that fails with
// ErrUnavailable must not leave a change.
func Patiently(ctx context.Context, try func() error) error {
	if !store.IsPatient(ctx) {
		return try()
	}
	return retry.While(ctx, func(err error) bool { return errors.Is(err, store.ErrUnavailable) }, try)
}

// read runs a query of its own. In a transaction it runs once, however patient ctx is: with the connection, all that the
// transaction did before is gone.
func (c *conn) read(ctx context.Context, query func(context.Context) error) error {
	if !c.alone || !store.IsPatient(ctx) {
		return query(ctx)
	}
	return Patiently(ctx, func() error {
		bounded, cancel := context.WithTimeout(ctx, readWithin)
		defer cancel()
		err := query(bounded)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = fmt.Errorf("%w: no answer within %v: %w", store.ErrUnavailable, readWithin, err)
		}
		return err
	})
}
