// Package chats_test builds aqueduct and tries it with chat pages that this project did not
// write, in a real Chromium: CopilotKit (examples/copilotkit, with its runtime) and assistant-ui
// (page/). What each must do is in matrix.mjs; how its buttons are reached in its *.test.mjs.
package chats_test

import (
	"os"
	"strings"
	"testing"

	"aqueduct/test/nodetest"
	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// TestCopilotKit: its React page and its runtime, with the runner of examples/copilotkit, which
// asks Aqueduct for threads.
func TestCopilotKit(t *testing.T) {
	nodetest.Need(t, "../../examples/copilotkit/dist/index.html", "make setup-copilotkit")
	chat(t, "copilotkit.test.mjs")
}

// TestCopilotKitInMemory: the same page with the runner that CopilotKit brings, which keeps
// threads in its process and compacts every Run it has seen.
func TestCopilotKitInMemory(t *testing.T) {
	nodetest.Need(t, "../../examples/copilotkit/dist/index.html", "make setup-copilotkit")
	chat(t, "copilotkit-memory.test.mjs")
}

// TestAssistantUI: @assistant-ui/react-ag-ui in the browser, straight on Aqueduct.
func TestAssistantUI(t *testing.T) {
	nodetest.Need(t, "dist/index.html", "make setup-chats")
	chat(t, "assistant-ui.test.mjs")
}

// chat runs a file of tests under node and shows each test's verdict.
func chat(t *testing.T, file string) {
	t.Helper()
	nodetest.Need(t, "../judges/node_modules/playwright-core/package.json", "make setup-judges")
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("node --test %s\n%s", file, verdicts(nodetest.Run(t, []string{"AQUEDUCT=" + path}, file)))
}

// verdicts is the lines of a report that name a test, and its totals.
func verdicts(report string) string {
	var lines []string
	for line := range strings.Lines(report) {
		if strings.HasPrefix(line, "✔") || strings.HasPrefix(line, "ℹ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
