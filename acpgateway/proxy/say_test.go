package proxy

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// lines gives each line that is written to it.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// TestProxySaysThatItIsLinked: who starts a proxy by hand sees that it works.
func TestProxySaysThatItIsLinked(t *testing.T) {
	t.Parallel()
	g := newGateway(t, newAck)
	said := make(lines, 64)
	g.start(func(c *Config) { c.Log = slog.New(slog.NewTextHandler(said, nil)) })
	select {
	case line := <-said:
		if !strings.Contains(line, "linked to the gateway") || !strings.Contains(line, g.url) || strings.Contains(line, "secret") {
			t.Error(line)
		}
	case <-time.After(patience):
		t.Error("it says nothing")
	}
}
