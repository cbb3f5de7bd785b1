package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/child"
)

const nobody = 65534

// means are the confinements of this machine: Landlock, and as root a user of its own.
func means(t *testing.T, secret string) map[string]*child.Confinement {
	t.Helper()
	if !child.LandlockWorks() {
		t.Fatal("this kernel has no Landlock")
	}
	helper := []string{"/proc/self/exe", "confine"}
	list := map[string]*child.Confinement{"landlock": {Helper: helper, Protect: []string{secret}}}
	if os.Geteuid() == 0 {
		user, err := child.LookupUser("nobody")
		if err != nil {
			t.Fatal(err)
		}
		list["user"] = &child.Confinement{User: user}
		list["both"] = &child.Confinement{User: user, Helper: helper, Protect: []string{secret}}
	}
	return list
}

// TestS48FilesWithTheAgentsRights: what the agent's account and confinement cannot read or write, the proxy does not read or
// write for it either: by fs/*, by inputs, by what a workspace begins as.
func TestS48FilesWithTheAgentsRights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for above := dir; above != os.TempDir() && above != "/"; above = filepath.Dir(above) {
		if err := os.Chmod(above, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	secrets := filepath.Join(dir, "data")
	secret := filepath.Join(secrets, "token")
	if err := errors.Join(os.Mkdir(secrets, 0o755), os.WriteFile(secret, []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, confined := range means(t, secrets) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(dir, "work of "+name)
			mine := filepath.Join(root, "mine") // an agent of another account cannot read it, one under Landlock can
			if err := errors.Join(os.Mkdir(root, 0o755), os.WriteFile(mine, []byte("secret"), 0o600)); err != nil {
				t.Fatal(err)
			}
			if confined.User != nil {
				if err := os.Chown(root, nobody, nobody); err != nil {
					t.Fatal(err)
				}
			}
			w := workspace{root: root, shared: true}
			cfg := Config{Cwd: root, Confine: confined}
			ws := &workspaces{cfg: cfg, launch: &launcher{cfg: cfg}}
			fs := func(root, method, path, more string) (string, error) {
				got, err := newFiles(ws.launch, workspace{root: root}).call(t.Context(), method, json.RawMessage(fmt.Sprintf(`{"sessionId":"s","path":%q%s}`, path, more)))
				return fmt.Sprint(got), err
			}
			if _, err := fs(root, wire.MethodWriteTextFile, "sub/new", `,"content":"x"`); err != nil {
				t.Fatal(err)
			}
			if got, err := fs(root, wire.MethodReadTextFile, "sub/new", ""); err != nil || !strings.Contains(got, "x") {
				t.Errorf("%s %v", got, err)
			}
			if info, err := os.Stat(filepath.Join(root, "sub", "new")); err != nil || confined.User != nil && info.Sys().(*syscall.Stat_t).Uid != nobody {
				t.Errorf("it is not the agent's: %v", err)
			}
			// The workspace itself may become a way out; the agent's own folder is its to replace.
			away := filepath.Join(dir, "away of "+name)
			if err := os.Symlink(secrets, away); err != nil {
				t.Fatal(err)
			}
			if got, err := fs(away, wire.MethodReadTextFile, "token", ""); err == nil {
				t.Errorf("read by a link: %s", got)
			}
			if _, err := fs(away, wire.MethodWriteTextFile, "token", `,"content":"evil"`); err == nil {
				t.Error("written by a link")
			}
			if raw, err := os.ReadFile(secret); err != nil || string(raw) != "secret" {
				t.Errorf("%q %v", raw, err)
			}
			put := func(item wire.AgentInput) error {
				return ws.place(t.Context(), w, &wire.AgentInputs{Items: []wire.AgentInput{item}})
			}
			if confined.User != nil {
				if got, err := fs(root, wire.MethodReadTextFile, "mine", ""); err == nil {
					t.Errorf("another's file was read: %s", got)
				}
				if _, err := fs(root, wire.MethodWriteTextFile, "mine", `,"content":"evil"`); err == nil {
					t.Error("another's file was written")
				}
				copied := wire.AgentInput{Apply: "copy", Source: wire.InputSource{Type: "hostPath", Path: "mine"}, Target: wire.InputTarget{Path: "copied"}}
				if err := put(copied); err == nil {
					t.Error("another's file was copied")
				}
				// As for a link to it: what is written must not become the agent's.
				if err := os.Link(mine, filepath.Join(root, "sub", "hard")); err != nil {
					t.Fatal(err)
				}
				text := wire.AgentInput{Apply: "writeFile", Source: wire.InputSource{Type: "inlineText", Text: "x"}, Target: wire.InputTarget{Path: "sub/hard"}}
				if err := put(text); err == nil {
					t.Error("another's file was written by an input")
				}
				if info, err := os.Stat(mine); err != nil || info.Sys().(*syscall.Stat_t).Uid == nobody || info.Size() != 6 {
					t.Errorf("%+v %v", info, err)
				}
			}
			// A pipe where an input shall be, and one where it comes from.
			if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o666); err != nil {
				t.Fatal(err)
			}
			for _, item := range []wire.AgentInput{
				{Apply: "writeFile", Source: wire.InputSource{Type: "inlineText", Text: "x"}, Target: wire.InputTarget{Path: "pipe"}},
				{Apply: "copy", Source: wire.InputSource{Type: "hostPath", Path: "sub/new"}, Target: wire.InputTarget{Path: "pipe"}},
			} {
				if err := put(item); err == nil {
					t.Errorf("%s into a pipe", item.Apply)
				}
			}
		})
	}
}

