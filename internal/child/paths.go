package child

import (
	"os"
	"path/filepath"
)

// RealPath returns an absolute path with all links followed, as far as the path is there.
func RealPath(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(RealPath(dir), filepath.Base(path))
	}
	return path
}

// blockDevices are the disks of this machine: root reads every file from them, whatever keeps it from the file.
func blockDevices() (found []string) {
	entries, _ := os.ReadDir("/dev") // without it there are none
	for _, entry := range entries {
		if mode := entry.Type(); mode&os.ModeDevice != 0 && mode&os.ModeCharDevice == 0 {
			found = append(found, filepath.Join("/dev", entry.Name()))
		}
	}
	return found
}

// Inside reports whether path is root or below it, by their texts.
func Inside(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}
