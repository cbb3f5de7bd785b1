package agents_test

import (
	"testing"

	"aqueduct/test/nodetest"
)

// TestChatWithOpencode: the official AG-UI client talks to opencode through the whole
// program. The verdicts are in chat.test.mjs; this only starts what it judges.
func TestChatWithOpencode(t *testing.T) {
	nodetest.Need(t, "../judges/node_modules/agui1/package.json", "make setup-judges")
	m := newModel(t)
	o := newOpencode(t, m)
	s := serve(t, o)
	report := nodetest.Run(t, []string{"BASE_URL=" + s.url(), "CONTROL_URL=" + s.control(), "MODEL_URL=" + m.url, "WORKSPACE=" + o.workspace}, "chat.test.mjs")
	t.Logf("node --test chat.test.mjs\n%s", nodetest.Totals(report))
}
