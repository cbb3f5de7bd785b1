// Package oidc_test has five people of two tenants sign in at a real OpenID provider in Chromium, and share a thread. The
// verdicts are in team.test.mjs; this only starts it.
package oidc_test

import (
	"os"
	"strings"
	"testing"

	"aqueduct/test/nodetest"
	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// TestTeam: each sees their own, a shared thread is seen by whom it is shared with, an approver decides in it live, and a
// revoked token's stream and socket end.
func TestTeam(t *testing.T) {
	nodetest.Need(t, "node_modules/oidc-provider/package.json", "make setup-oidc")
	nodetest.Need(t, "../judges/node_modules/playwright-core/package.json", "make setup-judges")
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(nodetest.Run(t, []string{"AQUEDUCT=" + path}, "team.test.mjs")) {
		if strings.Contains(line, " ms") || strings.HasPrefix(line, "ℹ ") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
