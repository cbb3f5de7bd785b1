// Package apptest runs an app.App within a test.
package apptest

import (
	"context"
	"sync"
	"testing"

	"aqueduct/internal/app"
)

// Run runs a and returns when its parts have been started, which does not mean that each has done its first step.
// stop ends them from the top down, and returns when they have ended; it may be called twice. The failure of a part
// is a failure of the test.
func Run(t testing.TB, a *app.App) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan error, 1)
	// The edge is started behind all other levels, so the first step of a Part in it is the moment when all have been
	// started.
	last := app.Part{Name: "started", Run: func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		return nil
	}}
	go func() { ended <- a.Run(ctx, nil, []app.Part{last}) }()
	select {
	case <-started:
	case err := <-ended:
		cancel()
		t.Fatalf("the app does not start: %v", err)
	}
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
