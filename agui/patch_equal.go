// This file compares two values as the operation "test" does (RFC 6902, section 4.6).

package agui

import (
	"bytes"
	"strconv"
	"strings"
)

// test compares the value at a pointer with a given value.
func (t *tree) test(pointer string, n *node) error {
	have, _, err := t.find(pointer)
	if err != nil {
		return err
	}
	same, err := t.equal(have, n)
	if err == nil && !same {
		err = within("value", wrong("differs from the document"))
	}
	return err
}

// equal compares objects regardless of the order of their members, and numbers by value.
func (t *tree) equal(a, b *node) (bool, error) {
	for _, n := range []*node{a, b} {
		if err := t.open(n); err != nil {
			return false, err
		}
	}
	switch {
	case a.raw != nil && b.raw != nil:
		return equalScalars(a.raw, b.raw), t.spend(valueWork + len(a.raw) + len(b.raw))
	case a.raw != nil || b.raw != nil || (a.fields == nil) != (b.fields == nil):
		return false, nil
	case a.fields != nil:
		return t.equalFields(a, b)
	case len(a.items) != len(b.items):
		return false, nil
	}
	for i := range a.items {
		if same, err := t.equal(a.items[i], b.items[i]); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// equalFields refuses a value with a member hasOwnProperty: the official clients' library calls it, so the test fails there.
func (t *tree) equalFields(a, b *node) (bool, error) {
	if len(a.fields) != len(b.fields) || b.fields["hasOwnProperty"] != nil {
		return false, nil
	}
	for key, val := range a.fields {
		other := b.fields[key]
		if other == nil {
			return false, nil
		}
		if same, err := t.equal(val, other); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// equalScalars compares two strings, numbers, or literals.
func equalScalars(a, b []byte) bool {
	a, b = bytes.TrimSpace(a), bytes.TrimSpace(b)
	switch {
	case bytes.Equal(a, b):
		return true
	case a[0] == '"' && b[0] == '"':
		return unquote(a) == unquote(b)
	}
	return isNumber(a) && isNumber(b) && equalNumbers(string(a), string(b))
}

// isNumber reports whether a valid JSON value is a number.
func isNumber(v []byte) bool { return v[0] == '-' || v[0] >= '0' && v[0] <= '9' }

// equalNumbers compares numbers of any size exactly. A float64 would not distinguish 9007199254740993 from its neighbour. An
// exponent beyond an int64 equals only its own spelling, which equalScalars has already compared.
func equalNumbers(a, b string) bool {
	x, okX := decimalOf(a)
	y, okY := decimalOf(b)
	return okX && okY && x == y
}

// decimal is ±0.digits · 10^exponent, where digits begin and end with a digit other than 0. Zero has no digits and no sign.
type decimal struct {
	negative bool
	digits   string
	exponent int64
}

// maxExponent leaves room for the number's own digits.
const maxExponent = 1 << 62

// decimalOf reads a JSON number.
func decimalOf(number string) (d decimal, ok bool) {
	number, d.negative = strings.CutPrefix(number, "-")
	mantissa, exponent := number, ""
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], number[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{}, true
	}
	if exponent != "" {
		n, err := strconv.ParseInt(exponent, 10, 64)
		if err != nil || n > maxExponent || n < -maxExponent {
			return decimal{}, false
		}
		d.exponent = n
	}
	d.exponent += int64(len(digits)) - int64(len(fraction))
	return d, true
}
