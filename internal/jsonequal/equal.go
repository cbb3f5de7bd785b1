// Package jsonequal decides when two JSON values are the same value. It is the one place that
// does: a state a client already has, an answer given twice, arguments that a policy names.
package jsonequal

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep values may nest to be compared. It is far above what any body may
// bring, and bounds the stack.
const MaxDepth = 256

// Texts reports whether two JSON texts are the same value:
//
//   - Space between tokens, the order of an object's members and how a string is escaped do
//     not count.
//   - Numbers are compared by value and exactly: 1, 1.0 and 10e-1 are one number,
//     9007199254740993 and 9007199254740992 are two.
//   - Half a surrogate pair is itself and no other half, nor U+FFFD.
//   - An object with a member twice has no single meaning, and equals nothing; so does what
//     is no JSON or nests deeper than [MaxDepth].
//   - Identical texts are equal whatever they are: who reads one reads the other alike.
func Texts(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, okX := Canonical(a)
	y, okY := Canonical(b)
	return okX && okY && bytes.Equal(x, y)
}

// Values is [Texts] for values that were decoded with [json.Decoder.UseNumber].
func Values(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && members(x, y)
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, Values)
	case json.Number:
		y, ok := b.(json.Number)
		return ok && Numbers(x.String(), y.String())
	}
	switch b.(type) { // == on these would panic
	case map[string]any, []any:
		return false
	}
	return a == b
}

func members(x, y map[string]any) bool {
	if len(x) != len(y) {
		return false
	}
	for name, value := range x {
		other, ok := y[name]
		if !ok || !Values(value, other) {
			return false
		}
	}
	return true
}

// Numbers reports whether two JSON numbers have the same value. No digit is lost, and an
// exponent of any size costs nothing: it is counted, not expanded.
func Numbers(a, b string) bool {
	return a == b || string(appendNumber(nil, a)) == string(appendNumber(nil, b))
}

// Canonical writes a value so that equal values, and no others, are equal bytes. It is
// no JSON: strings are written behind their length. It is false for what equals nothing but
// its own text.
func Canonical(text []byte) ([]byte, bool) {
	if !json.Valid(text) {
		return nil, false
	}
	r := reader{text: text}
	return r.value(make([]byte, 0, len(text)), 0)
}

// reader walks through valid JSON.
type reader struct {
	text []byte
	i    int
}

func (r *reader) space() byte {
	for r.text[r.i] <= ' ' {
		r.i++
	}
	return r.text[r.i]
}

func (r *reader) value(dst []byte, depth int) ([]byte, bool) {
	if depth > MaxDepth {
		return dst, false
	}
	switch c := r.space(); c {
	case '{':
		return r.object(dst, depth)
	case '[':
		return r.array(dst, depth)
	case '"':
		return r.str(dst), true
	default:
		return appendNumber(dst, r.plain()), true // null, true and false are written as they are
	}
}

func (r *reader) array(dst []byte, depth int) ([]byte, bool) {
	dst = append(dst, '[')
	for r.i++; r.space() != ']'; {
		var ok bool
		if dst, ok = r.value(dst, depth+1); !ok {
			return dst, false
		}
		if dst = append(dst, ','); r.space() == ',' {
			r.i++
		}
	}
	r.i++
	return append(dst, ']'), true
}

// object writes the members in the order of their names.
func (r *reader) object(dst []byte, depth int) ([]byte, bool) {
	type member struct{ name, value []byte }
	var list []member
	for r.i++; r.space() != '}'; {
		name := r.str(nil)
		r.space()
		r.i++ // over the colon
		value, ok := r.value(nil, depth+1)
		if !ok {
			return dst, false
		}
		list = append(list, member{name, value})
		if r.space() == ',' {
			r.i++
			r.space()
		}
	}
	r.i++
	slices.SortFunc(list, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for i, m := range list {
		if i > 0 && bytes.Equal(m.name, list[i-1].name) {
			return dst, false
		}
		dst = append(append(append(append(dst, m.name...), ':'), m.value...), ',')
	}
	return append(dst, '}'), true
}

// plain is a number or a literal.
func (r *reader) plain() string {
	start := r.i
	for r.i < len(r.text) && strings.IndexByte(" \t\r\n,]}", r.text[r.i]) < 0 {
		r.i++
	}
	return string(r.text[start:r.i])
}

// str appends a string's text behind its length, so that nothing in it looks like what
// follows it. Half a surrogate pair is written as the three bytes UTF-8 would have for it.
func (r *reader) str(dst []byte) []byte {
	var text []byte
	for r.i++; r.text[r.i] != '"'; {
		if r.text[r.i] != '\\' {
			text = append(text, r.text[r.i])
			r.i++
			continue
		}
		text = r.escape(text)
	}
	r.i++
	return append(append(strconv.AppendInt(append(dst, '"'), int64(len(text)), 10), '"'), text...)
}

func (r *reader) escape(text []byte) []byte {
	c := r.text[r.i+1]
	r.i += 2
	if c != 'u' {
		if at := strings.IndexByte("bfnrt", c); at >= 0 {
			c = "\b\f\n\r\t"[at]
		}
		return append(text, c)
	}
	unit := r.unit()
	if unit >= 0xD800 && unit < 0xDC00 && bytes.HasPrefix(r.text[r.i:], []byte(`\u`)) {
		before := r.i
		r.i += 2
		if low := r.unit(); low >= 0xDC00 && low < 0xE000 {
			return utf8.AppendRune(text, 0x10000+(unit-0xD800)<<10+(low-0xDC00))
		}
		r.i = before
	}
	if unit >= 0xD800 && unit < 0xE000 {
		return append(text, 0xED, byte(0x80|unit>>6&0x3F), byte(0x80|unit&0x3F))
	}
	return utf8.AppendRune(text, unit)
}

// unit reads the four digits of an escape.
func (r *reader) unit() rune {
	n, _ := strconv.ParseUint(string(r.text[r.i:r.i+4]), 16, 16) // valid JSON has nothing else here
	r.i += 4
	return rune(n)
}
