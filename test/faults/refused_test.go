package faults_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// TestS05RefusedProxyRegisters: a proxy that has all its settings in a file, with a token that the
// server does not take, gets another with its bootstrap token and works.
func TestS05RefusedProxyRegisters(t *testing.T) {
	t.Parallel()
	y := newACPEnvAlone(t, "sqlite:"+storetest.SQLite(t))
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	issue := exec.Command(path, "token", "bootstrap", "--proxy", proxyID)
	issue.Env = append(os.Environ(), y.env...)
	bootstrap, err := issue.Output()
	if err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(map[string]any{
		"url": y.agentURL(), "id": proxyID, "cwd": t.TempDir(), "agent_command": []string{os.Args[0]}, "auth_token": "refused-token",
		"register_url": y.url + "/api/admin/acp-proxy/register", "bootstrap_token": strings.TrimSpace(string(bootstrap)), "state": filepath.Join(y.dir, "state"),
	})
	path = filepath.Join(y.dir, "proxy.json")
	if err == nil {
		err = os.WriteFile(path, settings, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	y.runProxy("--config", path)
	y.linked()
	k := y.chat("t", "t-r", "count 5 1ms")
	if last := k.over(); last.kind() != "RUN_FINISHED" {
		t.Errorf("the Run ends with %s", last.data)
	}
	y.numbered(k.all, 5)
	y.proxy.kill()
	said := y.proxy.said.String()
	y.parted()                   // or the link of the one before is taken for the next one's
	y.runProxy("--config", path) // again, with the token it has kept: the bootstrap token is used up
	y.linked()
	y.proxy.kill()
	said += y.proxy.said.String()
	if !strings.Contains(said, "1008") || strings.Contains(said, "refused-token") || strings.Contains(said, strings.TrimSpace(string(bootstrap))) {
		t.Errorf("the proxy said:\n%s", said)
	}
}
