package stricttest

import (
	"strings"
	"testing"
)

// TestProviders judges requests that OpenAI takes by the further rules of the others.
func TestProviders(t *testing.T) {
	t.Parallel()
	const (
		user   = `{"role":"user","content":"Hi"}`
		said   = `{"role":"assistant","content":"Ho"}`
		call   = `{"role":"assistant","content":null,"tool_calls":[{"id":"abcdefgh1","type":"function","function":{"name":"look","arguments":"{}"}}]}`
		result = `{"role":"tool","tool_call_id":"abcdefgh1","content":"seen"}`
	)
	messages := func(list ...string) string { return `{"messages":[` + strings.Join(list, ",") + `]}` }
	twice := `,"tools":[` + strings.TrimSuffix(strings.Repeat(`{"type":"function","function":{"name":"look","parameters":{"type":"object"}}},`, 2), ",") + `]}`
	for _, c := range []struct {
		judged
		by func([]byte) error
	}{
		{judged{"Anthropic, a conversation", messages(user, call, result, user), ""}, Anthropic},
		{judged{"Anthropic, a blank text", messages(`{"role":"user","content":" "}`), "non-whitespace"}, Anthropic},
		{judged{"Anthropic, a blank part", messages(`{"role":"user","content":[{"type":"text","text":""}]}`), "non-whitespace"}, Anthropic},
		{judged{"Anthropic, a call twice", messages(user, call, result, call, result), "twice"}, Anthropic},
		{judged{"Anthropic, a tool twice", strings.TrimSuffix(messages(user), "}") + twice, "unique"}, Anthropic},
		{judged{"Anthropic, a space at the end", messages(user, `{"role":"assistant","content":"Ho "}`), "trailing"}, Anthropic},
		{judged{"Gemini, a conversation", messages(user, call, result, said, user), ""}, Gemini},
		{judged{"Gemini, a call after an answer", messages(user, said, call, result), "function call turn"}, Gemini},
		{judged{"Gemini, a name", messages(user, strings.Replace(call, "look", "3d", 1), result), "invalid function name"}, Gemini},
		{judged{"Mistral, a conversation", messages(user, call, result, said, user), ""}, Mistral},
		{judged{"Mistral, a user after a tool", messages(user, call, result, user), "unexpected role"}, Mistral},
		{judged{"Mistral, an id", messages(user, strings.Replace(call, "abcdefgh1", "call_1", 1), strings.Replace(result, "abcdefgh1", "call_1", 1)), "length of 9"}, Mistral},
		{judged{"Mistral, an answer at the end", messages(user, said), "last role"}, Mistral},
		{judged{"DeepSeek, a conversation", messages(user, call, result, user, said), ""}, DeepSeek},
		{judged{"DeepSeek, two prompts", messages(user, user), "successive"}, DeepSeek},
		{judged{"DeepSeek, no content", messages(user, strings.Replace(call, `"content":null,`, "", 1), result), "missing field"}, DeepSeek},
	} {
		c.judge(t, c.by)
	}
}
