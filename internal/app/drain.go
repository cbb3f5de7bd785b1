// This file lets what is under way end before the parts do.

package app

import (
	"context"
	"log/slog"
	"time"
)

// Drain is how a server ends that was asked to.
type Drain struct {
	// Most is how long what is under way may take; 0 ends it at once.
	Most time.Duration
	// Hasten returns a context that ends where the drain is to end before Most is over, as by a second signal. Nil does
	// not hasten.
	Hasten func(context.Context) (context.Context, context.CancelFunc)
}

// drain refuses what is new and returns when nothing is under way, or the time for it is over. All parts run meanwhile.
// ctx ends when a part fails.
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
	a.cfg.Logger.Info("draining: nothing new is taken, what is under way may end", slog.Duration("most", how.Most))
	a.Server.Leave()
	// Sessions first: an agent at work calls tools until its end. Of what an agent called that has ended to wait, the
	// tools know alone.
	turns := a.Sessions.Draining().Wait(ctx)
	calls := a.Tools.Drain(ctx)
	a.cfg.Logger.Info("drained", slog.Duration("took", time.Since(began)), slog.Int("turns_left", turns), slog.Int("tool_calls_left", calls))
}
