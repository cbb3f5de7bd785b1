package agui

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// The decoders below read one value of valid JSON. Null reads as absent,
// wherever absence is allowed: peers before 1.0 write it.

func isNull(raw []byte) bool { return len(raw) == 4 && raw[0] == 'n' }

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

// decodeAny keeps any JSON, null included.
func decodeAny(dst *json.RawMessage, raw []byte) error {
	*dst = bytes.Clone(raw)
	return nil
}

func decodeRaw(dst *json.RawMessage, raw []byte) error {
	if isNull(raw) {
		return nil
	}
	return decodeAny(dst, raw)
}

func decodeObject(dst *json.RawMessage, raw []byte) error {
	if !isNull(raw) && raw[0] != '{' {
		return wrong("must be an object")
	}
	return decodeRaw(dst, raw)
}

func decodeArray(dst *json.RawMessage, raw []byte) error {
	if !isNull(raw) && raw[0] != '[' {
		return wrong("must be an array")
	}
	return decodeRaw(dst, raw)
}

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

// decodeRounded reads an integer; clocks that tell fractions are rounded.
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

func decodeStruct[T any, P interface {
	*T
	membered
}](dst *P, raw []byte) error {
	if isNull(raw) {
		return nil
	}
	v := P(new(T))
	*dst = v
	return walk(raw, v)
}

func decodeList[T any, P interface {
	*T
	membered
}](dst *[]T, raw []byte) error {
	if isNull(raw) {
		return nil
	}
	list := []T{}
	err := EachElement(raw, func(val []byte) error {
		list = append(list, *new(T))
		return walk(val, P(&list[len(list)-1]))
	})
	*dst = list
	return err
}
