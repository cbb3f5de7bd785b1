package faults_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/store/storetest"
)

// TestRefusedProxyRegisters: a proxy that has all its settings in a file, with a token that the
// server does not take, gets another with its bootstrap token and works.
func TestRefusedProxyRegisters(t *testing.T) {
	t.Parallel()
	bootstrap := filepath.Join(t.TempDir(), "bootstrap")
	if err := os.WriteFile(bootstrap, []byte("a-bootstrap-token-of-tests"), 0o600); err != nil {
		t.Fatal(err)
	}
	y := newYardAlone(t, "sqlite:"+storetest.SQLite(t), "AQUEDUCT_BOOTSTRAP_FILE="+bootstrap)
	settings, err := json.Marshal(map[string]any{
		"url": y.agentURL(), "id": proxyID, "cwd": y.dir, "agent_command": []string{os.Args[0]}, "auth_token": "refused-token",
		"register_url": y.url + "/api/admin/acp-proxy/register", "bootstrap_token": "a-bootstrap-token-of-tests",
	})
	path := filepath.Join(y.dir, "proxy.json")
	if err == nil {
		err = os.WriteFile(path, settings, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	y.runProxy("--config", path)
	y.linked()
	k := y.say("t", "t-r", "count 5 1ms")
	if last := k.over(); last.kind() != "RUN_FINISHED" {
		t.Errorf("the Run ends with %s", last.data)
	}
	y.numbered(k.all, 5)
	y.proxy.kill()
	said := y.proxy.said.String()
	if !strings.Contains(said, "1008") || strings.Contains(said, "refused-token") || strings.Contains(said, "a-bootstrap-token") {
		t.Errorf("the proxy said:\n%s", said)
	}
}
