package translate_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"aqueduct/acpgateway/translate"
	"aqueduct/agui"
)

// TestS66ACPAgent: an update of a kind that no one knows does not become an event of the gateway's own, whose names are found in its
// source; a tool is not shown under a name of the server's.
func TestS66ACPAgent(t *testing.T) {
	t.Parallel()
	var own []string
	for _, dir := range []string{".", ".."} {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.IsDir() || !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			text, err := os.ReadFile(dir + "/" + f.Name())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?:Custom\{Name: |const \w+ = )"acp\.(\w+)"`).FindAllStringSubmatch(string(text), -1) {
				own = append(own, m[1])
			}
		}
	}
	slices.Sort(own)
	if own = slices.Compact(own); len(own) < 9 {
		t.Fatalf("only %v are found", own)
	}
	for _, variant := range append(own, "Stopped", "sto\u200bpped") {
		outs := feed(translate.New(translate.Config{}), `{"sessionUpdate":"`+variant+`","x":1}`)
		if got := outs[len(outs)-1].Event.(*agui.Custom).Name; got != "agent.acp."+variant {
			t.Errorf("%s becomes %s", variant, got)
		}
	}
	for name, want := range map[string]string{"budget.extend": "agent.budget.extend", "aqueduct.run": "agent.aqueduct.run", "aqueduct_files.read": "aqueduct_files.read"} {
		outs := feed(translate.New(translate.Config{}), call("c", `,"name":"`+name+`"`))
		if got := outs[0].Event.(*agui.ToolCallStart).ToolCallName; got != want {
			t.Errorf("%s is shown as %s", name, got)
		}
	}
}
