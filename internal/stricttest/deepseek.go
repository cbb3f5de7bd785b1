package stricttest

import "fmt"

// DeepSeek judges a chat completion by what api.deepseek.com refuses, apart from what single models cannot read (pictures).
//
//   - "deepseek-reasoner does not support successive user or assistant messages"
//   - "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.
//     (insufficient tool messages following tool_calls message)"
//   - "Failed to deserialize the JSON body into the target type: messages[1]: missing field `content`"
//   - "Invalid assistant message: content or tool_calls must be set"
func DeepSeek(body []byte) error {
	if err := OpenAI(body); err != nil {
		return err
	}
	_, messages, err := read(body, "messages")
	if err != nil {
		return err
	}
	var before object
	for i, one := range messages {
		where := fmt.Sprintf("messages[%d]", i)
		m, _ := one.(object)
		if _, ok := m["content"]; !ok {
			return refusal(where, "missing field `content`")
		}
		if role := m["role"]; (role == "user" || role == "assistant") && before["role"] == role && before["name"] == m["name"] {
			return refusal(where, "successive messages of %v", role)
		}
		before = m
	}
	return nil
}
