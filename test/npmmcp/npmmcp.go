// Package npmmcp starts MCP servers that others publish at npm, from test/mcp/node_modules, for the tests below test/.
package npmmcp

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aqueduct/test/nodetest"
)

// patience bounds the wait for a server to listen.
const patience = 40 * time.Second

// Need ends a test where the packages are not installed.
func Need(t *testing.T) {
	t.Helper()
	nodetest.Need(t, "../mcp/node_modules/.installed", "make setup-mcp")
}

// Command is the command line of a server of @modelcontextprotocol, without its arguments.
func Command(t *testing.T, name string) string {
	t.Helper()
	return "node " + file(t, name)
}

func file(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../mcp/node_modules/@modelcontextprotocol", name, "dist/index.js"))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Everything is server-everything over streamable HTTP.
type Everything struct {
	URL string
	End func() // kills it, and waits for that
}

// HTTP starts server-everything at a port. It ends with the test.
func HTTP(t *testing.T, port int) Everything {
	t.Helper()
	cmd := exec.Command("node", file(t, "server-everything"), "streamableHttp")
	cmd.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", port))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	listens, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if strings.Contains(sc.Text(), "listening on port") {
				close(listens)
			}
		}
	}()
	end := func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // killed
	}
	t.Cleanup(end)
	select {
	case <-listens:
	case <-read:
		t.Fatal("server-everything ended")
	case <-time.After(patience):
		t.Fatal("server-everything does not listen")
	}
	return Everything{fmt.Sprintf("http://127.0.0.1:%d/mcp", port), end}
}
