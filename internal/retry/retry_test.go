package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"aqueduct/internal/bubbletest"
	"aqueduct/internal/retry"
)

var errAway = errors.New("away")

func isAway(err error) bool { return errors.Is(err, errAway) }

func TestWhile(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		err := retry.While(t.Context(), isAway, func() error {
			if tries++; tries < 4 {
				return errAway
			}
			return nil
		})
		if err != nil || tries != 4 || time.Since(began) != 3*retry.Pause {
			t.Fatalf("%d tries in %v: %v", tries, time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := retry.While(ctx, isAway, func() error { return errAway }); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("an ended context gives %v", err)
		}
	})
}
