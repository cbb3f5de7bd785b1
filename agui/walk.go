// This file walks through valid JSON without decoding it: callers get keys and raw values as slices
// of the input. encoding/json would decode everything, and would lose digits and duplicate keys.

package agui

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// membered is an object that takes members one by one. Those that it does not know it drops or
// sets apart: AG-UI 1.0 has unknown properties stripped, not refused.
type membered interface {
	member(key, raw []byte) error
}

// completed is an object with conditions that hold between its members.
type completed interface {
	complete() error
}

// walk gives every member of a valid JSON object to m.
func walk(raw []byte, m membered) error {
	if err := EachMember(raw, m.member); err != nil {
		return err
	}
	if c, ok := m.(completed); ok {
		return c.complete()
	}
	return nil
}

// EachMember calls f with the members of an object, in order, keys unescaped. The
// JSON has to be valid; key and val are slices of it. The path of an [*InputError]
// that f returns is completed with the key.
func EachMember(raw []byte, f func(key, val []byte) error) error {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return wrong("must be an object")
	}
	for i = skipSpace(raw, i+1); i < len(raw) && raw[i] != '}'; {
		end := skipValue(raw, i)
		key := unquotedKey(raw[i:end])
		i = skipSpace(raw, skipSpace(raw, end)+1) // over the colon
		end = skipValue(raw, i)
		if err := f(key, raw[i:end]); err != nil {
			return within(string(key), err)
		}
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return nil
}

// EachElement calls f with the elements of an array, as [EachMember] does.
func EachElement(raw []byte, f func(val []byte) error) error {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '[' {
		return wrong("must be an array")
	}
	n := 0
	for i = skipSpace(raw, i+1); i < len(raw) && raw[i] != ']'; n++ {
		end := skipValue(raw, i)
		if err := f(raw[i:end]); err != nil {
			return within(strconv.Itoa(n), err)
		}
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return nil
}

// skipSpace returns the place of the first byte at or after i that is no white space of JSON.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i. The JSON is valid,
// so counting brackets outside strings is enough, and no depth can hurt.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipQuoted(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i = skipPlain(b, i)
		}
		if depth <= 0 {
			return i
		}
	}
	return i
}

// skipQuoted returns the end of the string that begins at i.
func skipQuoted(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// skipPlain goes over a number, a literal, or what stands between values.
func skipPlain(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\n', '\r', '\t':
			return i
		}
	}
	return i
}

// unquotedKey is a member's name; escapes in names are rare, so the common case
// is a slice of the input.
func unquotedKey(quoted []byte) []byte {
	if len(quoted) < 2 {
		return nil
	}
	for _, c := range quoted {
		if c == '\\' {
			return []byte(unquote(quoted))
		}
	}
	return quoted[1 : len(quoted)-1]
}

// unquote is the text of a valid JSON string. Bytes that are no UTF-8 and lone
// surrogates become U+FFFD.
func unquote(quoted []byte) string {
	plain := quoted[1 : len(quoted)-1]
	for _, c := range plain {
		if c == '\\' {
			return unquoteEscaped(quoted)
		}
	}
	if !utf8.Valid(plain) {
		return unquoteEscaped(quoted)
	}
	return string(plain)
}

// unquoteEscaped decodes escapes and repairs UTF-8; valid JSON cannot make it fail.
func unquoteEscaped(quoted []byte) string {
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return ""
	}
	return s
}
