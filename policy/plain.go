package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain is a text as a person sees it: what has no shape is left out, whatever breaks a
// line or stands for one is a space, and spaces in a row are one. A text that is its own
// plain form hides nothing.
// An agent's title may hold characters that turn the text around or hide a part of it; what a rule compares is what a
// person would see.
func plain(text string) string {
	if isPlain(text) {
		return text
	}
	seen := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), unicode.IsSpace(r):
			return ' '
		case !visible(r):
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(seen), " ")
}

// isPlain is the quick way for nearly all texts: printable ASCII with single spaces.
func isPlain(text string) bool {
	last := byte(' ') // so that none comes first
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c > '~' || c == ' ' && last == ' ' {
			return false
		}
		last = c
	}
	return text == "" || last != ' '
}

// visible reports whether a character has a shape of its own.
func visible(r rune) bool {
	switch r {
	case '\u034f', '\u115f', '\u1160', '\u17b4', '\u17b5', '\u2800', '\u3164', '\uffa0': // drawn as nothing
		return false
	}
	return unicode.IsPrint(r) && !unicode.Is(unicode.Variation_Selector, r) && r != utf8.RuneError
}

// lines are the pieces between control characters, as a terminal or a shell may take each for a line of its own.
func lines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' })
}
