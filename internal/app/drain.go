// This file lets work under way finish before the parts end.

package app

import (
	"context"
	"log/slog"
	"time"
)

// Drain configures how a server ends after it was asked to.
type Drain struct {
	// Most bounds the time for work under way; 0 ends that at once.
	Most time.Duration
	// Hasten returns a context that ends when the drain must end before Most is over, as by a second signal. With nil no drain
	// ends early.
	Hasten func(context.Context) (context.Context, context.CancelFunc)
}

// drain refuses new work. It returns when no work is under way, or the time for it is over. All parts run meanwhile. ctx ends
// when a part fails.
func (a *App) drain(ctx context.Context) {
	how := a.cfg.Drain
	if how.Most <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, how.Most)
	defer cancel()
	if how.Hasten != nil {
		var stop context.CancelFunc
		ctx, stop = how.Hasten(ctx)
		defer stop()
	}
	began := time.Now()
	a.cfg.Logger.Info("draining: new work is refused, work under way may finish", slog.Duration("most", how.Most))
	a.Server.Leave()
	// Sessions first, because an agent at work calls tools until its end. Only the tools know the calls of an agent that has
	// ended to wait.
	turns := a.Sessions.Draining().Wait(ctx)
	calls := a.Tools.Drain(ctx)
	a.cfg.Logger.Info("drained", slog.Duration("took", time.Since(began)), slog.Int("turns_left", turns), slog.Int("tool_calls_left", calls))
}
