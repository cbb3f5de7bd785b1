package stricttest

import (
	"fmt"
	"regexp"
)

// geminiName is the form of a function's name: "Must start with a letter or an underscore. Must be alphameric (a-z, A-Z,
// 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64".
var geminiName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)

// Gemini judges a chat completion by what generateContent refuses of the same conversation, as adapters send it on.
//
//   - "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
//   - "Please ensure that the number of function response parts is equal to the number of function call parts of the
//     function call turn."
//   - "contents.parts must not be empty." and "Unable to submit request because it must have a text parameter"
//   - "Duplicate function declaration found" and "parameters.properties[a].items: missing field"
func Gemini(body []byte) error {
	if err := OpenAI(body); err != nil { // as many results as calls, and directly after them
		return err
	}
	request, messages, err := read(body, "messages")
	if err != nil {
		return err
	}
	before := ""
	for i, one := range messages {
		where := fmt.Sprintf("messages[%d]", i)
		m, _ := one.(object)
		role, _ := m["role"].(string)
		calls, _ := m["tool_calls"].([]any)
		if len(calls) > 0 && before != "user" && before != "tool" {
			return refusal(where, "function call turn comes after %q, not after a user turn or a function response turn", before)
		}
		for _, call := range calls {
			c, _ := call.(object)
			function, _ := c["function"].(object)
			if name, _ := function["name"].(string); !geminiName.MatchString(name) {
				return refusal(where, "invalid function name %q", name)
			}
		}
		if role != "tool" {
			if err := nonEmpty(where, m["content"]); err != nil {
				return err
			}
		}
		if role != "system" && role != "developer" {
			before = role
		}
	}
	if err := uniqueTools(request); err != nil {
		return err
	}
	return eachTool(request, func(where, name string, _ object) error {
		if !geminiName.MatchString(name) {
			return refusal(where, "invalid function name %q", name)
		}
		return nil
	})
}
