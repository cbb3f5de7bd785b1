package proxy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aqueduct/acpgateway/wire"
)

// maze is a workspace full of links that lead out of it, and what is out there.
func maze(t *testing.T) (ws *workspaces, w workspace, outside string) {
	t.Helper()
	dir := t.TempDir()
	outside, w = filepath.Join(dir, "outside"), workspace{root: filepath.Join(dir, "work")}
	for _, made := range []string{outside, filepath.Join(w.root, "in"), filepath.Join(w.root, "tree")} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{
		filepath.Join(outside, "secret"): "secret", filepath.Join(w.root, "in/ok"): "fine", filepath.Join(w.root, "tree/a"): "fine",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"out": outside, "rel": "../outside", "hop": "out", "file": filepath.Join(outside, "secret"), "new": filepath.Join(outside, "new"),
		"up": "..", "good": "in", "tree/leak": filepath.Join(outside, "secret"), "tree/away": outside,
	} {
		if err := os.Symlink(to, filepath.Join(w.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	return &workspaces{launch: &launcher{}}, w, outside
}

// untouched fails the test unless all is outside as it was, and nothing of it inside.
func untouched(t *testing.T, w workspace, outside, after string) {
	t.Helper()
	if files := left(t, outside); !slices.Equal(files, []string{"secret"}) {
		t.Errorf("%s: outside are %v", after, files)
	}
	if text, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(text) != "secret" {
		t.Errorf("%s: outside it says %q %v", after, text, err)
	}
	for _, name := range left(t, w.root) {
		path := filepath.Join(w.root, name)
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "secret") {
			t.Errorf("%s: %s says %q %v", after, name, text, err)
		}
	}
}

// touch is one way in which the proxy touches files for an agent or the gateway.
type touch struct {
	name string
	do   func(ws *workspaces, w workspace, path string) error
	// dirs is set where path is a directory's.
	dirs bool
	// good is a path by a link that stays inside; "" where it takes a whole agent.
	good string
}

func touches(t *testing.T) []touch {
	url := shelf(t, zipped(t, "a", "x"))
	inputs := func(apply string, source wire.InputSource, target string) func(*workspaces, workspace, string) error {
		return func(ws *workspaces, w workspace, path string) error {
			item := wire.AgentInput{ID: "x", Apply: apply, Source: source, Target: wire.InputTarget{Root: "WORKSPACE", Path: target}}
			if item.Target.Path == "" {
				item.Target.Path = path
			} else {
				item.Source.Path = path
			}
			return ws.place(t.Context(), w, &wire.AgentInputs{Version: 1, Items: []wire.AgentInput{item}})
		}
	}
	file := func(method, more string) func(*workspaces, workspace, string) error {
		return func(ws *workspaces, w workspace, path string) error {
			_, err := newFiles(ws.launch, w).call(t.Context(), method, json.RawMessage(fmt.Sprintf(`{"sessionId":"s","path":%q%s}`, path, more)))
			return err
		}
	}
	host := wire.InputSource{Type: "hostPath"}
	return []touch{
		{"fs/read_text_file", file(wire.MethodReadTextFile, ""), false, "good/ok"},
		{"fs/write_text_file", file(wire.MethodWriteTextFile, `,"content":"x"`), false, "good/ok"},
		{"writeFile", inputs("writeFile", wire.InputSource{Type: "inlineText", Text: "x"}, ""), false, "good/ok"},
		{"downloadExtract", inputs("downloadExtract", wire.InputSource{Type: "httpZip", URI: url}, ""), true, "good/skill"},
		{"copy from", inputs("copy", host, "copied"), false, "good/ok"},
		{"copy to", inputs("copy", wire.InputSource{Type: "hostPath", Path: "in/ok"}, ""), false, "good/copied"},
		{"bindMount from", inputs("bindMount", host, "mounted"), false, "good/ok"},
		{"bindMount in", inputs("bindMount", wire.InputSource{Type: "hostPath", Path: "in"}, ""), false, "good/mounted"},
		{"cwd", func(_ *workspaces, w workspace, path string) error {
			_, err := w.dir(path)
			return err
		}, true, "good"},
		{"terminal/create", func(_ *workspaces, w workspace, path string) error {
			_, err := (&terminals{space: w}).create(json.RawMessage(fmt.Sprintf(`{"sessionId":"s","command":"true","cwd":%q}`, path)))
			return err
		}, true, ""},
	}
}

// TestS32NoPathLeadsOut: wherever we touch a file for an agent or for who sends it inputs, a link
// in the workspace that leads out of it is refused, as a path is that climbs.
func TestS32NoPathLeadsOut(t *testing.T) {
	t.Parallel()
	for _, c := range touches(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ws, w, outside := maze(t)
			into := []string{"out", "rel", "hop", "up/outside", "good/../out", "../outside", "in/../../outside", outside, guestRoot + "/../outside", guestRoot + "/out"}
			for _, dir := range into {
				path := dir
				if !c.dirs {
					path += "/secret"
				}
				if err := c.do(ws, w, path); err == nil {
					t.Errorf("%s was taken", path)
				}
				untouched(t, w, outside, path)
			}
			if c.good != "" {
				if err := c.do(ws, w, c.good); err != nil {
					t.Errorf("%s was refused: %v", c.good, err)
				}
				untouched(t, w, outside, c.good)
			}
			// A link of ours is replaced by another, where it is: none is followed.
			if c.name != "bindMount in" {
				for _, path := range []string{"file", "new"} {
					if err := c.do(ws, w, path); err == nil {
						t.Errorf("%s was taken", path)
					}
					untouched(t, w, outside, path)
				}
			}
		})
	}
}

