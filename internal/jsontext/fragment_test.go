package jsontext_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"aqueduct/internal/jsontext"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pieces     []string
		want, left string
	}{
		"a pair over two pieces":          {[]string{`"a\ud83d"`, `"\ude00b"`}, "a😀b", ""},
		"each half alone":                 {[]string{`"\uD83D"`, `"\uDE00"`, `"\ud83d"`, `"\ude01"`}, "😀😁", ""},
		"an empty piece between":          {[]string{`"\ud83d"`, `""`, `"\ude00"`}, "😀", ""},
		"a pair in one piece":             {[]string{`"\ud83d\ude00"`}, "😀", ""},
		"a second half alone":             {[]string{`"\ude00x"`}, "\uFFFDx", ""},
		"a first half alone, in mid-text": {[]string{`"\ud83dx"`}, "\uFFFDx", ""},
		"a first half alone, then text":   {[]string{`"\ud83d"`, `"x"`}, "\uFFFDx", ""},
		"two first halves":                {[]string{`"\ud83d"`, `"\ud83d"`, `"\ude00"`}, "\uFFFD😀", ""},
		"a first half at the end":         {[]string{`"x\ud83d"`}, "x", "\xED\xA0\xBD"},
		"an escaped backslash before u":   {[]string{`"\\ud83d"`, `"\ude00"`}, `\ud83d` + "\uFFFD", ""},
		"escapes of all kinds":            {[]string{`"\n\"\\\/\u00e9\ufffd\ud83d"`, `"\ude00\t"`}, "\n\"\\/é\uFFFD😀\t", ""},
		"U+FFFD itself":                   {[]string{`"�"`, `"\ufffd"`}, "\uFFFD\uFFFD", ""},
		"Hangul, which begins alike":      {[]string{`"한"`, `"글\ud7ff"`}, "한글\ud7ff", ""},
		"bytes that are no UTF-8":         {[]string{"\"a\xff\\ud83d\"", `"\ude00"`}, "a\uFFFD😀", ""},
		"null":                            {[]string{`null`}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got, open string
			for _, piece := range c.pieces {
				var f jsontext.Fragment
				if err := json.Unmarshal([]byte(piece), &f); err != nil {
					t.Fatal(err)
				}
				var text string
				text, open = jsontext.Join(open, string(f))
				got += text
			}
			if got != c.want || open != c.left {
				t.Errorf("%q, %q left", got, open)
			}
		})
	}
}

// FuzzJoin: wherever the escapes of a text are cut into two strings, it is put together again.
func FuzzJoin(f *testing.F) {
	f.Add("a😀b", 3)
	f.Add("\u2028\U0010FFFF\uFFFD", 7)
	f.Add("\\ud83d\"\n", 1)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		if !utf8.ValidString(text) {
			return
		}
		var units []string
		for _, r := range text {
			if r >= 0x10000 {
				r -= 0x10000
				units = append(units, unit(0xD800+r>>10), unit(0xDC00+r&0x3FF))
			} else {
				units = append(units, unit(r))
			}
		}
		at := min(max(cut, 0), len(units))
		var got, open string
		for _, part := range [][]string{units[:at], units[at:]} {
			quoted := `"`
			for _, u := range part {
				quoted += u
			}
			var f jsontext.Fragment
			if err := json.Unmarshal([]byte(quoted+`"`), &f); err != nil {
				t.Fatal(err)
			}
			var more string
			more, open = jsontext.Join(open, string(f))
			got += more
		}
		if got != text || open != "" {
			t.Fatalf("%q became %q, %q left", text, got, open)
		}
	})
}

func unit(r rune) string {
	const hex = "0123456789aBcDeF"
	return `\u` + string([]byte{hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15]})
}
