// Package program builds the program for those who judge it from outside, once for all tests
// of a package.
package program

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// folder is where programs are built; Main makes and removes it.
var folder string

// Main runs the tests of a package whose tests build programs. Their servers ask for Token, as
// servers do by default, and what starts from these tests shows it.
func Main(m *testing.M) int {
	var err error
	if folder, err = os.MkdirTemp("", "aqueduct-test"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	// Tests that end a server do not wait for its work under way, except those of a drain, which set this themselves.
	if err := errors.Join(provideToken(folder), os.Setenv("AQUEDUCT_DRAIN", "0s")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Shipped is the path of the program as "make build" makes it.
var Shipped = Built("aqueduct")

// Built is the program with further flags of go build, made when it is first asked for.
func Built(name string, flags ...string) func() (path string, err error) {
	return sync.OnceValues(func() (string, error) {
		path := filepath.Join(folder, name)
		args := append([]string{"build", "-trimpath", "-o", path}, flags...)
		cmd := exec.Command("go", append(args, "aqueduct/cmd/aqueduct")...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w\n%s", err, out)
		}
		return path, nil
	})
}

// State are the flags of a state folder of its own, for a server of these arguments on PostgreSQL. One with a SQLite file has its
// state beside that. Replicas of a test share the audit's key, as they share those that Main names.
func State(t testing.TB, args ...string) []string {
	t.Helper()
	for _, arg := range args {
		if strings.HasPrefix(arg, "postgres") {
			return []string{"--state", t.TempDir(), "--audit-key-file", filepath.Join(folder, "audit.key")}
		}
	}
	return nil
}

// FreePort is a port of loopback that nothing listens on right now.
func FreePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}
