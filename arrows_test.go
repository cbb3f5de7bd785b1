// Package aqueduct holds nothing but the test of who may import whom.
package aqueduct

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowed lists for every room the rooms that it imports (docs/architecture.md, "Rooms"). A room that is not listed may
// not exist, and an arrow that no import uses fails as well. Rooms under internal may be imported by every room, and
// import only each other; but for internal/app, which puts the rooms together.
func allowed() map[string][]string {
	return map[string][]string{
		"agui":                             {},
		"agui/tdesign":                     {"agui"},
		"agui/openai":                      {"agui"},
		"agui/cassette":                    {"agui", "agui/tdesign"},
		"agui/doctor":                      {"agui"},
		"agui/doctor/recorder":             {"agui", "agui/doctor"},
		"agui/aguitest":                    {"agui"},
		"store":                            {},
		"store/sqldb":                      {"store"},
		"store/sqlite":                     {"migrations", "store", "store/sqldb"},
		"store/postgres":                   {"migrations", "store", "store/sqldb"},
		"store/broker/local":               {"store"},
		"store/blob":                       {},
		"store/blob/blobtest":              {"store/blob"},
		"store/blob/disk":                  {"store/blob"},
		"store/blob/s3":                    {"store/blob"},
		"store/storetest":                  {"migrations", "store", "store/broker/local"},
		"migrations":                       {},
		"web":                              {},
		"policy":                           {},
		"internal/bubbletest":              {},
		"internal/child":                   {},
		"internal/costtest":                {},
		"internal/fault":                   {},
		"internal/stricttest":              {},
		"internal/grams":                   {},
		"internal/ids":                     {},
		"internal/jsonequal":               {},
		"internal/pace":                    {},
		"internal/retry":                   {},
		"internal/wake":                    {},
		"internal/jsontext":                {},
		"internal/mcpstdio":                {},
		"internal/modelform":               {},
		"internal/ownfile":                 {},
		"internal/secretfile":              {},
		"internal/strictjson":              {},
		"internal/assistant":               {},
		"internal/schema":                  {},
		"bridge/redact":                    {"store"},
		"internal/safetext":                {},
		"bridge/outbound":                  {},
		"bridge/signed":                    {},
		"bridge/channelfeed":               {"store"},
		"bridge/notify":                    {"bridge/approval", "bridge/outbound", "bridge/signed", "bridge/trace", "store"},
		"bridge/internal/failpoint":        {},
		"bridge/eventlog":                  {"bridge/internal/failpoint", "store"},
		"bridge/approval":                  {"agui", "bridge/approval/audit", "bridge/redact", "bridge/trace", "policy", "store"},
		"bridge/approval/audit":            {"store"},
		"bridge/trace":                     {"store"},
		"bridge/otlp":                      {"bridge/trace", "store"},
		"bridge/tools":                     {"agui", "bridge/approval", "bridge/approval/audit", "bridge/internal/failpoint", "bridge/outbound", "bridge/redact", "bridge/signed", "bridge/trace", "policy", "store"},
		"bridge/search":                    {"store"},
		"bridge/budget":                    {"bridge/approval", "bridge/tools", "policy", "store"},
		"bridge/contextstore":              {"bridge/internal/failpoint", "bridge/redact", "bridge/trace", "store", "store/blob"},
		"bridge/livefeed":                  {"store"},
		"bridge":                           {"agui", "bridge/approval", "bridge/approval/audit", "bridge/contextstore", "bridge/eventlog", "bridge/internal/failpoint", "bridge/livefeed", "bridge/redact", "bridge/search", "bridge/tools", "bridge/trace", "policy", "store"},
		"bridge/aguiagent":                 {"agui", "bridge", "bridge/approval"},
		"bridge/httpagent":                 {"agui", "agui/openai", "bridge", "bridge/aguiagent", "bridge/approval", "bridge/outbound", "bridge/signed", "bridge/trace", "store"},
		"bridge/mcpclients":                {"bridge", "bridge/approval", "store"},
		"bridge/mcpservers":                {"bridge/outbound", "bridge/tools", "policy", "store"},
		"bridge/modelcalls":                {"bridge/tools", "bridge/trace", "store"},
		"bridge/queue":                     {"agui", "bridge", "bridge/redact", "policy", "store"},
		"bridge/registry":                  {"bridge", "bridge/approval/audit", "bridge/outbound", "bridge/redact", "bridge/signed", "store"},
		"acpgateway/translate":             {"acpgateway/wire", "agui", "bridge/approval"},
		"server/auth":                      {"bridge/approval/audit", "store"},
		"server/answer":                    {"bridge/approval", "server/auth", "server/problem", "store"},
		"server/channel":                   {"agui", "bridge", "bridge/approval", "bridge/approval/audit", "bridge/channelfeed", "bridge/eventlog", "bridge/notify", "bridge/tools", "policy", "server/answer", "server/auth", "server/decode", "server/limit", "server/problem", "server/route", "server/wsconn", "store"},
		"server/decide":                    {"bridge/approval", "bridge/notify", "server/auth", "server/decode", "server/problem", "server/route", "store"},
		"server/decode":                    {"agui", "server/auth", "server/limit", "server/problem", "store"},
		"server/llmproxy":                  {"bridge", "bridge/budget", "bridge/modelcalls", "bridge/outbound", "bridge/trace", "policy", "server/decode", "server/problem", "server/route", "store"},
		"server/mcpserver":                 {"bridge", "bridge/approval", "bridge/tools", "server/auth", "server/decode", "server/problem", "server/route", "store"},
		"server/limit":                     {"store"},
		"server/problem":                   {"agui", "server/limit", "store"},
		"server/route":                     {"server/auth", "server/problem"},
		"server/wsconn":                    {"server/limit", "server/problem"},
		"server":                           {"agui", "agui/openai", "agui/tdesign", "bridge", "bridge/approval", "bridge/approval/audit", "bridge/contextstore", "bridge/eventlog", "bridge/livefeed", "bridge/modelcalls", "bridge/otlp", "bridge/registry", "bridge/tools", "bridge/trace/reader", "policy", "server/answer", "server/auth", "server/channel", "server/decide", "server/decode", "server/limit", "server/llmproxy", "server/mcpserver", "server/problem", "server/route", "server/wsconn", "store", "web"},
		"acpgateway/wire":                  {},
		"acpgateway/seqlink":               {"acpgateway/wire"},
		"acpgateway/proxy":                 {"acpgateway/seqlink", "acpgateway/wire"},
		"acpgateway":                       {"acpgateway/seqlink", "acpgateway/translate", "acpgateway/wire", "agui", "bridge", "bridge/approval", "bridge/approval/audit", "bridge/livefeed", "bridge/redact", "store"},
		"cmd/aqueduct":                     nil, // reads flags and files
		"internal/app":                     nil, // puts everything together
		"internal/app/apptest":             {"internal/app"},
		"examples/demoagent":               {},
		"examples/demoagent/cmd/demoagent": {"examples/demoagent"},
		"examples/goagent":                 {"sdk/go/agent"},
		"sdk/go/agent":                     {},
		"scripts/house":                    {},
		"test/agents":                      nil, // drives real agents through our own rooms
		"test/bench":                       {"test/program"},
		"test/blobs":                       {},
		"test/chats":                       {},
		"test/docker":                      {},
		"test/doctor":                      {},
		"test/faults":                      {},
		"test/goclients":                   {},
		"test/judges":                      {},
		"test/aguiagents":                  {},
		"test/mcp":                         {},
		"test/models":                      {},
		"test/nodetest":                    {},
		"test/npmmcp":                      {"test/nodetest"},
		"test/oidc":                        {},
		"test/program":                     {},
		"test/proxies":                     {},
		"test/sdk":                         {},
		"bridge/trace/reader":              {"agui", "bridge/eventlog", "bridge/trace", "store"},
	}
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	rules := allowed()
	seen := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		room := strings.TrimPrefix(fields[0], "aqueduct/")
		seen[room] = true
		may, known := rules[room]
		if !known && room != "aqueduct" {
			t.Errorf("%s is not in the picture; add it to docs/architecture.md and here", room)
		}
		var used []string
		for _, imported := range fields[1:] {
			imported, ours := strings.CutPrefix(imported, "aqueduct/")
			if !ours || strings.HasPrefix(imported, "internal/") && imported != "internal/app" {
				continue
			}
			used = append(used, imported)
			if known && may != nil && !slices.Contains(may, imported) {
				t.Errorf("%s imports %s, which the picture does not allow", room, imported)
			}
		}
		for _, allowed := range may {
			if !slices.Contains(used, allowed) {
				t.Errorf("%s may import %s, and does not: take the arrow out of the picture", room, allowed)
			}
		}
	}
	for room := range rules {
		if !seen[room] {
			t.Errorf("%s is in the picture and does not exist", room)
		}
	}
}
