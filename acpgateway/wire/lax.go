package wire

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"aqueduct/internal/jsontext"
)

// lax is a member that agents may get wrong. A value of another type reads as absent, so
// that one bad member never costs the others.
type lax[T any] struct {
	Val  T
	Set  bool // present, of the right type, and not null
	Null bool
}

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (l *lax[T]) UnmarshalJSON(raw []byte) error {
	*l = lax[T]{}
	if string(raw) == "null" {
		l.Null = true
		return nil
	}
	if isPlain(raw) {
		switch text := any(&l.Val).(type) {
		case *string:
			*text, l.Set = string(raw[1:len(raw)-1]), true
			return nil
		case *jsontext.Fragment:
			*text, l.Set = jsontext.Fragment(raw[1:len(raw)-1]), true
			return nil
		}
	}
	var v T
	if json.Unmarshal(raw, &v) == nil {
		l.Val, l.Set = v, true
	}
	return nil
}

// isPlain tells a JSON string that is its own text, as most are; the decoder has found it
// valid. Reading it without reflection takes a third off the cost of a chunk.
func isPlain(raw []byte) bool {
	return raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw)
}

// laxList is a list whose bad elements are left out.
type laxList[T any] struct {
	Val []T
	Set bool
}

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (l *laxList[T]) UnmarshalJSON(raw []byte) error {
	*l = laxList[T]{}
	var elements []json.RawMessage
	if !isArray(raw) || json.Unmarshal(raw, &elements) != nil {
		return nil
	}
	l.Val, l.Set = make([]T, 0, len(elements)), true
	for _, e := range elements {
		var v T
		if json.Unmarshal(e, &v) == nil {
			l.Val = append(l.Val, v)
		}
	}
	return nil
}

func isArray(raw []byte) bool  { return firstByte(raw) == '[' }
func isObject(raw []byte) bool { return firstByte(raw) == '{' }

func firstByte(raw []byte) byte {
	if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) > 0 {
		return raw[0]
	}
	return 0
}

// given is a JSON value other than null, which counts as absent.
func given(raw json.RawMessage) json.RawMessage {
	if string(bytes.TrimSpace(raw)) == "null" {
		return nil
	}
	return raw
}
