package agui_test

import (
	"strings"
	"testing"

	"aqueduct/agui"
)

func TestOrderResults(t *testing.T) {
	t.Parallel()
	calls := func(id string, ids ...string) agui.Message {
		m := agui.Message{ID: id, Role: agui.RoleAssistant}
		for _, c := range ids {
			m.ToolCalls = append(m.ToolCalls, agui.ToolCall{ID: c})
		}
		return m
	}
	result := func(id, call string) agui.Message { return agui.Message{ID: id, Role: agui.RoleTool, ToolCallID: call} }
	plain := func(id string) agui.Message { return agui.Message{ID: id, Role: agui.RoleUser} }
	got := agui.OrderResults([]agui.Message{
		plain("u"), calls("a", "c1", "c2"), plain("x"), result("r1", "c1"), calls("b", "c3"), result("r2", "c2"), result("r3", "c3"), result("lone", "none"),
	})
	var ids []string
	for _, m := range got {
		ids = append(ids, m.ID)
	}
	if s := strings.Join(ids, " "); s != "u a r1 r2 x b r3 lone" {
		t.Fatal(s)
	}
}
