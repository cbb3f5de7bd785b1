package safetext_test

import (
	"strings"
	"testing"

	"aqueduct/internal/safetext"
)

func TestOfArgs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, shows, warnings string }{
		{`{"a":1,"b":[true,null,{}],"c":[]}`, "{\n  \"a\": 1,\n  \"b\": [\n    true,\n    null,\n    {}\n  ],\n  \"c\": []\n}", ""},
		{`{"n":9007199254740993}`, "9007199254740993", "number_precision"},
		{`{"n":12345678901234567890}`, "12345678901234567890", "number_precision"},
		{`{"n":1e400}`, "1e400", "number_range"},
		{`{"n":1e-999999999}`, "1e-999999999", "number_precision"},
		{`{"n":0.1,"m":-9007199254740991,"k":1e3,"l":3.141592653589793}`, "0.1", ""},
		{`{"n":0.12345678901234567890123}`, "0.12345678901234567890123", "number_precision"},
		{`{"path":"/tmp/x","path":"/"}`, "\"path\": \"/tmp/x\",\n  \"path\": \"/\"", "duplicate_key"},
		{`{"path":1,"p\u0061th":2}`, `"p\u0061th": 2`, "duplicate_key"},
		{`[{"a":1},{"a":1}]`, `"a": 1`, ""},
		{"{\"a\":\"x\u202ey\"}", "x⟨U+202E⟩y", "bidi_character"},
		{`{"a":"x\u202ey"}`, `x\u202ey`, "bidi_character"},
		{"{\"a\":\"r\u200bm\"}", "r⟨U+200B⟩m", "invisible_character"},
		{"{\"a\":\"r\u00a0m\"}", "r⟨U+00A0⟩m", "invisible_character"},
		{`{"a":"\u001b[2J"}`, `\u001b[2J`, "control_character"},
		{"{\"a\":\"x\x7fy\"}", "x⟨U+007F⟩y", "control_character"},
		{`{"a":"\ud800"}`, `\ud800`, "invalid_text"},
		{"{\"a\":\"\xff\"}", "⟨byte FF⟩", "invalid_text"},
		{`{"a":"tab\tand\nline, é and 日本"}`, "é and 日本", ""},
		{"no JSON \u202e", "no JSON ⟨U+202E⟩", "bidi_character"},
		{"{\"\u202e\":1e999,\"b\":[1e999]}", "⟨U+202E⟩", "bidi_character number_range"},
		{`["` + strings.Repeat("x", 70_000) + `"]`, "xxx", "args_text_cut"},
		{strings.Repeat("[", 60) + strings.Repeat(`1,`, 100_000) + "1" + strings.Repeat("]", 60), "1,", "args_text_cut"},
	} {
		got := safetext.OfArgs([]byte(c.args))
		if w := strings.Join(got.Warnings, " "); w != c.warnings || !strings.Contains(got.Text, c.shows) {
			t.Errorf("%.60q: %.200q %s, want %q %s", c.args, got.Text, w, c.shows, c.warnings)
		}
		if len(got.Text) > safetext.MaxText+64 {
			t.Errorf("%.60q: a text of %d bytes", c.args, len(got.Text))
		}
	}
}

// FuzzOfArgs: nothing invisible is in the text, whatever the arguments are.
func FuzzOfArgs(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"x\u202e"]}`, "{\"\u200b\":\xff}", `[[],{},""]`, `"\`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := safetext.OfArgs(raw)
		if strings.ContainsAny(got.Text, "\u202e\u200b\u00a0\x00\x1b\x7f\u2028") {
			t.Errorf("%q shows as %q", raw, got.Text)
		}
	})
}
