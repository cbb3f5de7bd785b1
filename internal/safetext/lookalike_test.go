package safetext_test

import (
	"testing"

	"aqueduct/internal/safetext"
)

// TestS64LooksLike: names that a person could take for one another, and names that one could not.
func TestS64LooksLike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, other string
		want        bool
	}{
		{"planner", "planner", true}, {"Planner", "planner", true}, {"PLANNER", "planner", true}, {"pianner", "planner", true}, {"p1anner", "planner", true}, {"p|anner", "planner", true},
		{"planner.", "planner", true}, {"planner ", "planner", true}, {"plan-ner", "planner", true}, {"plan ner", "planner", true}, {"_planner_", "planner", true},
		{"plаnner", "planner", true}, {"plånner", "planner", true}, {"pla\u0301nner", "planner", true}, {"ｐｌａｎｎｅｒ", "planner", true}, {"𝓹𝓵𝓪𝓷𝓷𝓮𝓻", "planner", true}, {"ⓟⓛⓐⓝⓝⓔⓡ", "planner", true},
		{"plan\u200bner", "planner", true}, {"\u2066planner\u2069", "planner", true}, {"plan\u00adner", "planner", true}, {"plan\u3164ner", "planner", true}, {"plan\ufe0fner", "planner", true}, {"planner\U000e0061", "planner", true},
		{"ᴘʟᴀɴɴᴇʀ", "planner", true}, {"🅿🅻🅰🅽🅽🅴🆁", "planner", true}, {"ᏢᏞᎪᏁᏁᎬᏒ", "planner", true}, {"РLАNNЕR", "planner", true}, {"plaոոer", "planner", true}, {"ꓑꓡꓮꓠꓠꓰꓣ", "planner", true},
		{"plαnner", "planner", true}, {"planneƨ", "planner", true}, {"The Planner", "the-planner", true}, {"rnailer", "mailer", true}, {"vvriter", "writer", true}, {"daude", "claude", true}, {"Cӏаudе", "claude", true},
		{"agent-0", "agent-O", true}, {"орѕ", "ops", true},
		{"planner2", "planner", false}, {"plan", "planner", false}, {"scanner", "planner", false}, {"planer", "planner", false}, {"計画", "ai", false}, {"", "", false}, {"-", ".", false},
		{"agent-1", "agent-2", false}, {"Помощник", "assistant", false}, {"writer", "mailer", false},
	} {
		if safetext.LooksLike(c.name, c.other) != c.want || safetext.LooksLike(c.other, c.name) != c.want {
			t.Errorf("%q and %q: want %v", c.name, c.other, c.want)
		}
	}
}
