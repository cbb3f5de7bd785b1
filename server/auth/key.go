package auth

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keyFileSize bounds what is read: a key file is a line.
const keyFileSize = 4 << 10

// LoadKey reads the signing key from a file, which it makes on first use. One that others
// on this machine can read signs nothing.
func LoadKey(path string) (Secret, error) {
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(path); err != nil {
			return "", fmt.Errorf("auth: the signing key could not be made: %w", err)
		}
		key, err = readKey(path)
	}
	return key, err
}

func readKey(path string) (Secret, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("auth: the signing key: %w", err)
	}
	defer f.Close() //nolint:errcheck // a read has nothing to lose when it ends
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("auth: the signing key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("auth: the signing key %s is open to others on this machine; chmod 600 it, or remove it to get a new one", path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, keyFileSize))
	if err != nil {
		return "", fmt.Errorf("auth: the signing key: %w", err)
	}
	key := Secret(strings.TrimSpace(string(raw)))
	if len(key) < minKeyLength {
		return "", fmt.Errorf("auth: the signing key %s must have at least %d characters", path, minKeyLength)
	}
	return key, nil
}

// makeKey writes a key beside the path and links it there. A link is never made over a
// file that is there, so of two processes one wins and both read the winner's, whole.
func makeKey(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".signing-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the link stays
	_, err = f.WriteString(string(NewKey()) + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// NewKey is a key nobody has had before.
func NewKey() Secret {
	key := make([]byte, minKeyLength)
	_, _ = rand.Read(key) // it never fails
	return Secret(hex.EncodeToString(key))
}
