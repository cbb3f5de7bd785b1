// This file is how Go's values are bound: the types in which both databases keep the same value. scan.go is the way
// back.

package sqldb

import (
	"strings"
	"time"
	"unicode/utf8"
)

// millis binds a time as Unix milliseconds; the zero time is 0. SQLite has no type of times, and texts are compared by
// collations that differ.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// fromMillis is the time that millis stored.
func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Millis is how a time is stored, for those who bind without Statement.
func Millis(t time.Time) int64 { return millis(t) }

// jsonText binds a JSON payload as text, which both databases keep as it is, spaces and the order of members included:
// hashes are made of some of them. An empty one is NULL.
func jsonText(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return string(b)
}

// blob binds bytes; nil is NULL, empty is not.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// clean replaces in every text what PostgreSQL refuses (NUL, and bytes that are no UTF-8) by U+FFFD. Agents' free text
// reaches titles, reasons and messages, and one such byte must not make a whole Batch unwritable, nor differ between the
// databases. It changes args itself, which every caller has made for this one statement.
func clean(args []any) []any {
	for i, a := range args {
		if s, ok := a.(string); ok && !fits(s) {
			args[i] = Text(s)
		}
	}
	return args
}

// Text is what is stored of a text; see clean.
func Text(s string) string {
	if fits(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// fits reports whether a text can be stored as it is.
func fits(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }
