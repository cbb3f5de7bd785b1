package auth

import "log/slog"

// Secret is text that must not get into a log, an error or a page.
type Secret string

const hidden = "[hidden]"

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// String keeps the secret out of formatted text.
func (s Secret) String() string { return hidden }

// GoString keeps the secret out of %#v.
func (s Secret) GoString() string { return hidden }

// MarshalText keeps the secret out of encoded text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }
