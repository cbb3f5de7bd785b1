package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"

	"aqueduct/bridge/tools"
	"aqueduct/internal/child"
	"aqueduct/internal/ownfile"
	"aqueduct/server/llmproxy"
)

// TestS42EveryFileIsCollected: each flag of serve and proxy that takes a file is collected by its type, and so is each member
// of a file or table that names one.
func TestS42EveryFileIsCollected(t *testing.T) {
	t.Parallel()
	readable := map[string]bool{"--policy-file": true, "--tools-file": true, "--models-file": true, "--tls-cert": true, "--oidc-mapping": true, "--redact-file": true}
	tables := map[string]string{
		"webhooks": "[{name: a, url: 'http://x', secret_file: %s}]", "channels": "[{id: a, secret_file: %s}]",
		"mcp-token-file": "a=%s", "agent-secret": "a=%s", "database": "sqlite:%s",
	}
	for _, command := range []string{"serve", "proxy"} {
		var flags cli
		parser, err := kong.New(&flags, kong.Bind(&settings{}), kong.BindTo(t.Context(), (*context.Context)(nil)))
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(parser.Model.Children, func(n *kong.Node) bool { return n.Name == command })
		node, tried := parser.Model.Children[at], 0
		for _, flag := range node.Flags {
			form, ok := tables[flag.Name]
			if !ok && !strings.Contains(flag.PlaceHolder, "FILE") && flag.Name != "blob-dir" || flag.Hidden {
				continue
			}
			if !ok {
				form = "%s"
			}
			tried++
			path := filepath.Join(t.TempDir(), flag.Name)
			args := []string{command, "--" + flag.Name, fmt.Sprintf(form, path)}
			if command == "proxy" {
				args = append(args, "--url", "ws://localhost/ws/agent")
			}
			if _, err := parser.Parse(args); err != nil {
				t.Fatal(args, err)
			}
			found := ownfile.Collect(map[string]any{"serve": &flags.Serve, "proxy": &flags.Proxy}[command])
			want := ownfile.File{Path: path, Secret: !readable["--"+flag.Name], Setting: "--" + flag.Name}
			if !slices.Contains(found, want) {
				t.Errorf("%s --%s: %+v is not among %+v", command, flag.Name, want, found)
			}
		}
		if tried < 2 {
			t.Errorf("%s: %d flags were tried", command, tried)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[serveCmd](), reflect.TypeFor[proxyCmd](), reflect.TypeFor[tools.Definition](), reflect.TypeFor[llmproxy.Upstreams]()} {
		plainFiles(t, of, of.Name(), map[reflect.Type]bool{})
	}
}

// plainFiles reports members that are called like files and are plain texts.
func plainFiles(t *testing.T, of reflect.Type, path string, seen map[reflect.Type]bool) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		plainFiles(t, of.Elem(), path, seen)
	case reflect.Struct:
		if seen[of] || !strings.HasPrefix(of.PkgPath(), "aqueduct/") {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			field := of.Field(i)
			tag := field.Tag.Get("hidden") + string(field.Tag)
			if name := strings.ToLower(field.Name); field.Type == reflect.TypeFor[string]() && strings.HasSuffix(name, "file") && !strings.Contains(tag, "hidden") {
				t.Errorf("%s.%s names a file and has the type string, not one of ownfile", path, field.Name)
			}
			plainFiles(t, field.Type, path+"."+field.Name, seen)
		}
	default:
	}
}

