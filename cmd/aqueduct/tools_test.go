package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
)

// TestToolsOfTheFile: what is not in the file any more is gone at the next start; what came
// over the API stays.
func TestToolsOfTheFile(t *testing.T) {
	t.Parallel()
	db := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	tool := func(name string) string { return "\n  - {name: " + name + ", kind: client_tool}" }
	for i, c := range []struct{ file, want string }{
		{"tools:" + tool("a") + tool("b"), "a b "}, {"tools:" + tool("b"), "api b "}, {"", "api "},
	} {
		args := []string{"--demo", "--database", db}
		if c.file != "" {
			args = append(args, "--tools-file", write(t, "tools.yaml", c.file))
		}
		r := start(t, args...)
		resp, err := r.client.Get(r.URL + "/v1/tools")
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Tools []struct{ Name string } }
		err = json.NewDecoder(resp.Body).Decode(&list)
		resp.Body.Close()
		got := ""
		for _, tool := range list.Tools {
			got += tool.Name + " "
		}
		if err != nil || got != c.want {
			t.Errorf("start %d: %q %v, want %q", i+1, got, err, c.want)
		}
		r.post("/v1/tools", `{"name":"api","kind":"client_tool"}`)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	}
}
