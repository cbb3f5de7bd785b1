package secretfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/internal/secretfile"
)

// TestModes: a secret that others than its owner can read or write is refused, and the error names the remedy.
func TestModes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(" s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o700: true, 0o640: false, 0o604: false, 0o620: false, 0o644: false, 0o666: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		got, err := secretfile.Read(path)
		if ok && (err != nil || got != "s3cret") {
			t.Errorf("%04o: %q %v", mode, got, err)
		}
		if !ok && (err == nil || got != "" || !strings.Contains(err.Error(), "chmod 600 "+path) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%04o: %q %v", mode, got, err)
		}
		if (secretfile.Check(path) == nil) != ok {
			t.Errorf("%04o: %v", mode, secretfile.Check(path))
		}
	}
	if _, err := secretfile.Read(path + "x"); !os.IsNotExist(err) {
		t.Error(err)
	}
}
