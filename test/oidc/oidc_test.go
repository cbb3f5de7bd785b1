// Package oidc_test has five people of two tenants sign in at a real OpenID provider in Chromium, and share a thread. The
// verdicts are in team.test.mjs; this only starts it.
package oidc_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// TestTeam: each sees their own, a shared thread is seen by whom it is shared with, an approver decides in it live, and a
// revoked token's stream and socket end.
func TestTeam(t *testing.T) {
	for path, target := range map[string]string{"node_modules/oidc-provider/package.json": "make setup-oidc", "../judges/node_modules/playwright-core/package.json": "make setup-judges"} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%s is missing; run %q", path, target)
		}
	}
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=spec", "team.test.mjs")
	cmd.Env = append(os.Environ(), "AQUEDUCT="+path, "FORCE_COLOR=0", "NO_COLOR=1")
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("node --test: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, " ms") || strings.HasPrefix(line, "ℹ ") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
