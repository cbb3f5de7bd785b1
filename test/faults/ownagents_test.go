package faults_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// listens are the addresses on which a process takes TCP connections, as the kernel writes them: hexadecimal.
func (s *server) listens() (addresses []string) {
	s.t.Helper()
	of := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	own := make(map[string]bool)
	open, err := filepath.Glob(of + "fd/*")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, fd := range open {
		if to, err := os.Readlink(fd); err == nil { // one that is closed meanwhile is no listener
			own[to] = true
		}
	}
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		raw, err := os.ReadFile(of + table)
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			const listening = "0A"
			if f := strings.Fields(line); len(f) > 9 && f[3] == listening && own["socket:["+f[9]+"]"] {
				addresses = append(addresses, f[1])
			}
		}
	}
	return addresses
}

// TestS53OwnAgentsHaveNoPort: the agents that come with the program are called by their server alone. It listens at --listen and
// nowhere else, and they answer.
func TestS53OwnAgentsHaveNoPort(t *testing.T) {
	t.Parallel()
	h := &serverEnv{t: t, database: "sqlite:" + storetest.SQLite(t), agent: newAgent(t)}
	h.flags = []string{"--demo", "--demo-pace", "0s", "--model", "m", "--llm-url", "http://127.0.0.1:1/v1"}
	h.start(program.Shipped)
	for agent, want := range map[string]string{"demo": `"outcome":{"type":"success"}`, "assistant": `"code":"model_unreachable"`} {
		resp, err := h.do(t.Context(), "POST", "/api/agui/chat?agent="+agent, fmt.Appendf(nil, `{"threadId":%q,"runId":%[1]q,"messages":[{"id":"u","role":"user","content":"hi"}],"state":{},"tools":[],"context":[],"forwardedProps":{}}`, agent))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: HTTP %d %s %v", agent, resp.StatusCode, got, err)
		}
	}
	if at := h.listens(); len(at) != 1 {
		t.Errorf("it listens at %q", at)
	}
}
