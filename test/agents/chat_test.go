package agents_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestChatWithOpencode: the official AG-UI client talks to opencode through the whole
// program. The verdicts are in chat.test.mjs; this only starts what it judges.
func TestChatWithOpencode(t *testing.T) {
	const client = "../judges/node_modules/agui1/package.json"
	if _, err := os.Stat(client); err != nil {
		t.Fatalf(`%s is missing; run "make setup-judges"`, client)
	}
	m := newModel(t)
	o := newOpencode(t, m)
	s := serve(t, o)
	cmd := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=spec", "chat.test.mjs")
	cmd.Env = append(os.Environ(), "FORCE_COLOR=0", "NO_COLOR=1",
		"BASE_URL="+s.url(), "CONTROL_URL="+s.control(), "MODEL_URL="+m.url, "WORKSPACE="+o.workspace)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	report := out.String()
	t.Logf("node --test chat.test.mjs\n%s", report[max(strings.LastIndex(report, "ℹ tests"), 0):])
}
