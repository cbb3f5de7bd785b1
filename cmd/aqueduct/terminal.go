package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// terminal is the one writer of commands. Agents, clients and servers elsewhere choose much of what a command prints: a control
// character in it would act on the terminal, and one that turns the direction would show another line than was written.
//
// Each such character is written as JSON's \u escape, so that JSON stays what it is, value by value. A byte that is no UTF-8
// becomes U+FFFD. Tabs and line feeds are the commands' own, because neither is in a text of JSON.
type terminal struct {
	to io.Writer

	mu   sync.Mutex
	part []byte // begin of a character, whose rest comes with the next Write
}

// onTerminal returns w as a terminal, once.
func onTerminal(w io.Writer) io.Writer {
	if t, ok := w.(*terminal); ok {
		return t
	}
	return &terminal{to: w}
}

func hidden(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }

// Write returns the length that it was given, as io.Writer asks, not what it wrote.
func (t *terminal) Write(given []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := given
	if len(t.part) > 0 {
		text = append(t.part, given...)
	}
	whole := text[:wholeRunes(text)]
	t.part = bytes.Clone(text[len(whole):])
	if utf8.Valid(whole) && !bytes.ContainsFunc(whole, hidden) {
		_, err := t.to.Write(whole)
		return writtenAll(given, err)
	}
	var out bytes.Buffer
	for _, r := range string(whole) {
		if !hidden(r) {
			out.WriteRune(r)
			continue
		}
		// JSON's escapes are UTF-16: a character beyond the first plane takes two.
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	_, err := t.to.Write(out.Bytes())
	return writtenAll(given, err)
}

func writtenAll(given []byte, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(given), nil
}

// wholeRunes returns how much of a text is before the begin of a character that it ends in.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}
