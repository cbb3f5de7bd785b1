package aguiagents_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// played is an entry of styles.mjs: a framework that npm has not.
type played struct{ Row, Source, Version string }

// judgeRows compares the rows of docs/frameworks.md with the tests that ran: each has the other, with the version of the package
// that is installed, or the file and the version that the stream was written after.
func judgeRows(t *testing.T, ran map[string]bool) {
	t.Helper()
	page, err := os.ReadFile("../../docs/frameworks.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| ([^|]+) \\| (`[^|]+`|by its source[^|]*) \\|")
	described := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		described[m[1]] = m[2]
	}
	if got, want := slices.Sorted(maps.Keys(described)), slices.Sorted(maps.Keys(ran)); !slices.Equal(got, want) {
		t.Errorf("docs/frameworks.md has the rows\n%q\nand the tests that ran are\n%q", got, want)
	}
	sources := map[string]played{}
	out, err := exec.Command("node", "-e", `import('./styles.mjs').then(({ styles }) => console.log(JSON.stringify(
		Object.values(styles).map(({ row, source, version }) => ({ row, source, version })))))`).Output()
	var list []played
	if err != nil || json.Unmarshal(out, &list) != nil {
		t.Fatalf("styles.mjs: %v: %s", err, out)
	}
	for _, p := range list {
		sources[p.Row] = p
	}
	for name, from := range described {
		if p, ok := sources[name]; ok {
			if p.Source == "" || !strings.HasPrefix(from, "by its source") || !strings.Contains(from, p.Version) {
				t.Errorf("%s: the row says %q, the test %q at %q", name, from, p.Source, p.Version)
			}
			continue
		}
		for _, m := range regexp.MustCompile("`(@?[^`@]+)@([^`]+)`").FindAllStringSubmatch(from, -1) {
			if got := installed(t, m[1]); got != m[2] {
				t.Errorf("%s: the row says %s %s, installed is %q", name, m[1], m[2], got)
			}
		}
	}
}

// installed is the version of a package in one of the folders that the agents take it from.
func installed(t *testing.T, name string) string {
	t.Helper()
	for _, folder := range []string{".", "strands", "../../examples/copilotkit"} {
		var p struct{ Version string }
		if file, err := os.ReadFile(folder + "/node_modules/" + name + "/package.json"); err == nil && json.Unmarshal(file, &p) == nil {
			return p.Version
		}
	}
	return ""
}
