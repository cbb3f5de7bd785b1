package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"aqueduct/internal/ownfile"
)

// TestS44OneDefault: each command that takes a file of a server has all three flags, whose values the same place fills in.
func TestS44OneDefault(t *testing.T) {
	t.Parallel()
	var flags cli
	parser, err := kong.New(&flags, kong.Bind(&settings{env: env()}))
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	err = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		command, ok := node.(*kong.Node)
		if !ok || len(command.Children) > 0 {
			return next(nil)
		}
		var names []string
		for _, flag := range command.Flags {
			names = append(names, flag.Name)
		}
		uses := func(name string) bool { return slices.Contains(names, name) }
		if uses("database") || uses("signing-key-file") || uses("token-file") && command.Name != "proxy" {
			commands++
			if !uses("state") || !uses("database") || !uses("signing-key-file") {
				t.Errorf("%s has no stateFlags: %v", command.FullPath(), names)
			}
		}
		return next(nil)
	})
	if err != nil || commands < 15 {
		t.Errorf("%d commands, %v", commands, err)
	}
	for _, args := range [][]string{{"serve"}, {"token", "show"}, {"token", "rotate"}, {"doctor", "http://x"}, {"tail", "R"}, {"export", "R"}, {"audit", "verify"}, {"migrate"}} {
		flags, err := parse(t, env("AQUEDUCT_STATE", "/srv/aqueduct"), args...)
		all := []stateFlags{flags.Serve.Files, flags.Token.Show.Files, flags.Token.Rotate.Files, flags.Doctor.Files, flags.Tail.Server.Files, flags.Export.Server.Files, flags.Audit.Verify.Source.Files, flags.Migrate.Files}
		if err != nil || !slices.ContainsFunc(all, func(f stateFlags) bool {
			return f.dir == "/srv/aqueduct" && f.Database == "sqlite:/srv/aqueduct/aqueduct.db" && f.SigningKeyFile == "/srv/aqueduct/signing.key"
		}) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestS44DefaultState: the order of the places.
func TestS44DefaultState(t *testing.T) {
	system := systemState
	if !writable(systemState) {
		system = ""
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"systemd's":    {map[string]string{"STATE_DIRECTORY": "/srv/a:/srv/b", "XDG_STATE_HOME": "/x"}, "/srv/a"},
		"XDG's":        {map[string]string{"XDG_STATE_HOME": "/x"}, "/x/aqueduct"},
		"XDG relative": {map[string]string{"XDG_STATE_HOME": "x"}, filepath.Join(home, ".local/state/aqueduct")},
		"none":         {nil, filepath.Join(home, ".local/state/aqueduct")},
	} {
		want := c.want
		if c.env["STATE_DIRECTORY"] == "" && system != "" {
			want = system
		}
		if got, err := defaultState(func(key string) string { return c.env[key] }); err != nil || got != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	flags, err := parse(t, env(), "serve", "--database", "sqlite:/srv/a/x.db")
	if f := flags.Serve.Files; err != nil || f.dir != "/srv/a" || f.SigningKeyFile != "/srv/a/signing.key" {
		t.Errorf("%+v %v", f, err)
	}
}

// TestS44OneStateOneServer: a second start on a state folder is refused with the flag that helps, on PostgreSQL too; the folder
// is this account's alone.
func TestS44OneStateOneServer(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "above", "state")
	r := start(t, "--state", state)
	_, err := program(t, env(), "serve", "--listen", "127.0.0.1:0", "--state", state, "--database", "postgres://127.0.0.1:1/none")
	if err == nil || !strings.Contains(err.Error(), state) || !strings.Contains(err.Error(), "--state DIR") {
		t.Error(err)
	}
	for _, dir := range []string{state, filepath.Dir(state)} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", dir, info.Mode(), err)
		}
	}
	shown, err := program(t, env(), "token", "show", "--state", state)
	if kept, _ := os.ReadFile(filepath.Join(state, "token")); err != nil || shown != string(kept) {
		t.Errorf("%q %v", shown, err)
	}
	// The doctor shows the token to the server of this state and to no other.
	d := &doctorCmd{URL: r.URL + "/api/agui/chat", Files: stateFlags{State: ownfile.Secret(state)}}
	if err := d.Files.AfterApply(&settings{}); err != nil {
		t.Fatal(err)
	}
	if token, err := d.token(nil); err != nil || string(token)+"\n" != shown {
		t.Errorf("%v", err)
	}
	if d.URL = "http://127.0.0.1:9/api/agui/chat"; true {
		if token, err := d.token(nil); err != nil || token != "" {
			t.Errorf("%v", err)
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if d.Files.server() != "" {
		t.Error("a server that has ended is found")
	}
	start(t, "--state", state)
}

// TestS44EveryMakerKeepsOut: whichever command makes the state folder first, it is this account's alone.
func TestS44EveryMakerKeepsOut(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"token", "issue", "--type", "user", "--user", "ann"}, {"token", "bootstrap", "--proxy", "p"}, {"token", "rotate"}, {"migrate"},
	} {
		state := filepath.Join(t.TempDir(), "state")
		if _, err := program(t, env(), append(args, "--state", state)...); err != nil {
			t.Errorf("%v: %v", args, err)
			continue
		}
		if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v: %v %v", args, info, err)
		}
	}
}

// TestS44EarlierState: ./data of an earlier version is named with what to do, by each command, and what it says works.
func TestS44EarlierState(t *testing.T) {
	t.Chdir(t.TempDir())
	state := filepath.Join(t.TempDir(), "state")
	t.Setenv("STATE_DIRECTORY", state)
	if err := errors.Join(os.Mkdir("data", 0o755), os.WriteFile("data/signing.key", []byte(strings.Repeat("k", 64)+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := program(t, env(), "migrate", "--database", "sqlite:data/aqueduct.db"); err != nil {
		t.Fatal(err)
	}
	var said string
	for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"token", "show"}, {"tail", "R"}, {"audit", "verify"}, {"token", "issue", "--type", "user", "--user", "ann"}} {
		_, err := program(t, env(), args...)
		for _, want := range []string{"data/aqueduct.db", state, "--state", "mv "} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%v: %q is not in: %v", args, want, err)
			}
		}
		said = err.Error()
	}
	// Without a SQLite file the keys are what would be left.
	_, err := program(t, env(), "token", "issue", "--type", "user", "--user", "ann", "--database", "postgres://127.0.0.1:1/none")
	if err == nil || !strings.Contains(err.Error(), "data/signing.key") {
		t.Error(err)
	}
	if exists(state) {
		t.Error("a refused command made the state folder")
	}
	if _, err := program(t, env(), "token", "issue", "--type", "user", "--user", "ann", "--state", "data"); err != nil {
		t.Errorf("where it was: %v", err)
	}
	_, move, _ := strings.Cut(said, "Move what is there: ")
	move, _, _ = strings.Cut(move, " ; ")
	if out, err := exec.Command("sh", "-c", move).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v %s", move, err, out)
	}
	if out, err := program(t, env(), "migrate"); err != nil || !strings.Contains(out, state) {
		t.Errorf("after the move: %q %v", out, err)
	}
}
