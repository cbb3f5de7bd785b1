//go:build unix && !linux

package sqlite

import "os"

// allocate fills the file.
func allocate(f *os.File, n int64) error { return fill(f, n) }
