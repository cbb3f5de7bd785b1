package tools

import (
	"context"
	"sync"
	"time"

	"aqueduct/internal/schema"
	"aqueduct/store"
)

const (
	// cacheTime is how old a cached tool may be. A change made on another replica takes effect here after at most this.
	cacheTime = 2 * time.Second
	// cacheMost bounds the tools cached. It is more than any installation was seen to have.
	cacheMost = 1000
)

// compiledTool is a tool with its policy and schema parsed.
type compiledTool struct {
	store.Tool
	own    own
	schema *schema.Schema
}

// lookup finds a registered tool: the tenant's own before the one of all tenants.
type lookup func(ctx context.Context, r store.Reader, tenant, name string) (compiledTool, error)

// readTool is the lookup without the cache, for transactions: what is decided under a lock must be read under it.
func readTool(ctx context.Context, r store.Reader, tenant, name string) (compiledTool, error) {
	t, err := r.ToolOf(ctx, store.System(), tenant, name)
	if err != nil {
		return compiledTool{}, err
	}
	return compile(t), nil
}

// compile parses what a call needs of a tool.
func compile(t store.Tool) compiledTool {
	c := compiledTool{Tool: t, schema: schema.Of(t.Schema)}
	c.own, _ = readOwn(t.Policy) // it was checked when the tool was registered
	return c
}

// toolCache holds the tools that were called lately. Reading and parsing a tool costs more than everything else that is
// done before a call is kept.
type toolCache struct {
	mu      sync.Mutex
	entries map[cacheKey]cacheEntry
	version int // counts invalidations
}

// cacheKey is who asks and for what. A tool of all tenants has an entry for each tenant that called it, since the
// tenant may get one of its own.
type cacheKey struct{ tenant, name string }

type cacheEntry struct {
	compiledTool
	until time.Time
}

// tool is a lookup through the cache. A tool that was read before an invalidation is not put in after it: the read may
// have been of the row as it was before the change.
func (c *toolCache) tool(ctx context.Context, r store.Reader, tenant, name string) (compiledTool, error) {
	now, key := time.Now(), cacheKey{tenant, name}
	c.mu.Lock()
	found, ok := c.entries[key]
	version := c.version
	c.mu.Unlock()
	if ok && now.Before(found.until) {
		return found.compiledTool, nil
	}
	tool, err := readTool(ctx, r, tenant, name)
	if err != nil {
		return compiledTool{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == version {
		if c.entries == nil || len(c.entries) >= cacheMost {
			c.entries = make(map[cacheKey]cacheEntry)
		}
		c.entries[key] = cacheEntry{tool, now.Add(cacheTime)}
	}
	return tool, nil
}

// invalidate drops every entry, because a tool was changed on this replica.
func (c *toolCache) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = nil
	c.version++
}
