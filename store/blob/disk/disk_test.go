package disk_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/store/blob/blobtest"
	"aqueduct/store/blob/disk"
)

func open(t *testing.T) (*disk.Store, string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "a", "blobs")
	s, err := disk.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return s, folder
}

// files are what is in the folder, by their modes.
func files(t *testing.T, folder string) map[string]fs.FileMode {
	t.Helper()
	found := make(map[string]fs.FileMode)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			found[filepath.Base(path)] = info.Mode().Perm()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestContract(t *testing.T) {
	t.Parallel()
	s, folder := open(t)
	blobtest.Run(t, s)
	for name := range files(t, folder) {
		if strings.HasSuffix(name, ".tmp") {
			t.Errorf("left: %s", name)
		}
	}
}

// If this fails, others on the machine read what users keep, or a write that a crash cut off stays for ever.
func TestFiles(t *testing.T) {
	t.Parallel()
	const id = "0190f3a0-0000-7000-8000-0000000000ab"
	s, folder := open(t)
	if err := s.Put(t.Context(), id, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := files(t, folder); len(got) != 1 || got[id] != 0o600 {
		t.Errorf("%v", got)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v %v", info.Mode(), err)
	}
	// As a crash leaves it in the middle of a write.
	if err := os.Rename(filepath.Join(folder, "ab", id), filepath.Join(folder, "ab", id+".tmp")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), id, 1); err == nil {
		t.Error("half a blob is read")
	}
	if err := s.Delete(t.Context(), id); err != nil || len(files(t, folder)) > 0 {
		t.Errorf("%v %v", files(t, folder), err)
	}
	if _, err := disk.Open("/dev/null/blobs"); err == nil {
		t.Error("a folder that cannot be made")
	}
}