// TestCopyLeavesLinksOut, those of a tree and those that come while it is copied.
func TestCopyLeavesLinksOut(t *testing.T) {
	t.Parallel()
	ws, w, outside := maze(t)
	to, err := os.OpenRoot(w.root)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	tree, err := ws.source(w, "tree")
	if err == nil {
		err = copyInto(to, tree, "copied")
	}
	if files := left(t, filepath.Join(w.root, "copied")); err != nil || !slices.Equal(files, []string{"a"}) {
		t.Errorf("%v %v", files, err)
	}
	whole, err := ws.source(w, ".")
	if err == nil {
		err = copyInto(to, whole, "tree/whole")
	}
	if files := left(t, filepath.Join(w.root, "tree/whole/tree")); err != nil || !slices.Equal(files, []string{"a"}) {
		t.Errorf("into itself: %v %v", files, err)
	}
	// Looked at, and then something else.
	for _, swapped := range []string{"in", "tree/a"} {
		source, err := ws.source(w, filepath.Join(w.root, swapped))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(w.root, swapped), filepath.Join(w.root, "was")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(w.root, swapped)); err != nil {
			t.Fatal(err)
		}
		_ = copyInto(to, source, "stolen") // whether it fails or leaves it out
		untouched(t, w, outside, swapped)
		if err := os.RemoveAll(filepath.Join(w.root, "was")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWorkspaceRemovedWithoutWhatItLinksTo: its links go, what they lead to stays.
func TestWorkspaceRemovedWithoutWhatItLinksTo(t *testing.T) {
	t.Parallel()
	_, w, outside := maze(t)
	cfg := Config{Workspaces: filepath.Dir(w.root)}
	sb := &sandboxes{cfg: cfg, runs: &runSet{}, workspaces: &workspaces{cfg: cfg}}
	if err := sb.removeWorkspace(t.Context(), "work"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(w.root); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(text) != "secret" {
		t.Errorf("%q %v", text, err)
	}
	if err := sb.removeWorkspace(t.Context(), "../"+filepath.Base(filepath.Dir(w.root))); err == nil {
		t.Error("what climbs was removed")
	}
}
