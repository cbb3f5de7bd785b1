package faults_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// TestNotReadyBeforeItsOwn: a server is not ready before its MCP server has listed its tools or has failed; it serves
// meanwhile.
func TestNotReadyBeforeItsOwn(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	h := &serverEnv{t: t, database: "sqlite:" + storetest.SQLite(t), agent: newAgent(t)}
	h.flags = []string{"--mcp", "slow=sh -c 'while [ ! -e " + gate + " ]; do sleep 0.02; done'"}
	h.start(program.Shipped)
	ready := func() (code int, status string) {
		resp, err := h.do(t.Context(), "GET", "/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var body struct{ Status string }
		_ = json.NewDecoder(resp.Body).Decode(&body)
		return resp.StatusCode, body.Status
	}
	if code, status := ready(); code != 503 || status != "starting" {
		t.Errorf("before: HTTP %d %q", code, status)
	}
	if _, err := newLedger(t, "t", 1).post(h.server, "r", "count 1"); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if code, status := ready(); code == 200 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("after it has failed: HTTP %d %q\n%s", code, status, h.log())
		}
	}
}
