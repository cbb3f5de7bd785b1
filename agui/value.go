// This file reads single values of valid JSON. Null reads as absent wherever absence is allowed:
// peers from before 1.0 write it.

package agui

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"aqueduct/internal/jsontext"
)

// isNull reports whether a value is null; no other valid JSON value of four bytes begins with n.
func isNull(raw []byte) bool { return len(raw) == 4 && raw[0] == 'n' }

// decodeString reads a string; null leaves dst as it is.
func decodeString(dst *string, raw []byte) error {
	if isNull(raw) {
		return nil
	}
	if raw[0] != '"' {
		return wrong("must be a string")
	}
	*dst = unquote(raw)
	return nil
}

// decodePiece reads a string that a producer may have cut inside a character. Half a character does not change, as in a
// jsontext.Fragment, until [Halves] has the other half.
func decodePiece(dst *string, raw []byte) error {
	err := decodeString(dst, raw)
	if err == nil && strings.ContainsRune(*dst, utf8.RuneError) {
		*dst = jsontext.Unquote(raw)
	}
	return err
}

// decodeOneOf reads a string that has to be one of a list. dst gets the list's own string, so the
// input can be freed.
func decodeOneOf(dst *string, raw []byte, allowed ...string) error {
	var s string
	if err := decodeString(&s, raw); err != nil || isNull(raw) {
		return err
	}
	for _, a := range allowed {
		if s == a {
			*dst = a
			return nil
		}
	}
	return wrong("must be one of " + strings.Join(allowed, ", "))
}

// decodeStrings reads a list of strings, in which null is no string.
func decodeStrings(dst *[]string, raw []byte) error {
	if isNull(raw) {
		return nil
	}
	list := []string{}
	err := EachElement(raw, func(val []byte) error {
		if val[0] != '"' {
			return wrong("must be a string")
		}
		list = append(list, unquote(val))
		return nil
	})
	*dst = list
	return err
}

// form is what a member of raw JSON may be.
type form uint8

const (
	formValue form = iota // not null
	formAny
	formObject
	formArray
)

// decodeJSON keeps a value as it came, if it has the right form.
func decodeJSON(dst *json.RawMessage, raw []byte, f form) error {
	switch {
	case f != formAny && isNull(raw):
		return nil
	case f == formObject && raw[0] != '{':
		return wrong("must be an object")
	case f == formArray && raw[0] != '[':
		return wrong("must be an array")
	}
	*dst = bytes.Clone(raw)
	return nil
}

// decodeBool reads true or false; absent stays nil, which is neither.
func decodeBool(dst **bool, raw []byte) error {
	var b bool
	switch string(raw) {
	case "null":
		return nil
	case "true":
		b = true
	case "false":
	default:
		return wrong("must be true or false")
	}
	*dst = &b
	return nil
}

// maxSafeInteger is 2^53-1, the largest integer every JSON reader agrees on and
// the limit AG-UI 1.0 sets for timestamps and counts.
const maxSafeInteger = 1<<53 - 1

// decodeRounded reads an integer; fractions of clocks are rounded.
func decodeRounded(dst *int64, raw []byte) error {
	if isNull(raw) {
		return nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return wrong("must be a number")
	}
	if f = math.Round(f); math.Abs(f) > maxSafeInteger {
		return wrong("must be an integer within 2^53")
	}
	*dst = int64(f)
	return nil
}

// decodeCount reads a count of tokens. Some providers send them as 12.0.
func decodeCount(dst **int64, raw []byte) error {
	if isNull(raw) {
		return nil
	}
	var n int64
	if err := decodeRounded(&n, raw); err != nil {
		return err
	}
	if n < 0 {
		return wrong("must not be negative")
	}
	*dst = &n
	return nil
}
