package proxy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway/wire"
)

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

func fill(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "file"), []byte("original"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestEachRunHasItsFolder: a worktree where git knows the source, else a copy; what one run writes no other sees, nor the
// source; and the folder goes with its run.
func TestEachRunHasItsFolder(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"worktree", "copy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			source := t.TempDir()
			fill(t, source)
			if kind == "worktree" {
				gitIn(t, source, "init", "-q", "-b", "main")
				gitIn(t, source, "add", ".")
				gitIn(t, source, "commit", "-q", "-m", "m")
				hook := "#!/bin/sh\ntouch " + filepath.Join(source, "hooked") + "\n"
				if err := os.WriteFile(filepath.Join(source, ".git", "hooks", "post-checkout"), []byte(hook), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			g := newGateway(t, oldAck)
			p := g.start(func(c *Config) { c.Source = filepath.Join(source, "sub") })
			root := p.cfg.Workspaces
			if err := os.Mkdir(filepath.Join(root, draftPrefix+"a"), 0o700); err != nil { // of a proxy that was killed halfway
				t.Fatal(err)
			}
			for _, run := range []string{"a", "b"} {
				g.send(fmt.Sprintf(`{"type":"acp_open","run_id":%q,"init":{"script":"cat file && echo %s > file"}}`, run, run))
				if o := want[*wire.Opened](g); !o.OK {
					t.Fatal(o.Error)
				}
			}
			file := "file"
			if kind == "worktree" {
				file = "sub/file"
			}
			for _, run := range []string{"a", "b"} {
				if raw, err := os.ReadFile(filepath.Join(root, run, file)); err != nil || string(raw) != run+"\n" {
					t.Errorf("%s has %q %v", run, raw, err)
				}
			}
			if raw, err := os.ReadFile(filepath.Join(source, "sub", "file")); err != nil || string(raw) != "original" {
				t.Errorf("the source has %q %v", raw, err)
			}
			g.send(`{"type":"acp_close","run_id":"a"}`)
			g.send(`{"type":"sandbox_control","action":"remove_workspace","run_id":"a","request_id":"q"}`)
			if res := want[*wire.SandboxControlResult](g); !res.OK {
				t.Errorf("%+v", res)
			}
			left, err := os.ReadDir(root)
			if err != nil || len(left) != 1 || left[0].Name() != "b" {
				t.Errorf("left: %v %v", left, err)
			}
			if kind == "worktree" {
				if list := gitIn(t, source, "worktree", "list"); strings.Count(list, "\n") != 2 {
					t.Errorf("git knows\n%s", list)
				}
				if _, err := os.Stat(filepath.Join(source, "hooked")); err == nil {
					t.Error("a hook ran")
				}
			}
			// A run that comes back finds what it left.
			g.send(`{"type":"acp_close","run_id":"b"}`)
			g.send(`{"type":"acp_open","run_id":"b"}`)
			if o := want[*wire.Opened](g); !o.OK {
				t.Fatal(o.Error)
			}
			if raw, err := os.ReadFile(filepath.Join(root, "b", file)); err != nil || string(raw) != "b\n" {
				t.Errorf("b has %q %v", raw, err)
			}
		})
	}
}

// TestWorkspacesAreMeasured: the list has the size of each.
func TestWorkspacesAreMeasured(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	p := g.start(func(c *Config) { c.Inventory = 20 * time.Millisecond })
	fill(t, filepath.Join(p.cfg.Workspaces, "a"))
	for deadline := time.Now().Add(patience); ; {
		inv := want[*wire.WorkspaceInventory](g)
		if len(inv.Workspaces) == 1 && inv.Workspaces[0].SizeBytes != nil && *inv.Workspaces[0].SizeBytes == int64(len("original")) && inv.Workspaces[0].MTime != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", inv.Workspaces)
		}
	}
}

// TestOrphansAreCollected: forty folders that no run accounts for go; what is expected stays, and what began since.
func TestOrphansAreCollected(t *testing.T) {
	t.Parallel()
	for _, ask := range []string{
		`"action":"prune_orphans"`, `"action":"gc"`, `"action":"prune_orphans","gc":{"remove_orphans":true,"remove_workspaces":true}`,
	} {
		g := newGateway(t, oldAck)
		p := g.start(nil)
		for i := range 40 {
			fill(t, filepath.Join(p.cfg.Workspaces, fmt.Sprint("orphan", i)))
		}
		fill(t, filepath.Join(p.cfg.Workspaces, "kept"))
		g.openRun()
		g.send(`{"type":"sandbox_control","request_id":"q","expected_instances":[{"instance_name":"tuixiu-run-kept","run_id":"kept"},{"instance_name":"tuixiu-run-r"}],` + ask + `}`)
		res := want[*wire.SandboxControlResult](g)
		if !res.OK || strings.Count(string(res.Details), "orphan") != 40 {
			t.Errorf("%s: %+v %s", ask, res, res.Details)
		}
		left, err := os.ReadDir(p.cfg.Workspaces)
		if err != nil || len(left) != 2 || left[0].Name() != "kept" || left[1].Name() != "r" {
			t.Errorf("%s: left are %d %v", ask, len(left), err)
		}
		g.send(`{"type":"sandbox_control","request_id":"q","expected_instances":[],` + ask + `}`)
		if res := want[*wire.SandboxControlResult](g); !res.OK {
			t.Errorf("%s: %+v", ask, res)
		}
		if left, err := os.ReadDir(p.cfg.Workspaces); err != nil || len(left) != 0 {
			t.Errorf("%s: with nothing expected %d are left %v", ask, len(left), err)
		}
	}
}
