package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible is an untrusted text, made safe to show on one line to a person who
// decides by it: line breaks and spaces in a row are one space; controls,
// escape sequences, marks that turn the direction of writing and characters of no width are
// shown by their numbers; and it has at most that many characters, with … for the rest. It is for showing only: to
// judge, a Policy needs the text itself, in which it can see a second line.
func Visible(text string, most int) string {
	var b strings.Builder
	n, gap := 0, false
	for i, r := range text {
		if unicode.IsSpace(r) {
			gap = n > 0
			continue
		}
		piece := shown(r, text[i:])
		if gap {
			piece, gap = " "+piece, false
		}
		if n += utf8.RuneCountInString(piece); n > most {
			return b.String() + "…"
		}
		b.WriteString(piece)
	}
	return b.String()
}

// shown is one character. What stands for an emoji's colour is left as it is.
func shown(r rune, rest string) string {
	switch {
	case r == utf8.RuneError && !strings.HasPrefix(rest, string(utf8.RuneError)): // broken text
		return string(utf8.RuneError)
	case r == '\ufe0f', visible(r), r == utf8.RuneError:
		return string(r)
	}
	return fmt.Sprintf("⟨U+%04X⟩", r)
}
