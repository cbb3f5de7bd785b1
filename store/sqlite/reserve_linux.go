package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// allocate has the file system set blocks aside, which costs no write of them, or fills the file where it cannot.
func allocate(f *os.File, n int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, n)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		return fill(f, n)
	}
	return err
}
