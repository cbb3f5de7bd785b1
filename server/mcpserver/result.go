// This file words results. The form of a result is the client's (content, structuredContent, isError); the value is
// what the ToolCall has.

package mcpserver

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/store"
)

// metaCallID is the member of a result's _meta that names the call.
const metaCallID = "aqueduct/tool_call_id"

// resultOf words the end of a call.
func resultOf(c store.ToolCall) *mcp.CallToolResult {
	out := &mcp.CallToolResult{Meta: mcp.Meta{metaCallID: c.ID}}
	if c.Status != store.ToolSucceeded {
		var why struct{ Code, Message string }
		_ = json.Unmarshal(c.Error, &why) // of our own writing, or empty
		text := failed(cmp.Or(why.Code, c.ErrorCode), cmp.Or(why.Message, "The call failed."))
		out.Content, out.IsError = text.Content, true
		return out
	}
	out.Content, out.StructuredContent = contentOf(c.Result)
	return out
}

// failed is a result that the client's model reads as a failure.
func failed(code, message string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: code + ": " + message}}}
}

// contentOf gives a result back in the form that it had where an MCP server gave it (bridge/mcpservers): a text, or content
// with images. Any other object is structured content, with its text beside it for clients that know none.
func contentOf(result json.RawMessage) ([]mcp.Content, any) {
	var text string
	if json.Unmarshal(result, &text) == nil && bytes.HasPrefix(bytes.TrimSpace(result), []byte(`"`)) {
		return []mcp.Content{&mcp.TextContent{Text: text}}, nil
	}
	var rich map[string]json.RawMessage
	if json.Unmarshal(result, &rich) == nil && len(rich) == 1 && rich["content"] != nil {
		var held mcp.CallToolResult
		if json.Unmarshal(result, &held) == nil && len(held.Content) > 0 {
			return held.Content, nil
		}
	}
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	content := []mcp.Content{&mcp.TextContent{Text: string(result)}}
	if rich != nil {
		return content, result
	}
	return content, nil
}
