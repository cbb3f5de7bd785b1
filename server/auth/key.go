package auth

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"aqueduct/internal/secretfile"
)

// LoadKey reads the signing key from a file, which it makes on first use. One that others
// on this machine can read signs nothing.
func LoadKey(path string) (Secret, error) {
	raw, err := secretfile.ReadOrMake(path, func() string { return string(NewKey()) })
	if err != nil {
		return "", fmt.Errorf("auth: the signing key: %w", err)
	}
	if len(raw) < minKeyLength {
		return "", fmt.Errorf("auth: the signing key %s must have at least %d characters", path, minKeyLength)
	}
	return Secret(raw), nil
}

// NewKey is a key nobody has had before.
func NewKey() Secret {
	key := make([]byte, minKeyLength)
	_, _ = rand.Read(key) // it never fails
	return Secret(hex.EncodeToString(key))
}
