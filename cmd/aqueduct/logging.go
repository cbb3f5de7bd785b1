// The log: its two forms, without secrets and without characters that would forge a line.

package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"unicode"
	"unicode/utf16"

	"aqueduct/bridge/redact"
)

// newLogger writes one line an entry, whatever is in its values, without the secrets in them. Values of agents and
// clients get into the log, and none of them may look like a line of its own.
func newLogger(format string, w io.Writer, filter *redact.Filter) *slog.Logger {
	if format == "json" {
		return slog.New(redact.LogHandler(slog.NewJSONHandler(visible{w}, nil), filter))
	}
	return slog.New(redact.LogHandler(slog.NewTextHandler(w, nil), filter)) // which quotes what is not printable
}

// visible writes what shows nothing, or turns the direction of writing, as JSON's \u escapes, which mean the same: slog's
// JSON leaves it as it is, and a terminal would show another line than was written.
type visible struct{ io.Writer }

// Write escapes such characters. It returns the length that it was given, as io.Writer asks, not what it wrote.
func (v visible) Write(line []byte) (int, error) {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }
	if !bytes.ContainsFunc(line, hidden) {
		return v.Writer.Write(line)
	}
	var out bytes.Buffer
	for _, r := range string(line) {
		if !hidden(r) {
			out.WriteRune(r)
			continue
		}
		// JSON's escapes are UTF-16: a character beyond the first plane takes two.
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	if _, err := v.Writer.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(line), nil
}
