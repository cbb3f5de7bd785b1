package storetest

import (
	"path/filepath"
	"testing"
)

// SQLite is the path of a database of the test's own, which sqlite.Open creates and the
// end of the test removes.
func SQLite(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "aqueduct.db")
}