// TestS48CopiesLeaveOut: a workspace that is a copy has no secret that the agents are kept from, no file that their account
// could not read in the source, and a pipe in it holds nothing up.
func TestS48CopiesLeaveOut(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	fill(t, source)
	secret := filepath.Join(source, "data")
	err := errors.Join(os.Mkdir(secret, 0o755), os.WriteFile(filepath.Join(secret, "token"), []byte("secret"), 0o644), os.WriteFile(filepath.Join(source, "all"), []byte("x"), 0o644),
		syscall.Mkfifo(filepath.Join(source, "pipe"), 0o666), os.Symlink("all", filepath.Join(source, "link")))
	if err != nil {
		t.Fatal(err)
	}
	for name, confined := range means(t, secret) {
		spaces := t.TempDir()
		cfg := Config{Source: source, Workspaces: spaces, Confine: confined}
		ws := &workspaces{cfg: cfg, launch: &launcher{cfg: cfg}, changed: func() {}}
		if _, err := ws.populate(t.Context(), ws.of("r"), "r"); err != nil {
			t.Fatal(name, err)
		}
		got := left(t, filepath.Join(spaces, "r"))
		expected := map[string][]string{"landlock": {"all", "link", "sub/file"}, "user": {"all", "data/token", "link"}, "both": {"all", "link"}}[name]
		if slices.Sort(got); !slices.Equal(got, expected) {
			t.Errorf("%s: %v, want %v", name, got, expected)
		}
	}
}

// TestS48FilesAreBounded: reads and copies end at their bounds of bytes.
func TestS48FilesAreBounded(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	for path, size := range map[string]int64{filepath.Join(root, "large"): fileBytes + 1, filepath.Join(root, "huge"): archiveMost().unpacked + 1, filepath.Join(outside, "huge"): archiveMost().unpacked + 1} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
	}
	ws := &workspaces{cfg: Config{InputRoots: []string{outside}}, launch: &launcher{}}
	_, err := newFiles(ws.launch, workspace{root: root}).call(t.Context(), wire.MethodReadTextFile, json.RawMessage(`{"sessionId":"s","path":"large"}`))
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Error(err)
	}
	for _, from := range []string{"huge", filepath.Join(outside, "huge")} {
		item := wire.AgentInput{Apply: "copy", Source: wire.InputSource{Type: "hostPath", Path: from}, Target: wire.InputTarget{Path: "copied"}}
		err := ws.place(t.Context(), workspace{root: root}, &wire.AgentInputs{Items: []wire.AgentInput{item}})
		if err == nil || !strings.Contains(err.Error(), "more files or bytes") {
			t.Error(from, err)
		}
	}
}
