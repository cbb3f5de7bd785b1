package auth_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aqueduct/server/auth"
)

// TestKeyIsMadeOnce: many at once get the same whole key, and nothing else is left behind.
func TestKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(dir, "signing.key")
	got := make([]auth.Secret, 20)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			keys, err := auth.LoadKeys(path)
			if err != nil || len(keys) != 1 {
				t.Error(keys, err)
				return
			}
			got[i] = keys[0]
		})
	}
	all.Wait()
	for _, key := range got {
		if len(key) != 64 || key != got[0] {
			t.Errorf("keys differ, or one has %d characters", len(key))
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 32)
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"its group reads it": {long, 0o640, "chmod 600"},
		"all read it":        {long, 0o604, "chmod 600"},
		"short":              {"secret\n", 0o600, "32 characters"},
		"empty":              {"", 0o600, "32 characters"},
	} {
		path := filepath.Join(t.TempDir(), "signing.key")
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil { // past the umask
			t.Fatal(err)
		}
		keys, err := auth.LoadKeys(path)
		if err == nil || keys != nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), long) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := auth.LoadKeys("/proc/no/such/place"); err == nil {
		t.Error("made where nothing can be made")
	}
}
