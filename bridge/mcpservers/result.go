// This file makes of a server's result what a ToolCall keeps: one JSON value, or a failure in words.
// server/mcpserver/result.go is its reverse, for clients of /mcp.

package mcpservers

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
)

// longestError bounds the message of a failed call: it is shown in the chat and kept in several rows.
const longestError = 4 << 10

// resultOf makes a call's result of a server's: the structured content where there is some, else the text where there is
// nothing but text, else the content as MCP has it, which may hold images, sound and resources.
func resultOf(r *mcp.CallToolResult, most int64) (json.RawMessage, *fault.Error) {
	if r.NeedsInput() {
		return nil, fault.New(tools.CodeToolFailed, "The tool asks for input, which it cannot get here.")
	}
	if r.IsError {
		text, _ := textOf(r.Content)
		if text == "" {
			text = "The tool failed and gave no reason."
		}
		return nil, fault.New(tools.CodeToolFailed, bounded(text))
	}
	raw, err := encoded(r)
	switch {
	case err != nil:
		return nil, fault.New(tools.CodeToolFailed, "The tool's result cannot be read.")
	case int64(len(raw)) > most:
		return nil, fault.New(tools.CodeResultTooLarge, "The tool's answer is larger than is taken.")
	}
	return raw, nil
}

// encoded is the value of a result. A caller can rely on its form only where the tool has a schema of its output,
// which comes as structured content.
func encoded(r *mcp.CallToolResult) (json.RawMessage, error) {
	if r.StructuredContent != nil {
		return json.Marshal(r.StructuredContent)
	}
	if text, only := textOf(r.Content); only {
		return json.Marshal(text)
	}
	return json.Marshal(struct {
		Content []mcp.Content `json:"content"`
	}{r.Content})
}

// textOf is the texts of a content in lines, and whether it holds nothing else.
func textOf(content []mcp.Content) (text string, only bool) {
	var texts []string
	for _, c := range content {
		if t, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n"), len(texts) == len(content)
}

// bounded cuts a server's text, where a character ends.
func bounded(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= longestError {
		return text
	}
	cut := longestError
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
