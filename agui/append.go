// This file writes JSON by appending to a buffer. encoding/json would allocate, escape < and > for
// HTML, and write other escapes for the same text; the bytes of an event must stay the same across
// releases, because they are compared, hashed and kept in logs.

package agui

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"aqueduct/internal/jsontext"
)

const hex = "0123456789abcdef"

// open begins an event of type t. The type must be the first member: TypeOf and IsTerminal rely on
// it.
func open(dst []byte, t Type) []byte {
	dst = append(dst, typePrefix...)
	dst = append(dst, t...)
	return append(dst, '"')
}

// appendKey begins a member, with a comma unless it is its object's first.
func appendKey(dst []byte, key string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, key...)
	return append(dst, '"', ':')
}

// appendMember writes a member that is a string, empty or not.
func appendMember(dst []byte, key, s string) []byte {
	return AppendString(appendKey(dst, key), s)
}

// appendOptional writes nothing for "": AG-UI 1.0 wants optional members left
// out, never null.
func appendOptional(dst []byte, key, s string) []byte {
	if s == "" {
		return dst
	}
	return appendMember(dst, key, s)
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

func appendOptionalRaw(dst []byte, key string, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return dst
	}
	return appendRaw(appendKey(dst, key), raw)
}

// appendRawMember writes a required JSON value; an absent one is null, which is
// only right where the protocol allows any JSON.
func appendRawMember(dst []byte, key string, raw json.RawMessage) []byte {
	return appendRaw(appendKey(dst, key), raw)
}

// AppendString appends s as a JSON string. What could end a line somewhere,
// controls and U+2028/2029, is escaped, and bytes that are no UTF-8 become
// U+FFFD, so that an event is one line of valid text whatever an agent wrote.
// Half a surrogate pair arrives as three bytes that are not UTF-8 (see jsontext.Fragment) and
// becomes one U+FFFD, where any other invalid byte becomes one each. Halves has joined the halves
// that fit before an event gets here.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		bad := r == utf8.RuneError && size == 1
		if bad && jsontext.IsHalf(s[i:]) {
			size = jsontext.HalfBytes
		}
		if !bad && r != '\u2028' && r != '\u2029' {
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		switch {
		case bad:
			dst = append(dst, "\uFFFD"...)
		case r == '\u2028':
			dst = append(dst, `\u2028`...)
		default:
			dst = append(dst, `\u2029`...)
		}
		i += size
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendEscape writes an ASCII character that must not stand in a JSON string as it is.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// appendRaw appends JSON that the protocol does not look into: white space
// between tokens goes, so that the event stays one line, everything else stays
// byte for byte. Text that is no JSON at all is kept as a JSON string of itself:
// an event is never broken by what it carries.
func appendRaw(dst []byte, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return append(dst, "null"...)
	}
	if !json.Valid(raw) {
		return AppendString(dst, string(raw))
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	return appendCompact(dst, raw)
}

// appendCompact copies valid JSON without the white space between its tokens.
// White space inside strings stays. Numbers are copied and never parsed: 1e400 and
// 12345678901234567890 do not fit a float64, and a client must get them back as its agent wrote
// them.
func appendCompact(dst, raw []byte) []byte {
	quoted, escaped := false, false
	start := 0
	for i, c := range raw {
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\n' || c == '\r' || c == '\t'):
			dst = append(dst, raw[start:i]...)
			start = i + 1
		}
	}
	return append(dst, raw[start:]...)
}
