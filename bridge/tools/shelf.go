package tools

import (
	"context"
	"sync"
	"time"

	"aqueduct/internal/schema"
	"aqueduct/store"
)

const (
	// shelfTime is how late a change that another replica made to a tool may be heard of: as
	// late as a ring of its bell that was lost.
	shelfTime = 2 * time.Second
	// shelfMost bounds the tools held. It is more than any installation was seen to have.
	shelfMost = 1000
)

// ready is a Tool and what is parsed of it.
type ready struct {
	store.Tool
	own    own
	schema *schema.Schema
}

// lookup finds a registered tool, the tenant's own before everybody's.
type lookup func(ctx context.Context, r store.Reader, tenant, name string) (ready, error)

func readTool(ctx context.Context, r store.Reader, tenant, name string) (ready, error) {
	t, err := r.ToolOf(ctx, store.System(), tenant, name)
	if err != nil {
		return ready{}, err
	}
	return prepared(t), nil
}

func prepared(t store.Tool) ready {
	r := ready{Tool: t, schema: schema.Of(t.Schema)}
	r.own, _ = readOwn(t.Policy) // it was checked when the tool was registered
	return r
}

// shelf holds the tools that were called lately: reading and parsing one costs more than all
// else that is done before a call is kept.
type shelf struct {
	mu    sync.Mutex
	tools map[shelved]onShelf
	swept int // how often; what was read before a sweep is not put back after it
}

type shelved struct{ tenant, name string }

type onShelf struct {
	ready
	until time.Time
}

// tool is a lookup that need not read what lies here.
func (s *shelf) tool(ctx context.Context, r store.Reader, tenant, name string) (ready, error) {
	now, key := time.Now(), shelved{tenant, name}
	s.mu.Lock()
	found, ok := s.tools[key]
	swept := s.swept
	s.mu.Unlock()
	if ok && now.Before(found.until) {
		return found.ready, nil
	}
	tool, err := readTool(ctx, r, tenant, name)
	if err != nil {
		return ready{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.swept == swept {
		if s.tools == nil || len(s.tools) >= shelfMost {
			s.tools = make(map[shelved]onShelf)
		}
		s.tools[key] = onShelf{tool, now.Add(shelfTime)}
	}
	return tool, nil
}

// sweep forgets all: a tool was changed here.
func (s *shelf) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = nil
	s.swept++
}
