package server_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
)

// TestMetricsAreDocumented: what docs/metrics.md lists is exposed, and no metric of this program that it
// does not list; how long tools ran and waited is counted by tool and outcome.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
		said := waiting(w, c)
		w.settled(c, w.invoke(c, "cut", `{"wood":"knot"}`))
		return said
	})
	w.metrics.AgentProbed("a", nil)
	w.metrics.ToolMeter().Offline("invoked")
	w.metrics.FrameTaken("x")
	w.metrics.FrameRefused("x")
	w.chat("T", "R", "go")
	w.decide(w.question(), `{"option_id":"allow_once"}`)
	for range 400 {
		if rows := w.open(w.request("POST", "/api/agui/connect", `{"threadId":"T","protocolVersion":"1.0"}`)).rest(); len(rows) > 0 && strings.Contains(joined(rows), "knot") {
			break
		}
	}
	w.chatAnswer("T", "R9", w.question(), `{"approved":true}`)
	<-w.said
	w.idle("T")
	w.metrics.AuditHead(audit.Head{Seq: 3, Hash: "0123456789abcdef"})
	var page string
	// A Turn is counted a moment after it has ended.
	for range 400 {
		if page = w.do("GET", "/metrics", "").body; strings.Contains(page, "aqueduct_turn_active_seconds_count{") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, line := range []string{
		`aqueduct_tool_seconds_count{kind="server_tool",status="SUCCEEDED",tool="cut"} 1`, `aqueduct_tool_seconds_count{kind="server_tool",status="FAILED",tool="cut"} 1`,
		`aqueduct_tool_seconds_bucket{kind="server_tool",status="SUCCEEDED",tool="cut",le="`,
		`aqueduct_approval_seconds_count{kind="permission",status="APPROVED",tool="cut"} 2`,
		`aqueduct_audit_entries 3`, `aqueduct_audit_head_hash48 1.250999896491e+12`,
		`aqueduct_turn_seconds_count{status="DONE"} 1`, `aqueduct_turn_active_seconds_count{status="DONE"} 1`,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("%s is missing", line)
		}
	}
	raw, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := func(pattern, text string) (all []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	listed, exposed := names("(?m)^\\| `(aqueduct_[a-z0-9_]+)`", string(raw)), names(`(?m)^# TYPE (aqueduct_[a-z0-9_]+) `, page)
	if !slices.Equal(listed, exposed) {
		t.Errorf("listed  %v\nexposed %v", listed, exposed)
	}
}
