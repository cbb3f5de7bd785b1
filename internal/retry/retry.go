// Package retry runs a read again while what it reads from is away, and waits between tries.
package retry

import (
	"context"
	"time"
)

// Pause is the time between two tries of While: short against a person's patience, long against a failed connect.
const Pause = 250 * time.Millisecond

// While calls do until its error is not one that away accepts, with a Pause between two calls. It returns do's last
// error, or ctx's when that ends first.
func While(ctx context.Context, away func(error) bool, do func() error) error {
	for {
		err := do()
		if !away(err) {
			return err
		}
		if err := Sleep(ctx, Pause); err != nil {
			return err
		}
	}
}

// Sleep waits for d, or until ctx ends; then it returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
