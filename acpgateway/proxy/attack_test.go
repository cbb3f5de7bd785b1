package proxy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/acpgateway/wire"
)

// TestS23GitPushRunsNoCommand: what a git_push names, and what an agent wrote into its repository, makes git run nothing on
// the proxy's host. Each input leaves a file behind if it does.
func TestS23GitPushRunsNoCommand(t *testing.T) {
	t.Parallel()
	proof := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "run.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$0 $*\" >> "+proof+"\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	g := newGateway(t, oldAck)
	p := g.start(nil)
	g.send(`{"type":"acp_open","run_id":"r","init":{"script":"git init -q --bare far && git init -q -b work && git remote add origin ./far && git -c user.name=n -c user.email=e commit -q --allow-empty -m m && mkdir sub"}}`)
	if o := want[*wire.Opened](g); !o.OK {
		t.Fatal(o.Error)
	}
	repo := filepath.Join(p.cfg.Workspaces, "r")
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %s", args, out)
		}
		return strings.TrimSpace(string(out))
	}
	push := func(members map[string]any) *wire.SandboxControlResult {
		t.Helper()
		members["type"], members["action"], members["run_id"] = "sandbox_control", "git_push", "r"
		if members["branch"] == nil {
			members["branch"] = "work"
		}
		raw, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		g.send(string(raw))
		res := want[*wire.SandboxControlResult](g)
		if left, err := os.ReadFile(proof); err == nil {
			t.Errorf("%s ran a command: %s", raw, left)
			_ = os.Remove(proof)
		}
		return res
	}
	// What the one who asks names. None of it may succeed.
	for _, members := range []map[string]any{
		{"remote": "ext::" + script + " %S", "env": map[string]string{"GIT_ALLOW_PROTOCOL": "ext"}},
		{"env": map[string]string{"GIT_SSH_COMMAND": script, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "remote.origin.receivepack", "GIT_CONFIG_VALUE_0": script}},
		{"env": map[string]string{"GIT_EXEC_PATH": filepath.Dir(script), "LD_PRELOAD": script}},
		{"remote": "./far"}, {"remote": "/tmp"}, {"remote": "https://127.0.0.1:1/x"}, {"remote": "--receive-pack=" + script}, {"remote": "nobody"},
		{"branch": "work:other"}, {"branch": "+work"}, {"branch": "--all"}, {"branch": ":work"},
		{"cwd": "/"}, {"cwd": "../.."},
	} {
		if res := push(members); res.OK {
			t.Errorf("%v: %+v", members, res)
		}
	}
	// What the agent wrote into its repository. A push to a remote that is sound goes on all the same.
	config := filepath.Join(repo, ".git", "config")
	sound, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	hooks := t.TempDir()
	for _, dir := range []string{hooks, filepath.Join(repo, ".git", "hooks"), filepath.Join(repo, "far", "hooks")} {
		for _, name := range []string{"pre-push", "reference-transaction", "pre-receive", "update", "post-receive", "post-update"} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(script, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		settings [][2]string
		refused  bool
	}{
		"hooks":          {settings: [][2]string{{"core.hooksPath", hooks}}},
		"receivepack":    {settings: [][2]string{{"remote.origin.receivepack", script}}},
		"receivepack 2":  {settings: [][2]string{{"remote../far.receivepack", script}}},
		"vcs":            {settings: [][2]string{{"remote.origin.vcs", "x"}}},
		"signing":        {settings: [][2]string{{"push.gpgSign", "true"}, {"gpg.program", script}}},
		"fsmonitor":      {settings: [][2]string{{"core.fsmonitor", script}}},
		"alternate refs": {settings: [][2]string{{"core.alternateRefsCommand", script}}},
		"ext":            {settings: [][2]string{{"remote.origin.url", "ext::" + script + " %S"}, {"protocol.ext.allow", "always"}}, refused: true},
		"instead":        {settings: [][2]string{{"url.ext::" + script + ".insteadOf", "./far"}, {"protocol.ext.allow", "always"}}},
		"ssh":            {settings: [][2]string{{"remote.origin.url", "ssh://127.0.0.1:1/x"}, {"core.sshCommand", script}}, refused: true},
		"credentials": {settings: [][2]string{{"remote.origin.url", "http://x@127.0.0.1:1/x"}, {"credential.helper", script},
			{"credential.http://127.0.0.1:1.helper", script}, {"core.askPass", script}}, refused: true},
		"git proxy": {settings: [][2]string{{"remote.origin.url", "git://127.0.0.1:1/x"}, {"core.gitProxy", script}}, refused: true},
	} {
		if err := os.WriteFile(config, sound, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, s := range c.settings {
			git("config", s[0], s[1])
		}
		git("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", name)
		res := push(map[string]any{})
		if res.OK == c.refused {
			t.Errorf("%s: %+v", name, res)
		}
		tip := git("rev-parse", "work")
		if there, err := exec.Command("git", "-C", filepath.Join(repo, "far"), "rev-parse", "work").Output(); !c.refused && (err != nil || strings.TrimSpace(string(there)) != tip) {
			t.Errorf("%s: the remote has %s", name, there)
		}
	}
}
