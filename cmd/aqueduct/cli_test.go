package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"go.uber.org/goleak"

	"aqueduct/acpgateway/proxy"
	"aqueduct/bridge/httpagent"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == confineName || os.Args[1] == proxy.FilesArgument) {
		main() // this binary is what agents are started by
	}
	// Commands that are given no state take a folder of the machine or the user.
	dir, err := os.MkdirTemp("", "aqueduct")
	if err == nil {
		err = errors.Join(os.Setenv("STATE_DIRECTORY", filepath.Join(dir, "state")), os.Setenv("XDG_CONFIG_HOME", dir))
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		code = max(code, leftBehind(filepath.Join(dir, "state")))
		_ = os.RemoveAll(dir) // the system clears what is left
		os.Exit(code)
	}))
}

// leftBehind is 1 where a test used the default state folder: on another machine it could be a server's.
func leftBehind(state string) int {
	left, _ := os.ReadDir(state) // it is not there
	for _, entry := range left {
		if entry.Name() != "proxies" && entry.Name() != wrapFolder {
			fmt.Fprintf(os.Stderr, "FAIL: a test used the default state folder: %v\n", left)
			return 1
		}
	}
	return 0
}

// env is an environment of its own.
func env(pairs ...string) lookup {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// parse reads flags as run does, and runs nothing.
func parse(t *testing.T, e lookup, args ...string) (cli, error) {
	t.Helper()
	var flags cli
	set := &settings{env: e}
	parser, err := kong.New(&flags, kong.Resolvers(set), kong.Bind(set), kong.Exit(func(int) {}), kong.ValueFormatter(withEnvName))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return flags, err
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestS01DefaultBindIsLoopback: without any configuration serve is reached from this machine alone, with a token. That it does
// not start elsewhere without one is in TestS01RefusesToStart.
func TestS01DefaultBindIsLoopback(t *testing.T) {
	t.Parallel()
	flags, err := parse(t, env(), "serve")
	if err != nil {
		t.Fatal(err)
	}
	s := flags.Serve
	if s.Listen != "127.0.0.1:8080" || s.Files.Database != databaseFlag("sqlite:"+s.Files.in("aqueduct.db")) || s.Auth != "token" || s.TokenFile != "" || s.Name != "" ||
		s.LogFormat != "text" || s.Demo || s.DemoPace != 20*time.Millisecond || len(s.Agent) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestWhoGoesFirst: the command line before the environment, that before the file.
func TestWhoGoesFirst(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"a.yaml": "listen: 127.0.0.1:1\nname: file\nlog_format: json\ndemo: true\ndemo-pace: 5ms\nagent: [one=http://a, two=http://b]\ncors-origin:\n- https://x.example\n",
		"a.json": `{"listen":"127.0.0.1:1","name":"file","log-format":"json","demo":true,"demo_pace":"5ms","agent":["one=http://a","two=http://b"],"cors-origin":["https://x.example"]}`,
	} {
		path := write(t, name, content)
		flags, err := parse(t, env("AQUEDUCT_NAME", "env", "AQUEDUCT_LISTEN", "127.0.0.1:2"), "serve", "--config", path, "--listen", "127.0.0.1:3")
		if err != nil {
			t.Fatal(name, err)
		}
		s := flags.Serve
		if s.Listen != "127.0.0.1:3" || s.Name != "env" || s.LogFormat != "json" || !s.Demo || s.DemoPace != 5*time.Millisecond ||
			len(s.Agent) != 2 || s.Agent[1] != (agentFlag{id: "two", url: "http://b", host: "b"}) || len(s.CORSOrigin) != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestOrderOfACPAgents: a table's order is the one it is written in, from each source and in each spelling.
func TestOrderOfACPAgents(t *testing.T) {
	t.Parallel()
	want := []string{"z", "m", "a", "q"}
	table := "z: {cwd: /z}\nm: {}\na: {env: {B: b, A: a}}\nq: {}\n"
	nested := "acp_agents:\n  " + strings.ReplaceAll(strings.TrimSpace(table), "\n", "\n  ") + "\n"
	for name, args := range map[string][]string{
		"flag":  {"--acp-agents", table},
		"file":  {"--config", write(t, "a.yaml", nested)},
		"json":  {"--config", write(t, "a.json", `{"acp-agents":{"z":{"cwd":"/z"},"m":{},"a":{},"q":{}}}`)},
		"merge": {"--config", write(t, "b.yaml", "listen: &l 127.0.0.1:0\nacp-agents: &t\n  z: &c {cwd: /z}\n  m: *c\n  a: *c\n  q: {<<: *c}\n")},
	} {
		flags, err := parse(t, env(), append([]string{"serve"}, args...)...)
		if got := flags.Serve.ACP.ACPAgents; err != nil || !slices.Equal(got.order, want) || got.byID["z"].Cwd != "/z" || len(got.byID) != 4 {
			t.Errorf("%s: %v %+v", name, err, got)
		}
	}
	for name, content := range map[string]string{"unknown": "acp-agents: {a: {cvd: /}}", "list": "acp-agents: [a]"} {
		if _, err := parse(t, env(), "serve", "--config", write(t, "c.yaml", content)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	flags, err := parse(t, env("AQUEDUCT_DEMO", "true", "AQUEDUCT_DEMO_PACE", "1s", "AQUEDUCT_AGENT", "a=http://x,b=https://y",
		"AQUEDUCT_CORS_ORIGIN", "https://p,https://q", "AQUEDUCT_DATABASE", "sqlite:x.db"), "serve")
	if err != nil {
		t.Fatal(err)
	}
	s := flags.Serve
	if !s.Demo || s.DemoPace != time.Second || len(s.Agent) != 2 || len(s.CORSOrigin) != 2 || s.Files.Database != "sqlite:x.db" {
		t.Errorf("%+v", s)
	}
}

// TestAgentsOptions checks that an option applies to the agent that it follows, in each source of flags.
func TestAgentsOptions(t *testing.T) {
	t.Parallel()
	file := write(t, "a.yaml", "agent: ['a=http://x', 'b=https://y/agui,protocol=agui,resumable,raw=keep,on_leave=cancel', 'c=http://z,resumable,raw=drop']\n")
	for name, args := range map[string][]string{
		"flags": {"--agent", "a=http://x", "--agent", "b=https://y/agui,protocol=agui,resumable,raw=keep,on_leave=cancel", "--agent", "c=http://z,resumable,raw=drop"},
		"env":   {},
		"file":  {"--config", file},
	} {
		e := env()
		if name == "env" {
			e = env("AQUEDUCT_AGENT", "a=http://x,b=https://y/agui,protocol=agui,resumable,raw=keep,on_leave=cancel,c=http://z,resumable,raw=drop")
		}
		flags, err := parse(t, e, append([]string{"serve"}, args...)...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := []agentFlag{
			{id: "a", url: "http://x", host: "x"}, {id: "b", url: "https://y/agui", host: "y", protocol: httpagent.ProtocolAGUI, resumable: true, raw: keepRaw, cancelOnLeave: true},
			{id: "c", url: "http://z", host: "z", resumable: true, raw: dropRaw},
		}
		if !slices.Equal(flags.Serve.Agent, want) {
			t.Errorf("%s: %+v", name, flags.Serve.Agent)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"serve", "--agent", "nourl"}, {"serve", "--agent", "a b=http://x"}, {"serve", "--agent", "a=ftp://x"}, {"serve", "--agent", "=http://x"},
		{"serve", "--agent", "protocol=agui"}, {"serve", "--agent", "resumable"}, {"serve", "--agent", "a=http://x,resumable,protocol=acp"}, {"serve", "--agent", "a=http://x,protocol=acp"},
		{"serve", "--agent", "raw=keep"}, {"serve", "--agent", "on_leave=cancel"}, {"serve", "--agent", "a=http://x,raw=all"}, {"serve", "--agent", "a=http://x,on_leave=continue"},
		{"serve", "--auth", "maybe"}, {"serve", "--log-format", "xml"}, {"serve", "--nonsense"}, {"fly"}, {},
		{"serve", "--config", "/does/not/exist"}, {"serve", "--config", write(t, "x.yaml", "listn: x\n")}, {"serve", "--config", write(t, "y.yaml", "a: [\n")},
	} {
		if _, err := parse(t, env(), args...); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

// program runs the program and returns what it printed.
func program(t *testing.T, e lookup, args ...string) (string, error) {
	t.Helper()
	var out, log bytes.Buffer
	err := run(t.Context(), args, e, output{&out, &log})
	return out.String(), err
}

func TestHelpNamesTheEnvironment(t *testing.T) {
	t.Parallel()
	out, err := program(t, env(), "serve", "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"listen", "database", "demo", "agent", "auth", "token-file", "cors-origin", "config", "log-format", "name"} {
		if !strings.Contains(out, "--"+flag) || !strings.Contains(out, "$"+envName(flag)) {
			t.Errorf("%s is not told of", flag)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if out, err := program(t, env(), "version"); err != nil || !strings.HasPrefix(out, "aqueduct "+release) {
		t.Errorf("%q %v", out, err)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "a.db")
	for range 2 {
		if out, err := program(t, env("AQUEDUCT_DATABASE", "sqlite:"+path), "migrate"); err != nil || !strings.Contains(out, "up to date") {
			t.Errorf("%q %v", out, err)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if _, err := program(t, env(), "migrate", "--database", "mysql://x"); err == nil {
		t.Error("a database nobody knows")
	}
}

// TestPasswordStaysSecret: the database's name is logged, its password is not.
func TestPasswordStaysSecret(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", slog.Any("database", databaseFlag("postgres://user:hunter2@db.example/a")))
	if strings.Contains(out.String(), "hunter2") || !strings.Contains(out.String(), "db.example") {
		t.Errorf("%s", out.String())
	}
	for _, url := range []string{
		"postgres://user:hunter2@[bad", "postgres://db.example/a?user=u&password=hunter2", "postgres:///a?host=/run&Password=hunter2&sslpassword=hunter2",
		"host=db.example password=hunter2", "postgres:user:hunter2", "mysql://db.example/a?pass=hunter2",
	} {
		if got := databaseFlag(url).String(); strings.Contains(got, "hunter2") {
			t.Errorf("%s", got)
		}
	}
	for _, url := range []string{"postgres:///a?host=%2Frun&b=1&a=2", "postgresql://u@db.example/a"} {
		if got := databaseFlag(url).String(); got != url {
			t.Errorf("%s instead of %s", got, url)
		}
	}
}

// TestS01RefusesToStart where it would not be safe, or cannot be.
func TestS01RefusesToStart(t *testing.T) {
	t.Parallel()
	db := "--database=sqlite:" + filepath.Join(t.TempDir(), "a.db")
	short, open := write(t, "token", "short\n"), write(t, "token", "a token with some length\n")
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no token off loopback": {"serve", db, "--listen", "0.0.0.0:0", "--auth", "none"},
		"no token file":         {"serve", db, "--listen", "127.0.0.1:0", "--token-file", short + "x"},
		"an open token file":    {"serve", db, "--listen", "127.0.0.1:0", "--token-file", open},
		"a short token":         {"serve", db, "--listen", "127.0.0.1:0", "--auth", "token", "--token-file", short},
		"events of no size":     {"serve", db, "--listen", "127.0.0.1:0", "--event-bytes", "3072"},
		"an origin of all":      {"serve", db, "--listen", "127.0.0.1:0", "--cors-origin", "*"},
		"no such address":       {"serve", db, "--listen", "203.0.113.1:1"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var out, log bytes.Buffer
		err := run(ctx, args, env(), output{&out, &log})
		if err == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) || out.Len() > 0 {
			t.Errorf("%s: started: %s %v", name, out.String(), err)
		}
		cancel()
	}
}
