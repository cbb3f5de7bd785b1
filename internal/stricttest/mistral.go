package stricttest

import (
	"fmt"
	"regexp"
	"slices"
)

// mistralID is the form of a call's id: "Tool call id was … but must be a-z, A-Z, 0-9, with a length of 9" (code 3280).
var mistralID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// Mistral judges a chat completion by the validator of mistral-common (protocol/instruct/validator.py), which the API uses.
//
//   - "Unexpected role 'user' after role 'tool'" (code 3230)
//   - "Assistant message must have either content or tool_calls, but not none." (code 3240)
//   - "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
//   - "Not the same number of function calls and responses"
func Mistral(body []byte) error {
	if err := OpenAI(body); err != nil {
		return err
	}
	request, messages, err := read(body, "messages")
	if err != nil {
		return err
	}
	after := map[string][]string{
		"system": {"system", "user", "assistant"}, "developer": {"system", "developer", "user", "assistant"},
		"user": {"assistant", "system", "developer", "user"}, "assistant": {"assistant", "user", "tool"}, "tool": {"assistant", "tool"},
	}
	before := ""
	for i, one := range messages {
		where := fmt.Sprintf("messages[%d]", i)
		m, _ := one.(object)
		role, _ := m["role"].(string)
		if before != "" && !slices.Contains(after[before], role) {
			return refusal(where, "unexpected role %q after role %q", role, before)
		}
		for _, id := range callIDs(m) {
			if !mistralID.MatchString(id) {
				return refusal(where, "tool call id was %q but must be a-z, A-Z, 0-9, with a length of 9", id)
			}
		}
		if err := nonEmpty(where, m["content"]); role == "assistant" && err != nil {
			return err
		}
		before = role
	}
	if before == "assistant" {
		return refusal("messages", "expected last role user or tool but got assistant")
	}
	return uniqueTools(request)
}
