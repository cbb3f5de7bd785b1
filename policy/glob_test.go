package policy

import (
	"strings"
	"testing"

	"aqueduct/internal/costtest"
)

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "", false}, {"*", "", true}, {"*", "a/b c", true}, {"**", "x", true},
		{"a*", "a", true}, {"a*", "ba", false}, {"*a", "bba", true}, {"*a*", "xay", true}, {"a?c", "abc", true},
		{"a?c", "ac", false}, {"a?", "aé", true}, {"a*b*c", "a1b2b3c", true}, {"a*b*c", "a1c2b", false},
		{`a\*`, "a*", true}, {`a\*`, "ab", false}, {`a\?`, "a?", true}, {`\`, `\`, true}, {`*\*`, "xx*", true}, {"[a]", "a", false},
		{"[a]", "[a]", true}, {"a*", "A", false}, {`*\*b*`, "a*ab*b", true}, {`*\*c`, "a*ab*b", false}, {`*\*b*`, "a*ab*bc", true},
	} {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("glob(%q, %q) = %t", c.pattern, c.text, got)
		}
	}
}

// Many stars over a long text must not take for ever.
func TestGlobIsQuick(t *testing.T) {
	pattern := strings.Repeat("a*", 30) + "b"
	costtest.Grows(t, "a text", 5000, func(n int) {
		if glob(pattern, strings.Repeat("a", n)) {
			t.Error("matched")
		}
	})
}