// TestS42FilesInFiles: the secrets that files name are collected with these.
func TestS42FilesInFiles(t *testing.T) {
	t.Parallel()
	s := serveCmd{
		ToolsFile: toolsFile(written(t, "tools.yaml", "tools:\n  - {name: pay, kind: server_tool, endpoint: 'https://pay.example/x', secret_file: /keys/tool}\n")),
		Models:    modelFlags{ModelsFile: modelsFile(written(t, "models.yaml", "upstreams:\n  - {name: a, url: 'https://llm.example/v1', key_file: /keys/model, models: ['*']}\n"))},
		Files:     stateFlags{Database: "postgres://db.example/x?sslmode=verify-full&sslrootcert=/tls/ca.pem&sslkey=/keys/client"},
	}
	s.ACP.Confine.settingsFile = "/etc/aqueduct.yaml"
	found := map[string]bool{}
	for _, file := range ownFiles(&s, env("PGPASSFILE", "/keys/pgpass", "SSL_CERT_FILE", "/tls/roots.pem")) {
		found[file.Path] = file.Secret
	}
	for path, secret := range map[string]bool{
		string(s.ToolsFile): false, "/keys/tool": true, string(s.Models.ModelsFile): false, "/keys/model": true, "/tls/ca.pem": false, "/keys/client": true,
		"/etc/aqueduct.yaml": true, "/keys/pgpass": true, "/tls/roots.pem": false,
	} {
		if got, ok := found[path]; !ok || got != secret {
			t.Errorf("%s: collected %t, as a secret %t", path, ok, got)
		}
	}
}

// ordinary runs the test once more as an account that is not root, where it runs as root.
func ordinary(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv("AQUEDUCT_TEST_ORDINARY") != "" {
		return
	}
	const nobody = 65534
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "aqueduct-ordinary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	raw, err := os.ReadFile(self)
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "test"), raw, 0o755), os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "own"), 0o700), os.Chown(filepath.Join(dir, "own"), nobody, nobody))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "test"), "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "AQUEDUCT_TEST_ORDINARY=1", "HOME="+filepath.Join(dir, "own"), "TMPDIR="+filepath.Join(dir, "own"))
	cmd.Dir = filepath.Join(dir, "own")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}

// rewriting are the ways in which an agent tries to change a file: $1, from its own folder, with $2 the way from there to it.
// Each is tried, and its own output does not count.
const rewriting = `
try() { for f in "$@"; do
  echo evil >>"$f"; echo evil >"$f"; chmod 666 "$f"; truncate -s 0 "$f"
  ln "$f" ./hard && echo evil >>./hard; ln -s "$f" ./soft; echo evil >>./soft
  echo evil >./new; mv -f ./new "$f"; cp -f ./soft "$f"; rm -f "$f"; mv "$f" "$f.away"; ln -sf /etc/hostname "$f"
  d=$(dirname "$f"); e=$(dirname "$d")
  for x in "$d" "$e"; do mv "$x" "$x.away"; mv "$x" ./taken; rmdir "$x"; rm -rf "$x"; done
  mkdir -p "$d" && echo evil >"$f"
  umount "$f"; umount "$d"; mount -o remount,rw "$f"; mount --bind ./ "$d"
done; }
exec 2>/dev/null
try "$1" "$2" "/proc/self/cwd/$2" "/proc/self/root$1" "/proc/$PPID/root$1"
unshare -rm sh -c 'umount -l "$1"; umount -l "$(dirname "$1")"; echo evil >>"$1"; echo evil >>"$2"' sh "$1" "$2"
sh -c 'cd ..; echo evil >>"${1#../}"' sh "$2"
true`

