package judges_test

import (
	"testing"

	"aqueduct/test/nodetest"
)

// TestTDesignSteps: the example of TDesign's page about AG-UI, by an agent that sends it as it stands there, in the pages for React
// and Vue; and the answer to a call that no page has declared.
func TestTDesignSteps(t *testing.T) {
	nodetest.Need(t, "../../examples/tdesign/node_modules/vite/package.json", "make setup-tdesign")
	nodetest.Need(t, "../../examples/tdesign-vue/node_modules/vite/package.json", "make setup-tdesign")
	browser(t)
	judgeOwn(t, "tdesign-steps.test.mjs")
}
