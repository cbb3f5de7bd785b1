// Package aqueduct holds nothing but the test of who may import whom.
package aqueduct

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowed lists for every room the rooms of ours that it may import (docs/architecture.md,
// "Rooms"). A room that is not listed may not exist.
func allowed() map[string][]string {
	return map[string][]string{
		"agui":                             {"internal/jsontext"},
		"agui/tdesign":                     {"agui"},
		"agui/aguitest":                    {"agui"},
		"store":                            {},
		"store/sqldb":                      {"store"},
		"store/sqlite":                     {"store", "store/sqldb", "migrations"},
		"store/postgres":                   {"store", "store/sqldb", "migrations"},
		"store/broker/local":               {"store"},
		"store/storetest":                  {"store", "migrations"},
		"migrations":                       {},
		"web":                              {},
		"policy":                           {"internal/jsonequal"},
		"internal/jsonequal":               {},
		"internal/jsontext":                {},
		"internal/secretfile":              {},
		"internal/strictjson":              {},
		"internal/schema":                  {},
		"bridge/redact":                    {"internal/secretfile", "store"},
		"internal/safetext":                {},
		"bridge/outbound":                  {},
		"bridge/notify/link":               {"store"},
		"bridge/signed":                    {},
		"bridge/notify":                    {"store", "bridge/inbox", "bridge/trace", "bridge/notify/link", "bridge/outbound", "bridge/signed"},
		"bridge/internal/failpoint":        {},
		"bridge/eventlog":                  {"store", "bridge/internal/failpoint"},
		"bridge/inbox":                     {"internal/jsonequal", "internal/strictjson", "internal/schema", "store", "policy", "bridge/audit", "bridge/trace", "internal/safetext"},
		"bridge/audit":                     {"store"},
		"bridge/trace":                     {"store"},
		"bridge/proxies":                   {"store", "bridge/audit"},
		"bridge/tools":                     {"store", "policy", "bridge/audit", "bridge/inbox", "bridge/trace", "bridge/outbound", "bridge/redact", "bridge/internal/failpoint", "internal/jsonequal", "internal/schema", "bridge/signed", "internal/secretfile"},
		"bridge/hints":                     {"store"},
		"bridge":                           {"internal/schema", "agui", "store", "bridge/eventlog", "bridge/hints", "bridge/inbox", "bridge/redact", "bridge/internal/failpoint", "policy", "bridge/tools", "bridge/audit", "bridge/trace"},
		"bridge/httpagent":                 {"internal/jsontext", "agui", "bridge", "bridge/outbound", "bridge/signed", "bridge/trace"},
		"bridge/fromacp":                   {"internal/jsonequal", "agui", "acpgateway/acp"},
		"server/auth":                      {"internal/secretfile", "store", "bridge/audit"},
		"server/brake":                     {},
		"server":                           {"internal/strictjson", "agui", "agui/tdesign", "store", "bridge", "bridge/audit", "bridge/eventlog", "bridge/inbox", "bridge/proxies", "bridge/hints", "bridge/notify", "bridge/notify/link", "bridge/tools", "policy", "server/auth", "server/brake", "web", "internal/schema", "internal/safetext"},
		"acpgateway/acp":                   {"internal/jsontext"},
		"acpgateway/counted":               {"acpgateway/acp"},
		"acpgateway/proxy":                 {"internal/secretfile", "acpgateway/acp", "acpgateway/counted"},
		"acpgateway":                       {"store", "bridge", "bridge/redact", "bridge/fromacp", "bridge/hints", "bridge/proxies", "agui", "acpgateway/acp", "acpgateway/counted"},
		"cmd/aqueduct":                     nil, // wires everything
		"examples/demoagent":               {},
		"examples/demoagent/cmd/demoagent": {"examples/demoagent"},
		"test/agents":                      nil, // drives real agents through our own rooms
		"test/bench":                       {"test/program"},
		"test/chats":                       {},
		"test/docker":                      {},
		"test/faults":                      {},
		"test/goclients":                   {},
		"test/judges":                      {},
		"test/oidc":                        {},
		"test/program":                     {},
		"test/proxies":                     {},
		"test/sdk":                         {},
	}
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	rules := allowed()
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		room := strings.TrimPrefix(fields[0], "aqueduct/")
		may, known := rules[room]
		if !known && room != "aqueduct" {
			t.Errorf("%s is not in the picture; add it to docs/architecture.md and here", room)
		}
		for _, imported := range fields[1:] {
			imported, ours := strings.CutPrefix(imported, "aqueduct/")
			if ours && may != nil && !slices.Contains(may, imported) {
				t.Errorf("%s imports %s, which the picture does not allow", room, imported)
			}
		}
	}
}
