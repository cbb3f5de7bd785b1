package proxy

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstallation: a proxy that is started again is the same installation under a new epoch; a second process of it refuses
// to start; another folder is another installation.
func TestInstallation(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "state")
	run := func(folder string) (installation, epoch string) {
		t.Helper()
		g := newGateway(t, newAck)
		p, ctx, done := g.make(func(c *Config) { c.State = folder }), t.Context(), make(chan error, 1)
		ctx, cancel := context.WithCancel(ctx)
		go func() { done <- p.Run(ctx) }()
		reg := g.accept()
		second := g.make(func(c *Config) { c.State = folder })
		if err := second.Run(ctx); err == nil || !strings.Contains(err.Error(), "another proxy runs from") {
			t.Errorf("a second process: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		g.cut()
		return reg.Agent.Installation, reg.Agent.Offers().Epoch
	}
	id, epoch := run(folder)
	again, next := run(folder)
	other, _ := run(folder + "2")
	if id == "" || again != id || next == epoch || other == id {
		t.Errorf("%q %q, again %q %q, other %q", id, epoch, again, next, other)
	}
}