// TestS42ConfinedAgentRewritesNothing: a confined process changes no file that configures, wherever that lies that is accepted,
// nor puts another file in its place; it reads it, and works.
func TestS42ConfinedAgentRewritesNothing(t *testing.T) {
	ordinary(t)
	if !child.LandlockWorks() {
		t.Fatal("this kernel has no Landlock")
	}
	root := t.TempDir()
	home, elsewhere := filepath.Join(root, "home"), filepath.Join(root, "etc")
	tmp := filepath.Join(root, "tmp")
	work := filepath.Join(home, "src", "project")
	for _, dir := range []string{work, elsewhere, tmp, filepath.Join(home, ".config", "aqueduct"), filepath.Join(elsewhere, "real")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("TMPDIR", tmp)
	linked := filepath.Join(elsewhere, "linked.yaml")
	files := []string{
		filepath.Join(elsewhere, "policy.yaml"), filepath.Join(elsewhere, "real", "tools.yaml"), linked,
		filepath.Join(home, "models.yaml"), filepath.Join(home, ".config", "aqueduct", "mapping.yaml"), filepath.Join(home, "src", "redact"), filepath.Join(tmp, "cert.pem"),
	}
	for _, path := range files {
		if path == linked {
			continue
		}
		if err := os.WriteFile(path, []byte("ours"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(elsewhere, "real", "tools.yaml"), linked); err != nil {
		t.Fatal(err)
	}
	var own []ownfile.File
	for _, path := range files {
		own = append(own, ownfile.File{Path: path, Setting: "--x"})
	}
	c, err := (&confineFlags{}).confinement(kept{files: own}, []string{work}, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		way, err := filepath.Rel(work, path)
		if err != nil {
			t.Fatal(err)
		}
		// The agent's own folders are its to remove.
		if err := errors.Join(os.MkdirAll(work, 0o755), os.MkdirAll(tmp, 0o755)); err != nil {
			t.Fatal(err)
		}
		cmd := c.Wrap(exec.Command("/bin/sh", "-c", rewriting, "sh", path, way))
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", path, err, out)
		}
		after, err := os.Lstat(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil || string(content) != "ours" || !os.SameFile(before, after) || before.Mode() != after.Mode() {
			t.Errorf("%s: %q %v %v", path, content, after.Mode(), err)
		}
		if err := errors.Join(os.MkdirAll(work, 0o755), os.MkdirAll(tmp, 0o755)); err != nil {
			t.Fatal(err)
		}
		says := c.Wrap(exec.Command("/bin/sh", "-c", `cat "$1"; echo x >made && echo x >"$HOME/made" && echo x >"$TMPDIR/made" && mkdir -p "$HOME/.cache/x" && echo ' works'`, "sh", path))
		says.Dir = work
		if out, err := says.CombinedOutput(); err != nil || string(out) != "ours works\n" {
			t.Errorf("%s: %q %v", path, out, err)
		}
	}
}

// TestS42ReplacedFile: an editor puts another file into the place of one that configures while an agent runs. The agent changes
// that no more than the first. A mount over the file alone would end then.
func TestS42ReplacedFile(t *testing.T) {
	ordinary(t)
	root := t.TempDir()
	home := filepath.Join(root, "home")
	work, folder := filepath.Join(home, "src"), filepath.Join(home, ".config", "aqueduct")
	policy := filepath.Join(folder, "policy.yaml")
	if err := errors.Join(os.MkdirAll(work, 0o755), os.MkdirAll(folder, 0o755), os.WriteFile(policy, []byte("ours"), 0o644)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	c, err := (&confineFlags{}).confinement(kept{files: []ownfile.File{{Path: policy, Setting: "--policy-file"}}}, []string{work}, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	agent := c.Wrap(exec.Command("/bin/sh", "-c", `echo; read -r x; exec 2>/dev/null; cat "$1"; echo evil >>"$1"; echo evil >"$1.new" && mv "$1.new" "$1"; rm -f "$1"; echo evil >"$1"; true`, "sh", policy))
	agent.Dir = work
	in, err := agent.StdinPipe()
	out, err2 := agent.StdoutPipe()
	if err := errors.Join(err, err2, agent.Start()); err != nil {
		t.Fatal(err)
	}
	_, _ = out.Read(make([]byte, 1)) // it runs now
	err = errors.Join(os.WriteFile(policy+".edited", []byte("edited"), 0o644), os.Rename(policy+".edited", policy), in.Close())
	read, err2 := io.ReadAll(out)
	if err := errors.Join(err, err2, agent.Wait()); err != nil || string(read) != "edited" {
		t.Errorf("the agent read %q: %v", read, err)
	}
	if raw, err := os.ReadFile(policy); err != nil || string(raw) != "edited" {
		t.Errorf("%q %v", raw, err)
	}
}

// TestS42StateBesideTheWork: a state folder in the agent's own is not there for it, so files that configure may lie in it.
func TestS42StateBesideTheWork(t *testing.T) {
	ordinary(t)
	work := t.TempDir()
	state := filepath.Join(work, "state")
	policy := filepath.Join(state, "policy.yaml")
	if err := errors.Join(os.Mkdir(state, 0o700), os.WriteFile(policy, []byte("tools: {x: low}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	start(t, "--state", state, "--acp", "code=true", "--acp-cwd", work, "--policy-file", policy)
}

// startError is the error of a start. One that is not refused serves, until its greeting ends it.
func startError(t *testing.T, args []string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	return run(ctx, args, env(), output{endAt{cancel}, io.Discard})
}

// endAt is an output whose first line ends the program.
type endAt struct{ cancel func() }

func (e endAt) Write(b []byte) (int, error) {
	e.cancel()
	return len(b), nil
}

// TestS42RefusedFiles: a start with a file that cannot be kept is refused, and the error names the flag, the file and the way out.
func TestS42RefusedFiles(t *testing.T) {
	ordinary(t)
	root := t.TempDir()
	home, work, data := filepath.Join(root, "home"), filepath.Join(root, "work"), filepath.Join(root, "state")
	for _, dir := range []string{filepath.Join(home, "x"), filepath.Join(work, "conf"), data, filepath.Join(root, "open"), filepath.Join(root, "etc")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("TMPDIR", filepath.Join(root, "home"))
	file := func(path string, mode os.FileMode) string {
		t.Helper()
		path = filepath.Join(root, path)
		if err := errors.Join(os.WriteFile(path, []byte("tools: {x: low}\n"), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(to, path string) string {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("etc/policy.yaml", 0o644)
	twice := file("etc/twice.yaml", 0o644)
	if err := errors.Join(os.Link(twice, filepath.Join(work, "second")), os.Chmod(filepath.Join(root, "open"), 0o777)); err != nil {
		t.Fatal(err)
	}
	// Which of them holds depends on the confinement; the others are refused with every one.
	always := map[string]string{
		file("work/policy.yaml", 0o600):                             "folder that agents work in",
		file("work/conf/policy.yaml", 0o644):                        "folder that agents work in",
		link(good, "work/link.yaml"):                                "folder that agents work in",
		link(filepath.Join(work, "conf"), "etc/d") + "/policy.yaml": "folder that agents work in",
		file("etc/group.yaml", 0o664):                               "writable by group or others",
		file("etc/others.yaml", 0o646):                              "writable by group or others",
		file("open/policy.yaml", 0o644):                             "writable by group or others",
	}
	confined := map[string]string{
		twice:                        "second name",
		link(good, "home/link.yaml"): "link that agents could replace",
	}
	args := []string{"serve", "--listen", "127.0.0.1:0", "--database", "sqlite:" + filepath.Join(data, "x.db"), "--signing-key-file", filepath.Join(data, "k"), "--acp", "code=true", "--acp-cwd", work}
	for means, cases := range map[string]map[string]string{"--unconfined=false": confined, "--unconfined": {}} {
		for path, want := range always {
			cases[path] = want
		}
		for path, want := range cases {
			err := startError(t, append(args, means, "--policy-file", path))
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--policy-file") {
				t.Errorf("%s %s: %v, want %q", means, path, err, want)
			}
		}
	}
	// Every other file that judges is refused alike.
	inside := filepath.Join(work, "policy.yaml")
	for _, flag := range []string{"--tools-file", "--models-file", "--redact-file", "--tls-cert"} {
		err := startError(t, append(args, flag, inside))
		if err == nil || !strings.Contains(err.Error(), "--") {
			t.Errorf("%s: %v", flag, err)
		}
	}
	start(t, append(args[3:], "--policy-file", good)...)
}
