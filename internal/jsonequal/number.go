package jsonequal

import (
	"math/big"
	"strconv"
	"strings"
)

// appendNumber writes a JSON number as its sign, its digits without zeros at either end, and
// the power of ten of the last digit. What is no number is written as it is.
func appendNumber(dst []byte, n string) []byte {
	if n == "" || n[0] != '-' && (n[0] < '0' || n[0] > '9') {
		return append(dst, n...)
	}
	mantissa, exponent := n, ""
	if at := strings.IndexAny(n, "eE"); at >= 0 {
		mantissa, exponent = n[:at], n[at+1:]
	}
	unsigned, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return append(dst, '0') // -0 is 0
	}
	if negative {
		dst = append(dst, '-')
	}
	dst = append(append(dst, trimmed...), 'e')
	shift := int64(len(digits) - len(trimmed) - len(fraction))
	if power, err := strconv.ParseInt(exponent, 10, 32); err == nil || exponent == "" {
		return strconv.AppendInt(dst, power+shift, 10)
	}
	power, ok := new(big.Int).SetString(strings.TrimPrefix(exponent, "+"), 10)
	if !ok {
		return append(append(dst, '?'), n...) // no JSON number: equals only itself
	}
	return power.Add(power, big.NewInt(shift)).Append(dst, 10)
}
