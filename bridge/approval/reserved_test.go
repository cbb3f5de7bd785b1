package approval_test

import (
	"strings"
	"testing"

	"aqueduct/bridge/approval"
)

// TestS66Tools: the names of this server's tools and cards are reserved, however they are spelled.
func TestS66Tools(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"request_permission", "request_input", "budget.extend", "budget.", "aqueduct.run", "aqueduct.mcp.call"} {
		for _, spelled := range []string{name, strings.ToUpper(name), " " + name, name[:3] + "\u200d" + name[3:], name + "\x00", "\u2066" + name} {
			if got := approval.AgentsTool(spelled); got != "agent."+spelled {
				t.Errorf("an agent's tool is shown as %q", got)
			}
		}
	}
	for _, name := range []string{"", "budget", "budgets.read", "aqueduct", "aqueduct_files.read", "mcp__aqueduct__read", "request", "request_permissions", "ask"} {
		if approval.ReservedTool(name) {
			t.Errorf("%s is reserved", name)
		}
	}
}
