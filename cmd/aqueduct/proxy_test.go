package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/acpgateway/proxy"
)

// proxyConfig is what a proxy started with a settings file would be.
func proxyConfig(t *testing.T, file string, args ...string) (proxy.Config, error) {
	t.Helper()
	path := write(t, "proxy.yaml", file)
	set := &settings{}
	if err := set.load(path); err != nil {
		return proxy.Config{}, err
	}
	flags, err := parse(t, env(), append([]string{"proxy", "--config", path}, args...)...)
	if err != nil {
		return proxy.Config{}, err
	}
	return flags.Proxy.config(set)
}

func TestProxyFlags(t *testing.T) {
	t.Parallel()
	flags, err := parse(t, env(), "proxy", "--url", "ws://h/ws/agent", "--token-file", "f", "--id", "x", "--max-concurrent", "3", "--", "agent", "--acp", "-v")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := flags.Proxy.config(&settings{})
	if err != nil || cfg.ID != "x" || cfg.MaxConcurrent != 3 || !slices.Equal(cfg.Command, []string{"agent", "--acp", "-v"}) {
		t.Fatalf("%+v %v", cfg, err)
	}
}

func TestProxyNeedsAToken(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"url: ws://h/ws/agent\n", "url: ws://h/ws/agent\nregister_url: http://h/r\n", "url: ws://h/elsewhere\nbootstrap_token: x\n"} {
		if _, err := proxyConfig(t, file, "--", "agent"); err == nil || !strings.Contains(err.Error(), "it needs a token") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestProxySettingsFile: all a proxy needs may stand in its file, under the contract's names.
func TestProxySettingsFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, more string
		command    []string
		token      bool
		register   bool
	}{
		"auth_token":     {file: "agent_command: [codex-acp, -v]\nauth_token: given\n", command: []string{"codex-acp", "-v"}, token: true},
		"with dashes":    {file: "agent-command: opencode acp\nauth-token: given\n", command: []string{"opencode", "acp"}, token: true},
		"registering":    {file: "agent_command: 'sh -c \"a b\"'\nregister_url: http://h/r\nbootstrap_token: boot\n", command: []string{"sh", "-c", "a b"}, register: true},
		"both":           {file: "agent_command: [a]\nauth_token: given\nregister_url: http://h/r\nbootstrap_token: boot\n", command: []string{"a"}, token: true, register: true},
		"a command line": {file: "agent_command: [a]\nauth_token: given\n", more: "other", command: []string{"other"}, token: true},
		"JSON":           {file: `{"agent_command":["a"],"auth_token":"given"}`, command: []string{"a"}, token: true},
	} {
		file := "url: wss://h/ws/agent\nid: p\nmax_concurrent: 2\n" + c.file
		if c.file[0] == '{' {
			file = `{"url":"wss://h/ws/agent","id":"p","max_concurrent":2,` + c.file[1:]
		}
		var args []string
		if c.more != "" {
			args = []string{"--", c.more}
		}
		cfg, err := proxyConfig(t, file, args...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if cfg.URL != "wss://h/ws/agent" || cfg.ID != "p" || cfg.MaxConcurrent != 2 || !slices.Equal(cfg.Command, c.command) ||
			cfg.Token == nil || (cfg.Register != nil) != c.register {
			t.Errorf("%s: %+v", name, cfg)
		}
		if c.token {
			if token, err := cfg.Token(t.Context()); err != nil || token != "given" {
				t.Errorf("%s: %q %v", name, token, err)
			}
		}
	}
}

