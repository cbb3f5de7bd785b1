// Package secretfile reads and makes files that hold a secret: tokens, keys, shared secrets.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// othersMode are the permissions of everybody but the file's owner.
	othersMode fs.FileMode = 0o077
	// maxBytes bounds what is read: the largest secret is a TLS key beside its chain.
	maxBytes = 1 << 20
)

// Read returns the secret of a file without the white space around it. It refuses a file that
// other users of the machine may read or write.
func Read(path string) (string, error) {
	raw, err := ReadBytes(path)
	return strings.TrimSpace(string(raw)), err
}

// ReadBytes is Read for a file whose bytes matter. The mode is that of the opened file, so that
// a file which is exchanged in between is not read by the mode of another.
func ReadBytes(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // a read loses nothing when it is closed
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := check(path, info); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxBytes))
}

// Check refuses a file that other users of the machine may read or write.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return check(path, info)
}

func check(path string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&othersMode != 0 {
		return fmt.Errorf("%s holds a secret, and its mode %04o opens it to other users of this machine: chmod 600 %s", path, mode, path)
	}
	return nil
}

// ReadOrMake is Read. Where there is no such file it makes one of the secret first.
func ReadOrMake(path string, secret func() string) (string, error) {
	got, err := Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeFile(path, secret()); err != nil {
			return "", fmt.Errorf("%s could not be made: %w", path, err)
		}
		return Read(path)
	}
	return got, err
}

// makeFile writes a file beside the path and links it there. A link never replaces a file, so
// of two processes that start together one wins, and both read the winner's secret, whole.
func makeFile(path, secret string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the link stays
	_, err = f.WriteString(secret + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
