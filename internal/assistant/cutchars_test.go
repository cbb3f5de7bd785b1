package assistant

import (
	"slices"
	"strings"
	"testing"
)

// TestCutCharactersOfTheModel: a character of which the model's server sends the halves in two chunks is whole, in each of
// the texts that a model writes.
func TestCutCharactersOfTheModel(t *testing.T) {
	t.Parallel()
	delta := func(member, text string) string { return `{"choices":[{"delta":{"` + member + `":"` + text + `"}}]}` }
	args := func(text string) string {
		return `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"` + text + `"}}]}}]}`
	}
	const first, second = `a\ud83d`, `\ude00b`
	for name, c := range map[string]struct {
		chunks []string
		want   []string
	}{
		"content":     {[]string{delta("content", first), delta("content", second)}, []string{`delta {"text":"a"}`, `delta {"text":"😀b"}`}},
		"reasoning":   {[]string{delta("reasoning", first), delta("reasoning", second)}, []string{`thought {"text":"a"}`, `thought {"text":"😀b"}`}},
		"thoughts":    {[]string{delta("reasoning_content", first), delta("reasoning_content", second)}, []string{`thought {"text":"a"}`, `thought {"text":"😀b"}`}},
		"a refusal":   {[]string{delta("refusal", first), delta("refusal", second)}, []string{`delta {"text":"a"}`, `delta {"text":"😀b"}`}},
		"half of one": {[]string{delta("content", first), delta("content", "b")}, []string{`delta {"text":"a"}`, "delta {\"text\":\"\uFFFDb\"}"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{tools: noTools, model: streamed(append(c.chunks, `[DONE]`)...)}
			got := s.frames(t, `{"run_id":"r","messages":[{"role":"user","content":"hi"}]}`)
			if !slices.Equal(got, append(c.want, `done {}`)) {
				t.Errorf("%q", got)
			}
		})
	}
	t.Run("arguments", func(t *testing.T) {
		t.Parallel()
		s := &server{tools: noTools, model: streamed(args(`{\"x\":\"`+first), args(second+`\"}`), `[DONE]`)}
		got := s.frames(t, `{"run_id":"r","messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f"}]}`)
		if call := got[len(got)-2]; !strings.HasPrefix(call, "call_client_tool ") || !strings.Contains(call, `"args":{"x":"a😀b"}`) {
			t.Errorf("%q", got)
		}
	})
}
