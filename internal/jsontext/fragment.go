// Package jsontext reads pieces of text that a producer cut where no character ends.
//
// JavaScript, Java and C# cut text between UTF-16 units, so the two halves of a surrogate
// pair may come in two JSON strings: "\ud83d" and then "\ude00". encoding/json makes U+FFFD
// of each, and the character is lost. A [Fragment] keeps them, and [Join] puts them together.
package jsontext

import (
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Fragment is a JSON string in which half a surrogate pair stays what it is: the three bytes
// that UTF-8 would have for it, which are no valid UTF-8.
type Fragment string

// UnmarshalJSON implements [json.Unmarshaler].
func (f *Fragment) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	if strings.ContainsRune(text, utf8.RuneError) { // possibly half a pair
		text = Unquote(raw)
	}
	*f = Fragment(text)
	return nil
}

// Unquote reads a valid JSON string, or null, as a [Fragment]. Bytes that are not UTF-8 become U+FFFD.
func Unquote(raw []byte) string {
	if raw[0] != '"' {
		return ""
	}
	var out []byte
	for rest := raw[1 : len(raw)-1]; len(rest) > 0; {
		if unit, ok := escaped(rest); ok && utf16.IsSurrogate(unit) {
			low, _ := escaped(rest[6:])
			if r := utf16.DecodeRune(unit, low); r != utf8.RuneError {
				out, rest = utf8.AppendRune(out, r), rest[12:]
				continue
			}
			out, rest = appendHalf(out, unit), rest[6:]
			continue
		}
		n := plain(rest)
		var text string
		_ = json.Unmarshal([]byte(`"`+string(rest[:n])+`"`), &text) // a part of a valid string
		out, rest = append(out, text...), rest[n:]
	}
	return string(out)
}

// escaped is the UTF-16 unit of an escape at the beginning of s.
func escaped(s []byte) (unit rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range s[2:6] {
		unit = unit<<4 | rune(c&15)
		if c > '9' {
			unit += 9
		}
	}
	return unit, true
}

// plain is how much of s comes before the next escape of a surrogate.
func plain(s []byte) int {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if unit, ok := escaped(s[i:]); ok && utf16.IsSurrogate(unit) {
			return i
		}
		i++
	}
	return len(s)
}

func appendHalf(dst []byte, unit rune) []byte {
	return append(dst, 0xED, byte(0x80|unit>>6&0x3F), byte(0x80|unit&0x3F))
}

// HalfBytes is how many bytes of a [Fragment] half a surrogate pair takes.
const HalfBytes = 3

// half is the half that s begins with; 0 when it begins with none.
func half(s string) rune {
	if len(s) < HalfBytes || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || s[2]&0xC0 != 0x80 {
		return 0
	}
	return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
}

// IsHalf reports whether s begins with half a surrogate pair, which takes [HalfBytes].
func IsHalf(s string) bool { return half(s) != 0 }

// Join appends a piece of text to what the piece before it left open, which is "" or one
// first half. It returns the text that is complete, as valid UTF-8, and what this piece
// leaves open. A half that finds no other is U+FFFD.
func Join(open, piece string) (text, left string) {
	if at := len(piece) - HalfBytes; at >= 0 {
		if unit := half(piece[at:]); unit >= 0xD800 && unit < 0xDC00 {
			piece, left = piece[:at], piece[at:]
		}
	}
	switch {
	case open == "":
	case piece == "" && left == "":
		return "", open
	default:
		if r := utf16.DecodeRune(half(open), half(piece)); r != utf8.RuneError {
			return string(r) + Valid(piece[HalfBytes:]), left
		}
		return "\uFFFD" + Valid(piece), left
	}
	return Valid(piece), left
}

// Valid is a text with U+FFFD for each half of a surrogate pair and each other byte that is
// no UTF-8.
func Valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		n := HalfBytes
		if !IsHalf(s) {
			var r rune
			if r, n = utf8.DecodeRuneInString(s); r != utf8.RuneError {
				out.WriteString(s[:n])
				s = s[n:]
				continue
			}
		}
		out.WriteRune(utf8.RuneError)
		s = s[n:]
	}
	return out.String()
}
