package child

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// Aliases returns where else a path can be reached in this mount namespace, by mounts of a folder above it in two places.
func Aliases(path string) (found []string) {
	path = RealPath(path)
	info, err := os.Stat(path)
	mounts := mountsHere()
	if err != nil || len(mounts) == 0 {
		return nil
	}
	var of mount // of those that the path lies below, the innermost and last
	for _, m := range mounts {
		if Inside(m.point, path) && len(m.point) >= len(of.point) {
			of = m
		}
	}
	below, err := filepath.Rel(of.point, path)
	if err != nil {
		return nil
	}
	whole := filepath.Join(of.root, below)
	for _, m := range mounts {
		if m.device != of.device || !Inside(m.root, whole) {
			continue
		}
		below, err := filepath.Rel(m.root, whole)
		if err != nil {
			continue
		}
		other := filepath.Join(m.point, below)
		// Another mount may lie over it.
		if same, err := os.Stat(other); err == nil && other != path && os.SameFile(same, info) && !slices.Contains(found, other) {
			found = append(found, other)
		}
	}
	return found
}

// mount is a line of mountinfo: the folder root of a device is seen at point.
type mount struct{ device, root, point string }

func mountsHere() (list []mount) {
	raw, _ := os.ReadFile("/proc/self/mountinfo") // without it no mount is known
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(raw)) {
		// 36 35 98:0 /root /point options …
		if words := strings.Fields(line); len(words) > 4 {
			list = append(list, mount{words[2], unescape.Replace(words[3]), unescape.Replace(words[4])})
		}
	}
	return list
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
