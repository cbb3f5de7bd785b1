package mcpservers

import (
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

func text(s string) mcp.Content { return &mcp.TextContent{Text: s} }

// TestResultOf: what becomes of each sort of result, at its bounds.
func TestResultOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   mcp.CallToolResult
		want string // the result, or the code of the failure
	}{
		"nothing":    {mcp.CallToolResult{}, `""`},
		"a text":     {mcp.CallToolResult{Content: []mcp.Content{text(`{"a":1}`)}}, `"{\"a\":1}"`},
		"texts":      {mcp.CallToolResult{Content: []mcp.Content{text("a"), text("b")}}, `"a\nb"`},
		"structured": {mcp.CallToolResult{StructuredContent: map[string]any{"a": 1}, Content: []mcp.Content{text("shown")}}, `{"a":1}`},
		"an image": {
			mcp.CallToolResult{Content: []mcp.Content{text("a"), &mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"}}},
			`{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"cG5n"}]}`,
		},
		"as long as may be": {mcp.CallToolResult{Content: []mcp.Content{text(strings.Repeat("x", 198))}}, `"` + strings.Repeat("x", 198) + `"`},
		"too long":          {mcp.CallToolResult{Content: []mcp.Content{text(strings.Repeat("x", 199))}}, tools.CodeResultTooLarge},
		"failed":            {mcp.CallToolResult{IsError: true, Content: []mcp.Content{text("no")}}, tools.CodeToolFailed},
		"failed silently":   {mcp.CallToolResult{IsError: true, StructuredContent: 1}, tools.CodeToolFailed},
	} {
		raw, failure := resultOf(&c.in, 200)
		if failure != nil {
			raw = []byte(fault.CodeOf(failure))
		}
		if string(raw) != c.want {
			t.Errorf("%s: %s, want %s", name, raw, c.want)
		}
	}
}

// TestBounded: a cut text is valid and within its bound.
func TestBounded(t *testing.T) {
	t.Parallel()
	for _, in := range []string{strings.Repeat("€", 2000), "x" + strings.Repeat("€", 2000), "bad \xff", strings.Repeat("x", longestError)} {
		if got := bounded(in); !utf8.ValidString(got) || len(got) > longestError+len("…") || len(in) <= longestError && !strings.HasPrefix(got, in[:3]) {
			t.Errorf("%d bytes became %d", len(in), len(got))
		}
	}
}

// TestRows: what a server offers, and what is left out of it.
func TestRows(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	s := newServer(Config{Logger: slog.New(slog.DiscardHandler)}, Server{Name: "s"}, "epoch")
	object := map[string]any{"type": "object"}
	rows := s.rows([]*mcp.Tool{
		{Name: "read", InputSchema: object, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		{Name: "add", InputSchema: object, Annotations: &mcp.ToolAnnotations{DestructiveHint: &no}},
		{Name: "burn", InputSchema: object, Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes}},
		{Name: "both", InputSchema: object, Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, ReadOnlyHint: true}},
		{Name: "read", InputSchema: object, Description: "again"},
		{Name: "a/b", InputSchema: object},
		{Name: strings.Repeat("n", 127), InputSchema: object},
		{Name: "far", InputSchema: map[string]any{"$ref": "https://example.com/schema"}},
		{Name: "long", InputSchema: object, Description: strings.Repeat("x", longestDescription+1)},
	})
	want := []struct{ name, policy string }{{"s.read", ""}, {"s.add", ""}, {"s.burn", `{"risk":"high"}`}, {"s.both", `{"risk":"high"}`}}
	if len(rows) != len(want) {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	for i, w := range want {
		got := rows[i]
		if server, _ := tools.MCPServer(got); got.Name != w.name || string(got.Policy) != w.policy || got.Kind != store.KindServer || server != "s" || got.Tenant != "" {
			t.Errorf("%+v, want %+v", got, w)
		}
	}
}
