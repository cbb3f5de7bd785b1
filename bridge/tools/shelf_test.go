package tools

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"aqueduct/store"
)

// counted is a store that has one tool, and counts how often it is read.
type counted struct {
	store.Reader
	tool store.Tool
	read int
	then func()
}

func (c *counted) ToolOf(_ context.Context, _ store.Scope, tenant, name string) (store.Tool, error) {
	c.read++
	if c.then != nil {
		c.then()
	}
	if name != c.tool.Name {
		return store.Tool{}, store.ErrNotFound
	}
	return c.tool, nil
}

// TestShelf: a tool is read once in shelfTime and after each change made here, even one made
// while it is read; what is not there is looked for each time.
func TestShelf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shelf
		r := &counted{tool: store.Tool{Name: "cut", Endpoint: "one"}}
		reads := func(name string, want int) ready {
			t.Helper()
			r.read = 0
			var got ready
			for range 3 {
				got, _ = s.tool(t.Context(), r, "acme", name)
			}
			if r.read != want {
				t.Errorf("%d reads, want %d", r.read, want)
			}
			return got
		}
		reads("cut", 1)
		reads("none", 3)
		time.Sleep(shelfTime - 1)
		reads("cut", 0)
		time.Sleep(time.Nanosecond)
		reads("cut", 1)
		s.sweep()
		r.then = func() { // while it is read
			r.then = nil
			s.sweep()
		}
		if got := reads("cut", 2); got.Endpoint != "one" {
			t.Errorf("%+v", got)
		}
		r.tool.Endpoint = "two"
		s.sweep()
		if got := reads("cut", 1); got.Endpoint != "two" {
			t.Errorf("%+v", got)
		}
		if _, err := s.tool(t.Context(), r, "acme", "none"); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
	})
}
