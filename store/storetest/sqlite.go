package storetest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"aqueduct/store"
)

// SQLite is the path of a database of the test's own, which sqlite.Open creates and the
// end of the test removes.
func SQLite(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "aqueduct.db")
}

// Template gives each test the path of a copy of one database, which open has made and brought to its newest form.
// Making the tables anew for each of hundreds of tests is most of their time under the race detector. A package whose
// tests run in bubbles makes the first copy outside of them.
func Template(open func(path string) (store.Store, error)) func(t testing.TB) string {
	made := sync.OnceValues(func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "aqueduct-template")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "aqueduct.db")
		st, err := open(path)
		if err == nil {
			err = st.Close()
		}
		if err != nil {
			return nil, err
		}
		return os.ReadFile(path)
	})
	return func(t testing.TB) string {
		t.Helper()
		raw, err := made()
		if err != nil {
			t.Fatal(err)
		}
		path := SQLite(t)
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
}
