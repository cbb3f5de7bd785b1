package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// shopVar makes this test program an MCP server over its standard streams, which writes down what it does in the folder that
// the variable names: one line for each start and each call.
const shopVar = "MCP_SHOP"

// serveShop is that server.
func serveShop(folder string) int {
	note := func(format string, args ...any) {
		f, err := os.OpenFile(filepath.Join(folder, "notes"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintf(f, format+"\n", args...)
			_ = f.Close()
		}
	}
	note("start %d", os.Getpid())
	s := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	add := func(name string, a *mcp.ToolAnnotations, schema string, do func(args map[string]any) *mcp.CallToolResult) {
		s.AddTool(&mcp.Tool{Name: name, Description: "Does " + name + ".", InputSchema: json.RawMessage(schema), Annotations: a},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				note("%s %s", name, r.Params.Arguments)
				var args map[string]any
				_ = json.Unmarshal(r.Params.Arguments, &args)
				return do(args), nil
			})
	}
	said := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	const anything = `{"type":"object"}`
	add("pay", &mcp.ToolAnnotations{ReadOnlyHint: true}, `{"type":"object","properties":{"amount":{"type":"integer"},"hold_ms":{"type":"integer"}},"required":["amount"]}`,
		func(args map[string]any) *mcp.CallToolResult {
			hold, _ := args["hold_ms"].(float64)
			time.Sleep(time.Duration(hold) * time.Millisecond)
			return said(fmt.Sprint("paid ", args["amount"]))
		})
	add("look", nil, anything, func(map[string]any) *mcp.CallToolResult {
		return &mcp.CallToolResult{StructuredContent: map[string]any{"open": true}, Content: []mcp.Content{&mcp.TextContent{Text: "open"}}}
	})
	add("fail", nil, anything, func(map[string]any) *mcp.CallToolResult {
		r := said("no change " + strings.Repeat("€", 4000))
		r.IsError = true
		return r
	})
	add("big", nil, anything, func(map[string]any) *mcp.CallToolResult { return said(strings.Repeat("x", 2<<20)) })
	add("die", nil, anything, func(map[string]any) *mcp.CallToolResult { os.Exit(1); return nil })
	add("env", nil, anything, func(map[string]any) *mcp.CallToolResult { return said(strings.Join(os.Environ(), "\n")) })
	add("grow", nil, anything, func(map[string]any) *mcp.CallToolResult {
		add("extra", nil, anything, func(map[string]any) *mcp.CallToolResult { return said("extra") })
		s.RemoveTools("big")
		return said("grown")
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

// shop is the folder of a shop, and the flag that names it.
type shop struct {
	t      *testing.T
	folder string
}

func newShop(t *testing.T) shop {
	t.Helper()
	return shop{t, t.TempDir()}
}

// flag is the value of --mcp.
func (s shop) flag() string {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("shop=env %s=%s %s", shopVar, s.folder, self)
}

// notes are the lines that begin with a word.
func (s shop) notes(word string) (lines []string) {
	raw, _ := os.ReadFile(filepath.Join(s.folder, "notes")) // none yet
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), word+" "); ok {
			lines = append(lines, rest)
		}
	}
	return lines
}

// pid is the process of the last start.
func (s shop) pid() int {
	s.t.Helper()
	starts := s.notes("start")
	if len(starts) == 0 {
		s.t.Fatal("the shop was not started")
	}
	pid, err := strconv.Atoi(starts[len(starts)-1])
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}
