package ids

import (
	"strings"
	"testing"
)

// If this fails, a client's id breaks an SSE frame or a log line, or ids of languages other than English are refused.
func TestValid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id   string
		want bool
	}{
		"plain":                       {"run-1", true},
		"one character":               {"x", true},
		"a space within":              {"my thread", true},
		"Chinese":                     {"会话一", true},
		"an emoji of several":         {"👩\u200d💻", true},
		"a word of Persian":           {"می\u200cخواهم", true},
		"as long as may be":           {strings.Repeat("x", maxID), true},
		"as long, four bytes each":    {strings.Repeat("🙂", maxID), true},
		"nothing":                     {"", false},
		"too long":                    {strings.Repeat("x", maxID+1), false},
		"too long, four bytes each":   {strings.Repeat("🙂", maxID+1), false},
		"a newline":                   {"a\nb", false},
		"a carriage return":           {"a\rb", false},
		"a NUL":                       {"a\x00b", false},
		"an escape of a terminal":     {"a\x1b[31m", false},
		"a line separator":            {"a\u2028b", false},
		"text from right to left":     {"a\u202eb", false},
		"a space that has no width":   {"a\u200bb", false},
		"a space that does not break": {"a\u00a0b", false},
		"a space before":              {" a", false},
		"a space behind":              {"a ", false},
		"only a space":                {" ", false},
		"bytes that are no text":      {"a\xff", false},
		"a byte order mark":           {"\ufeffa", false},
	} {
		if got := Valid(c.id); got != c.want {
			t.Errorf("%s: %q is valid: %v", name, c.id, got)
		}
	}
}

// If this fails, a name of an agent breaks the address or the flag that it stands in.
func TestValidName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"claude": true, "A.b_c:d-9": true, strings.Repeat("x", maxID): true,
		"": false, strings.Repeat("x", maxID+1): false, "a b": false, "a/b": false, "a?b": false, "a=b": false, "a,b": false,
		"ä": false, "a\n": false, "a%20": false,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("%q is a name: %v", name, got)
		}
	}
}
