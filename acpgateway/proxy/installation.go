package proxy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

// installationFile is what in the proxy's folder names its installation. It is locked while a proxy of it runs.
const installationFile = "installation"

// claim takes the proxy's folder: it reads who this installation is, or makes that up for good, and keeps a second process of
// the same installation from throwing the first one's link out. Closing what it returns gives the folder back.
func claim(folder string) (id string, held io.Closer, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", nil, fmt.Errorf("the proxy's folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(folder, installationFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, fmt.Errorf("the proxy's folder: %w", err)
	}
	// The kernel gives the lock back with the process, however that ends, so no stale one has to be recognized.
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("another proxy runs from %s; give this one an id, or a --state, of its own", folder)
		}
		return "", nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(file, 64))
	if id = strings.TrimSpace(string(raw)); err == nil && uuid.Validate(id) != nil {
		id = uuid.NewString() // new, or of a process that was killed while it wrote
		err = errors.Join(file.Truncate(0), writeAt(file, id+"\n"))
	}
	if err != nil {
		_ = file.Close()
		return "", nil, fmt.Errorf("the proxy's folder: %w", err)
	}
	return id, file, nil
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}
