package policy_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"aqueduct/policy"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "git status": "git status", "Grüße 世界 😀": "Grüße 世界 😀", "a\n\n\tb": "a b", " a ": "a", "\n": "",
		"\x1b[31mred\x1b[0m":                   "⟨U+001B⟩[31mred⟨U+001B⟩[0m",
		"\u009b31m":                            "⟨U+009B⟩31m",
		"a\x00b\x07\x7f":                       "a⟨U+0000⟩b⟨U+0007⟩⟨U+007F⟩",
		"rm \u202e gpj.x":                      "rm ⟨U+202E⟩ gpj.x",
		"\u2066a\u2069\u200e\u061c":            "⟨U+2066⟩a⟨U+2069⟩⟨U+200E⟩⟨U+061C⟩",
		"pay\u200bpal\u200d\ufeff":             "pay⟨U+200B⟩pal⟨U+200D⟩⟨U+FEFF⟩",
		"a\u00adb\u3164c\u2800d":               "a⟨U+00AD⟩b⟨U+3164⟩c⟨U+2800⟩d",
		"x\U000E0041":                          "x⟨U+E0041⟩",
		"a\u2028b\u2029c\u0085d\u00a0e\u3000f": "a b c d e f",
		"bad \xff\xfe":                         "bad \ufffd\ufffd", "\ufffd": "\ufffd", "❤️": "❤️", "\ue000": "⟨U+E000⟩",
	} {
		if got := policy.Visible(text, 500); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := policy.Visible(strings.Repeat("\n", 10_000)+"x"+strings.Repeat("\n", 10_000)+"y", 500); got != "x y" {
		t.Errorf("%q", got)
	}
	for text, want := range map[string]string{"abcde": "abcde", "abcdef": "abcde…", "ab cdef": "ab cd…", "ab\u202e": "ab…", "\u202e": "…", "abcde \n": "abcde"} {
		if got := policy.Visible(text, 5); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("\x1b[31m\u202e\n\xff", 10)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(1, most%1000)
		got := policy.Visible(text, most)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > most+1 {
			t.Fatalf("%q", got)
		}
		if policy.Visible(got, 1<<20) != got {
			t.Fatalf("%q is shown as something else again", got)
		}
	})
}
