package approval

import (
	"strings"
	"unicode"
)

// AgentPrefix begins the name under which a tool or an event of an agent's is shown that it calls by a reserved name.
const AgentPrefix = "agent."

// InputTool is the tool name under which a Question that wants an input is shown, unless its agent has named it.
const InputTool = "request_input"

// reservedTools begin the names of this server's own tools and cards. A tool that has such a name would be drawn with the buttons
// of a Question, or be taken for a tool that only this server has.
var reservedTools = []string{"aqueduct.", "budget."}

// ReservedTool reports whether a tool's name is this server's: no agent, client, MCP server or registration has a tool of that
// name. Case and characters that are not seen do not make it another one.
func ReservedTool(name string) bool {
	name = Seen(name)
	if name == PermissionTool || name == InputTool {
		return true
	}
	for _, prefix := range reservedTools {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// AgentsTool is the name under which a tool of an agent's is shown.
func AgentsTool(name string) string {
	if ReservedTool(name) {
		return AgentPrefix + name
	}
	return name
}

// Seen is a name as a reader sees it, in lower case: without spaces, control characters and characters that are not drawn.
func Seen(name string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.In(r, unicode.C, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, name))
}
