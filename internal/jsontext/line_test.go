package jsontext

import (
	"encoding/json"
	"testing"
)

// TestAppendLine escapes what ends a line somewhere, and nothing else, and leaves the value as it is.
func TestAppendLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":"b"}`:         `{"a":"b"}`,
		"\"\u0085\"":        `"\u0085"`,
		"\"\u2028\u2029x\"": `"\u2028\u2029x"`,
		"{\"\u2029\":\"é â \u2027\u202a\u0084\u0086中\u0085\"}": "{\"\\u2029\":\"é â \u2027\u202a\u0084\u0086中\\u0085\"}",
		"\"\xc2\"": "\"\xc2\"", // cut in the middle
	} {
		got := string(AppendLine([]byte("data: "), []byte(in)))
		if got != "data: "+want {
			t.Errorf("%q becomes %q", in, got)
		}
		var before, after any
		if json.Unmarshal([]byte(in), &before) == nil && json.Unmarshal([]byte(want), &after) == nil {
			if b, a := mustText(before), mustText(after); b != a {
				t.Errorf("%q means %q, not %q", want, a, b)
			}
		}
	}
}

func mustText(v any) string {
	raw, _ := json.Marshal(v) // was decoded
	return string(raw)
}
