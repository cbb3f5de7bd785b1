// This file makes the protocol server of a request, with the tools that it needs: those that are called, by their
// names alone, or all that the caller may call where the request lists them.

package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/store"
)

// server makes the protocol server of one request.
func (h *Handler) server(ctx context.Context, by *call, w wanted) (*mcp.Server, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "aqueduct", Title: "Aqueduct", Version: h.cfg.Version}, &mcp.ServerOptions{
		// What is listed is the tenant's: the library's default lets whatever is in between give it to other callers.
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		Logger:       slog.New(slog.DiscardHandler),
		Instructions: "A call may wait until a person has approved it. A call that was rejected must not be made again unchanged.",
	})
	for _, name := range w.calls {
		// The arguments are checked against the tool's own schema where the call is taken.
		h.add(s, &mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, by.handle)
	}
	if !w.list {
		return s, nil
	}
	in, err := by.from.scope(ctx)
	if err != nil {
		return nil, err
	}
	page := store.Page{Limit: store.MaxPageLimit}
	for {
		rows, err := h.cfg.Store.Tools(ctx, in, page)
		if err != nil {
			return nil, err
		}
		for _, t := range rows {
			if tool, ok := offered(t); ok {
				h.add(s, tool, by.handle)
			}
		}
		if len(rows) < page.Size() {
			return s, nil
		}
		page.After = rows[len(rows)-1].Name
	}
}

// add adds a tool, unless the library has a fault to find with its schema, which others wrote: it panics then.
func (h *Handler) add(s *mcp.Server, tool *mcp.Tool, handle mcp.ToolHandler) {
	defer func() {
		if fault := recover(); fault != nil {
			h.cfg.Logger.Warn("a tool is not offered over MCP", slog.String("tool", tool.Name), slog.String("because", fmt.Sprint(fault)))
		}
	}()
	s.AddTool(tool, handle)
}

// offered is a tool as MCP has it; false for one that is not offered: the client of a chat executes it, or its arguments are
// no object, which those of MCP are.
func offered(t store.Tool) (*mcp.Tool, bool) {
	if t.Kind != store.KindServer {
		return nil, false
	}
	schema := map[string]any{}
	if len(t.Schema) > 0 && json.Unmarshal(t.Schema, &schema) != nil {
		return nil, false
	}
	if schema == nil || schema["type"] == nil {
		if schema == nil {
			schema = map[string]any{}
		}
		schema["type"] = "object"
	}
	if schema["type"] != "object" {
		return nil, false
	}
	var meta struct {
		Description string
		Title       string
		Annotations *mcp.ToolAnnotations
	}
	_ = json.Unmarshal(t.Metadata, &meta) // of our own writing
	return &mcp.Tool{Name: t.Name, Description: meta.Description, Title: meta.Title, Annotations: meta.Annotations, InputSchema: schema}, true
}
