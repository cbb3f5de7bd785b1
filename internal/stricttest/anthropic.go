package stricttest

import (
	"fmt"
	"regexp"
	"strings"
)

// anthropicID is the form of an id: "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'".
var anthropicID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// Anthropic judges a chat completion by what the Messages API refuses of the same conversation, as adapters send it on: each
// message by itself, system messages apart, and results of tools as the user's.
//
//   - "text content blocks must be non-empty" and "text content blocks must contain non-whitespace text"
//   - "`tool_use` ids were found without `tool_result` blocks immediately after", "unexpected `tool_use_id` found in
//     `tool_result` blocks", and "`tool_use` ids must be unique"
//   - "tool_use.input: Input should be a valid dictionary"
//   - "final assistant content cannot end with trailing whitespace"
//   - "tools: Tool names must be unique." and "tools.0.custom.input_schema.type: Field required"
func Anthropic(body []byte) error {
	if err := OpenAI(body); err != nil { // pairs, names, arguments, pictures: the same rules in other words
		return err
	}
	request, messages, err := read(body, "messages")
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for i, one := range messages {
		where := fmt.Sprintf("messages[%d]", i)
		m, _ := one.(object)
		if m["role"] != "tool" {
			if err := nonEmpty(where, m["content"]); err != nil {
				return err
			}
		}
		for _, id := range callIDs(m) {
			if !anthropicID.MatchString(id) || seen[id] {
				return refusal(where, "tool_use id %q does not match %s, or is there twice", id, anthropicID)
			}
			seen[id] = true
		}
		if text, _ := m["content"].(string); i == len(messages)-1 && m["role"] == "assistant" && strings.TrimRight(text, " \t\r\n") != text {
			return refusal(where, "final assistant content cannot end with trailing whitespace")
		}
	}
	return uniqueTools(request)
}

// nonEmpty judges that every text of a content is one.
func nonEmpty(where string, content any) error {
	if text, ok := content.(string); ok && strings.TrimSpace(text) == "" {
		return refusal(where, "text content blocks must contain non-whitespace text")
	}
	parts, _ := content.([]any)
	for _, one := range parts {
		part, _ := one.(object)
		if text, _ := part["text"].(string); part["type"] == "text" && strings.TrimSpace(text) == "" {
			return refusal(where, "text content blocks must contain non-whitespace text")
		}
	}
	return nil
}

// callIDs are the ids of a message's calls.
func callIDs(m object) (ids []string) {
	calls, _ := m["tool_calls"].([]any)
	for _, one := range calls {
		call, _ := one.(object)
		id, _ := call["id"].(string)
		ids = append(ids, id)
	}
	return ids
}

// eachTool calls f with the functions that a request declares.
func eachTool(request object, f func(where, name string, function object) error) error {
	tools, _ := request["tools"].([]any)
	for i, one := range tools {
		tool, _ := one.(object)
		function, _ := tool["function"].(object)
		name, _ := function["name"].(string)
		if err := f(fmt.Sprintf("tools[%d]", i), name, function); err != nil {
			return err
		}
	}
	return nil
}

// uniqueTools judges that no tool is declared twice, and that each has a schema.
func uniqueTools(request object) error {
	seen := make(map[string]bool)
	return eachTool(request, func(where, name string, function object) error {
		if seen[name] {
			return refusal(where, "tool names must be unique: %q", name)
		}
		seen[name] = true
		if function["parameters"] == nil {
			return refusal(where, "input_schema: field required")
		}
		return nil
	})
}
