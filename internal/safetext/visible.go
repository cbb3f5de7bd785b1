// Package safetext makes what an agent wrote safe to be judged by a person: as text in which nothing is invisible, and as
// warnings where programs would read the same bytes in two ways.
//
// It only shows: nothing is decided by what it returns, and what runs is the text as the agent wrote it. Everything that
// is not certain to look like itself becomes a mark, so a character that Unicode adds tomorrow is marked until the
// tables know it.
package safetext

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mark is a piece of a text as a person is to see it. An Odd one stands for characters
// that do not show, or that make others look like what they are not.
type Mark struct {
	Text string
	Odd  bool
}

// KeepLines, as a limit, shows a text in whole and lets line feeds break lines.
const KeepLines = 0

// Visible makes a text of an agent's safe to be judged by: control characters and escapes
// of terminals, bidirectional and invisible characters, odd spaces and piled-up accents
// become marks that name them, repeated ones a single mark with their number. With a limit
// it is one line of at most so many characters and marks. Escaping it for HTML is left to
// the template.
func Visible(text string, limit int) []Mark {
	v := viewer{limit: limit}
	for len(text) > 0 && !v.full() {
		r, size := utf8.DecodeRuneInString(text)
		if name := v.odd(r, size, text); name != "" {
			v.mark(name)
		} else {
			v.plain(text[:size])
		}
		text = text[size:]
	}
	v.end(len(text) > 0)
	return v.out
}

// viewer is one run of Visible. At most one of text and name waits to become a Mark: plain characters are gathered, and
// so are repetitions of one odd character, because a thousand of them must not push the rest out of sight.
type viewer struct {
	limit   int
	out     []Mark
	text    strings.Builder // plain so far
	name    string          // of the odd character last seen
	times   int             // in a row; 0: none waits
	accents int             // in a row
	n       int             // characters and marks so far, as the limit counts them
}

func (v *viewer) full() bool { return v.limit > 0 && v.n >= v.limit }

func (v *viewer) plain(s string) {
	v.flushOdd()
	v.text.WriteString(s)
	v.n++
}

// mark takes an odd character. The same one again costs nothing of the limit.
func (v *viewer) mark(name string) {
	if name == v.name {
		v.times++
		return
	}
	v.flushOdd()
	v.flushPlain()
	v.name, v.times = name, 1
	v.n++
}

func (v *viewer) flushPlain() {
	if v.text.Len() > 0 {
		v.out = append(v.out, Mark{Text: v.text.String()})
		v.text.Reset()
	}
}

// flushOdd ends the mark that waits, with the number of its repetitions.
func (v *viewer) flushOdd() {
	if v.times == 0 {
		return
	}
	text := "⟨" + v.name + "⟩"
	if v.times > 1 {
		text = fmt.Sprintf("⟨%s ×%d⟩", v.name, v.times)
	}
	v.out = append(v.out, Mark{Text: text, Odd: true})
	v.name, v.times = "", 0
}

// end gives out what waits, and a mark for what was cut off, which is not counted in the limit.
func (v *viewer) end(cut bool) {
	v.flushOdd()
	v.flushPlain()
	if cut {
		v.out = append(v.out, Mark{Text: "… cut here", Odd: true})
	}
}

// maxAccents is how many combining characters may follow one letter, as Vietnamese needs.
const maxAccents = 2

// odd names a character that is not to be shown as it is; "" for one that is. size is 1 for a byte that is no UTF-8. It
// counts accents in a row, so it has to be called for every character, in order.
func (v *viewer) odd(r rune, size int, text string) string {
	accent := unicode.Is(unicode.M, r)
	if accent {
		v.accents++
	} else {
		v.accents = 0
	}
	switch {
	case r == utf8.RuneError && size == 1:
		return fmt.Sprintf("byte %02X", text[0])
	case r == '\n' && v.limit == KeepLines, r == ' ':
		return ""
	case r == '\n':
		return "new line"
	case r == '\t':
		return "tab"
	case r == 0x1b:
		return "ESC"
	// IsGraphic takes other spaces than the plain one for graphic; a person cannot distinguish them
	// from it. Ignorable characters show nothing although they are letters or marks.
	case !unicode.IsGraphic(r), unicode.IsSpace(r), unicode.Is(unicode.Zs, r), blank(r), accent && v.accents > maxAccents:
		return fmt.Sprintf("U+%04X", r)
	}
	return ""
}

// blank are characters that Unicode counts among letters, marks and symbols and that show
// nothing (Default_Ignorable_Code_Point, and the Braille blank).
func blank(r rune) bool {
	return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Variation_Selector, r) || r == 0x2800
}

// HasOdd reports whether any character is shown as a mark.
func HasOdd(marks []Mark) bool {
	return slices.ContainsFunc(marks, func(m Mark) bool { return m.Odd })
}
