// This file reads and rotates the file of signing keys. Replicas share the file or get copies of it;
// during a rotation some have the new first key and others do not, so the key before it goes on
// verifying.

package auth

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"aqueduct/internal/secretfile"
)

// mostKeys is how many keys a file may hold: the one that signs, and the one before it.
const mostKeys = 2

// LoadKeys reads the signing keys from a file, one a line, that which signs first. The file is made
// on first use. One that others on this machine can read signs nothing.
func LoadKeys(path string) ([]Secret, error) {
	raw, err := secretfile.ReadOrMake(path, func() string { return string(NewKey()) })
	if err != nil {
		return nil, fmt.Errorf("auth: the signing key: %w", err)
	}
	var keys []Secret
	for line := range strings.Lines(raw + "\n") {
		key := Secret(strings.TrimSpace(line))
		if len(key) < minKeyLength {
			return nil, fmt.Errorf("auth: the signing key %s must have at least %d characters", path, minKeyLength)
		}
		keys = append(keys, key)
	}
	if len(keys) > mostKeys {
		return nil, fmt.Errorf("auth: the signing key %s holds %d keys; the one that signs and the one before it are all that may be there", path, len(keys))
	}
	return keys, nil
}

// RotateKey puts a new key that signs before the one that does so now, which goes on verifying, and
// drops any older one. With retire the older ones are dropped and nothing else changes: what they
// signed is refused from then on. It returns the ids of the keys that the file has now.
// To retire a key ends every token and session that it signed.
func RotateKey(path string, retire bool) ([]string, error) {
	keys, err := LoadKeys(path)
	if err != nil {
		return nil, err
	}
	kept := keys[:1]
	if !retire {
		kept = []Secret{NewKey(), keys[0]}
	}
	if err := replaceKeys(path, kept); err != nil {
		return nil, fmt.Errorf("auth: the signing key could not be replaced: %w", err)
	}
	k, err := NewKeys(kept[0], kept[1:]...)
	if err != nil {
		return nil, err
	}
	return k.IDs(), nil
}

// replaceKeys writes the file anew beside the path and moves it there, so that no reader sees half. A crash in
// between leaves a temporary file and the old keys.
func replaceKeys(path string, keys []Secret) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".signing-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it was moved
	for _, key := range keys {
		_, werr := f.WriteString(string(key) + "\n")
		err = errors.Join(err, werr)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// NewKey makes a new random key.
func NewKey() Secret {
	key := make([]byte, minKeyLength)
	_, _ = rand.Read(key) // it never fails
	return Secret(hex.EncodeToString(key))
}
