// This file keeps secrets out of logs, errors and pages.

package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
)

// Secret is text that must not get into a log, an error or a page.
type Secret string

// Is compares hashes, so that neither content nor length shows in the time it takes.
func (s Secret) Is(given string) bool {
	a, b := sha256.Sum256([]byte(s)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

const hidden = "[hidden]"

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// String keeps the secret out of formatted text.
func (s Secret) String() string { return hidden }

// GoString keeps the secret out of %#v.
func (s Secret) GoString() string { return hidden }

// MarshalText keeps the secret out of encoded text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }
