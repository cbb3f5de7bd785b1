package main

import (
	"io"
	"slices"
	"testing"
	"time"
)

// TestWrapTimeout: the tools of a server that is wrapped may run for as long as they did before, and otherwise for as long as
// the flag has.
func TestWrapTimeout(t *testing.T) {
	t.Parallel()
	for given, want := range map[time.Duration]time.Duration{0: 24 * time.Hour, time.Minute: time.Minute} {
		m := &mcpCmd{Wrap: "https://example.com/mcp", As: "wrapped", PageListen: "127.0.0.1:0", ToolTimeout: given}
		serve, err := m.server(t.TempDir(), t.TempDir()+"/token", output{io.Discard, io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if got := serve.Limits.tools().Timeout; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestWrapVariables: a command that is wrapped gets the client's variables, whatever their names are.
func TestWrapVariables(t *testing.T) {
	t.Setenv("TEST_WRAP,WITH A COMMA", "1")
	m := &mcpCmd{Wrap: "some-server", As: "wrapped", PageListen: "127.0.0.1:0"}
	serve, err := m.server(t.TempDir(), t.TempDir()+"/token", output{io.Discard, io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	servers, err := serve.MCP.servers()
	if err != nil || len(servers) != 1 || !slices.Contains(servers[0].Pass, "TEST_WRAP,WITH A COMMA") || !slices.Contains(servers[0].Pass, "PATH") {
		t.Errorf("%+v %v", servers, err)
	}
}
