package tools

import (
	"context"
	"errors"
	"testing"
	"time"

	"aqueduct/internal/bubbletest"
	"aqueduct/store"
)

// countingReader has one tool, and counts how often it is read.
type countingReader struct {
	store.Reader
	tool store.Tool
	read int
	then func()
}

func (r *countingReader) ToolOf(_ context.Context, _ store.Scope, tenant, name string) (store.Tool, error) {
	r.read++
	if r.then != nil {
		r.then()
	}
	if name != r.tool.Name {
		return store.Tool{}, store.ErrNotFound
	}
	return r.tool, nil
}

// TestToolCache checks that a tool is read once in cacheTime and once after each change made here, even a change made during
// the read, and that a name without a tool is read every time.
func TestToolCache(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var c toolCache
		r := &countingReader{tool: store.Tool{Name: "cut", Endpoint: "one"}}
		reads := func(name string, want int) compiledTool {
			t.Helper()
			r.read = 0
			var got compiledTool
			for range 3 {
				got, _ = c.tool(t.Context(), r, "acme", name)
			}
			if r.read != want {
				t.Errorf("%d reads, want %d", r.read, want)
			}
			return got
		}
		reads("cut", 1)
		reads("none", 3)
		time.Sleep(cacheTime - 1)
		reads("cut", 0)
		time.Sleep(time.Nanosecond)
		reads("cut", 1)
		c.invalidate()
		r.then = func() { // while it is read
			r.then = nil
			c.invalidate()
		}
		if got := reads("cut", 2); got.Endpoint != "one" {
			t.Errorf("%+v", got)
		}
		r.tool.Endpoint = "two"
		c.invalidate()
		if got := reads("cut", 1); got.Endpoint != "two" {
			t.Errorf("%+v", got)
		}
		if _, err := c.tool(t.Context(), r, "acme", "none"); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
	})
}