// TestContractsSettingsFile: the settings file of the contract's own proxy is taken as it is, in each of its forms.
func TestContractsSettingsFile(t *testing.T) {
	t.Parallel()
	const file = `# a comment
orchestrator_url = "ws://app:3000/ws/agent"
auth_token = ""
register_url = "http://app:3000/api/admin/acp-proxy/register"
bootstrap_token = "boot"
heartbeat_seconds = 20
mock_mode = false
agent_command = ["codex-acp", "-v"]

[sandbox]
provider = "host_process"
terminalEnabled = true
workingDir = "/workspace"
workspaceMode = "mount"
workspaceHostRoot = "/srv/workspaces"

[sandbox.env]
OPENAI_API_KEY = "hunter2"
DEBUG = 1

[[sandbox.volumes]]
hostPath = "/a"
guestPath = "/b"

[agent]
id = "codex-agent-1"
name = "Codex"
max_concurrent = 5

[agent.capabilities]
languages = ["typescript"]
`
	load := func(content, more string) (proxy.Config, error) {
		path := write(t, "config.toml", content)
		set := &settings{}
		if err := set.load(path); err != nil {
			return proxy.Config{}, err
		}
		args := []string{"proxy", "--config", path}
		if more != "" {
			args = append(args, "--", more)
		}
		flags, err := parse(t, env(), args...)
		if err != nil {
			return proxy.Config{}, err
		}
		return flags.Proxy.config(set)
	}
	cfg, err := load(file, "")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.URL != "ws://app:3000/ws/agent" || cfg.ID != "codex-agent-1" || cfg.Name != "Codex" || cfg.MaxConcurrent != 5 || cfg.Heartbeat != 20*time.Second ||
		!slices.Equal(cfg.Command, []string{"codex-acp", "-v"}) || !cfg.Terminal || cfg.Workspaces != "/srv/workspaces" ||
		!slices.Equal(cfg.Env, []string{"DEBUG=1", "OPENAI_API_KEY=hunter2"}) || string(cfg.Capabilities) != `{"languages":["typescript"]}` || cfg.Register == nil || cfg.Token == nil {
		t.Errorf("%+v", cfg)
	}
	var twice settings // AQUEDUCT_CONFIG's file, then the flag's
	if err := errors.Join(twice.load(write(t, "first.toml", file)), twice.load(write(t, "second.yaml", "url: ws://h/\n"))); err != nil {
		t.Fatal(err)
	}
	if twice.contract.env != nil || twice.contract.capabilities != nil || len(twice.file) != 1 {
		t.Errorf("the second file adds to the first: %+v", twice)
	}
	if cfg, err := load("orchestrator_url = 'ws://h/ws/agent'\nauth_token = 'given'\n", "agent"); err != nil || cfg.Token == nil || cfg.Heartbeat != 30*time.Second {
		t.Errorf("the least: %+v %v", cfg, err)
	}
	for name, content := range map[string]string{
		"container":       strings.Replace(file, "host_process", "container_oci", 1),
		"mock":            strings.Replace(file, "mock_mode = false", "mock_mode = true", 1),
		"unknown":         "orchestrator_uri = 'hunter2'\n",
		"unknown, nested": strings.Replace(file, "max_concurrent", "max_concurent", 1),
		"broken":          file + "\nbroken = hunter2\n",
		"twice":           file + "\n[agent]\nid = 'hunter2'\n",
		"env":             "orchestrator_url = 'ws://h/'\n[sandbox]\nenv = 'hunter2'\n",
	} {
		if _, err := load(content, ""); err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "boot") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestContractsSettingsFileWhole: every setting of the contract's own proxy is taken, and those that mean something to
// processes of the host do here what they do there.
func TestContractsSettingsFileWhole(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile("testdata/contract-config.toml")
	if err != nil {
		t.Fatal(err)
	}
	load := func(change ...string) (proxy.Config, error) {
		path := write(t, "config.toml", strings.NewReplacer(change...).Replace(string(whole)))
		set := &settings{}
		if err := set.load(path); err != nil {
			return proxy.Config{}, err
		}
		flags, err := parse(t, env(), "proxy", "--config", path, "--insecure")
		if err != nil {
			return proxy.Config{}, err
		}
		return flags.Proxy.config(set)
	}
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.ID != host || cfg.MaxConcurrent != 5 || cfg.Inventory != 300*time.Second || cfg.Heartbeat != 30*time.Second || cfg.DownloadMost != 209715200 ||
		!slices.Equal(cfg.EnvAllowed, []string{"USER_HOME", "HOME", "TUIXIU_PROJECT_ID"}) || cfg.Workspaces != "/srv/workspaces" || cfg.Token == nil || cfg.Register == nil {
		t.Errorf("%+v", cfg)
	}
	for _, c := range []struct {
		from, to string
		want     func(proxy.Config) bool
	}{
		{"inventory_interval_seconds = 300\n", "inventory_interval_seconds = 0\n", func(c proxy.Config) bool { return c.Inventory < 0 }},
		{"inventory_interval_seconds = 300\n", "", func(c proxy.Config) bool { return c.Inventory == 0 }},
		{"skills_mounting_enabled = false", "skills_mounting_enabled = true", func(proxy.Config) bool { return true }},
		{"skills_mounting_enabled = false", `skills_mounting_enabled = "1"`, func(proxy.Config) bool { return true }},
		{"mock_mode = false", "mock_mode = 0", func(proxy.Config) bool { return true }},
		{"skills_download_max_bytes = 209715200", "skills_download_max_bytes = 0", func(c proxy.Config) bool { return c.DownloadMost == 0 }},
		{`agent_env_allowlist = ["USER_HOME", "HOME", "TUIXIU_PROJECT_ID"]`, "agent_env_allowlist = []", func(c proxy.Config) bool { return c.EnvAllowed != nil && len(c.EnvAllowed) == 0 }},
	} {
		if cfg, err := load(c.from, c.to); err != nil || !c.want(cfg) {
			t.Errorf("%s: %v %+v", c.to, err, cfg)
		}
	}
	for from, to := range map[string]string{
		"inventory_interval_seconds = 300":      `inventory_interval_seconds = "hunter2"`,
		"inventory_interval_seconds =":          "inventory_interval_seconds = -1 #",
		"skills_mounting_enabled = false":       `skills_mounting_enabled = "hunter2"`,
		"skills_download_max_bytes = 209715200": "skills_download_max_bytes = 1.5",
		`agent_env_allowlist = ["USER_HOME",`:   `agent_env_allowlist = [1, "hunter2",`,
		"skills_mounting_enabled = false\n":     "skills_mounting_enbled = false\n",
		"mock_mode = false":                     "mock_mode = 1",
		`provider = "host_process"`:             `provider = "container_oci"`,
	} {
		if _, err := load(from, to); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestRegisterURLFollowsTheGateway: a proxy that has a token, and no register_url, renews it where the contract has the
// route.
func TestRegisterURLFollowsTheGateway(t *testing.T) {
	t.Parallel()
	for gateway, want := range map[string]string{
		"ws://h:1/ws/agent": "http://h:1/api/admin/acp-proxy/register", "wss://h/a/ws/agent": "https://h/a/api/admin/acp-proxy/register",
		"ws://h/": "", "ws://h/ws/agent/x": "", ":": "",
	} {
		if got := registerAt(gateway); got != want {
			t.Errorf("%s: %q, want %q", gateway, got, want)
		}
	}
}

// TestProxySettingsTellNoSecret: an error about a file does not quote what is in it.
func TestProxySettingsTellNoSecret(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		"hunter2", "- hunter2", "auth_token: [hunter2]\nurl: ws://h/\n", "auth_token: {a: hunter2}\nurl: ws://h/\n", "auth_token: ''\nurl: ws://h/\n",
		"auth_tokn: hunter2\n", "auth_token: *hunter2\n", "auth_token: \"hunter2\n", "auth_token: !!int hunter2\n", "url: [a\nauth_token: hunter2: x\n", "url: http://h/\nauth_token: hunter2\nagent_command: [[hunter2]]\n",
	} {
		path := write(t, "proxy.yaml", file)
		if _, err := program(t, env(), "proxy", "--config", path, "--", "true"); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", file, err)
		}
	}
	for _, flag := range []string{"--auth-token=x", "--bootstrap-token=x"} {
		if _, err := program(t, env(), "proxy", "--url", "ws://h/", flag, "--", "true"); err == nil {
			t.Errorf("%s on the command line", flag)
		}
	}
}

// TestProxyUsesTheFile: the program connects with the file's token, which only its owner may read, and, when it is refused with 1008, registers with the file's bootstrap token.
func TestProxyUsesTheFile(t *testing.T) {
	t.Parallel()
	tokens := make(chan string, 8)
	up := websocket.Upgrader{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Acp-Proxy-Bootstrap") == "boot-hunter2" {
			_, _ = w.Write([]byte(`{"success":true,"data":{"token":"fresh-hunter2"}}`))
		}
	})
	mux.HandleFunc("/ws/agent", func(w http.ResponseWriter, r *http.Request) {
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		tokens <- strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		_ = conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "Unauthorized"))
		for err == nil { // until the proxy has received it
			_, _, err = conn.ReadMessage()
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	path := write(t, "proxy.yaml", "url: ws"+strings.TrimPrefix(srv.URL, "http")+"/ws/agent\nid: p\nagent_command: ['true']\nauth_token: old-hunter2\n"+
		"register_url: "+srv.URL+"/register\nbootstrap_token: boot-hunter2\n")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var out, log bytes.Buffer
	if err := run(ctx, []string{"proxy", "--config", path}, env(), output{&out, &log}); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
		t.Errorf("a secret that others may read: %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"proxy", "--config", path}, env(), output{&out, &log}) }()
	for _, want := range []string{"old-hunter2", "fresh-hunter2", "fresh-hunter2"} {
		select {
		case got := <-tokens:
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("no link")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String()+out.String(), "hunter2") {
		t.Errorf("%s%s", out.String(), log.String())
	}
}
