// Package ids has the forms of ids and names that others choose: they are checked before they get into a frame, a header or
// a line of the log.
package ids

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxID bounds them, in characters.
const maxID = 128

// Form is the rule of Valid, for the client whose id breaks it.
const Form = "Ids are 1 to 128 printable characters, without a space at either end."

// Between letters and between emoji these two are part of what is written.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// Valid reports whether a client's id has a form that is accepted: printable text of any script. Control characters, line
// separators and marks of direction could break a frame or a header, or make a log line look like another.
func Valid(id string) bool {
	if id == "" || len(id) > utf8.UTFMax*maxID || !utf8.ValidString(id) || utf8.RuneCountInString(id) > maxID {
		return false
	}
	for _, c := range id {
		if !unicode.IsPrint(c) && c != zeroWidthJoiner && c != zeroWidthNonJoiner {
			return false
		}
	}
	return strings.TrimSpace(id) == id
}

// ValidName reports whether a name of an agent, a proxy or a webhook, which operators and programs choose, has the form
// that is accepted: it stands unescaped in flags, paths and addresses.
func ValidName(name string) bool {
	if name == "" || len(name) > maxID {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}
