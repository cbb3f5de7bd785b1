package agents_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// opencode is one installation of the agent: a home of its own that nothing else reads, and a
// folder to work in.
type opencode struct {
	program   string
	home      string
	workspace string
}

// newOpencode sets opencode up to ask the scripted model, and to ask a person before it
// writes or runs anything.
func newOpencode(t *testing.T, m *model) *opencode {
	t.Helper()
	o := &opencode{program: opencodeProgram(t), home: t.TempDir(), workspace: t.TempDir()}
	o.modelAt(t, m.url, "none")
	return o
}

// modelAt has it call its model at an address, with a key. Both may name variables of its environment, as {env:NAME}.
func (o *opencode) modelAt(t *testing.T, url, key string) {
	t.Helper()
	config, err := json.Marshal(opencodeConfig(url, key))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(o.home, ".config", "opencode")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "opencode.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
}

// opencodeProgram finds the program in its platform's npm package. The baseline build comes
// first: it runs on every processor of its kind.
func opencodeProgram(t *testing.T) string {
	t.Helper()
	system := runtime.GOOS + "-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	for _, kind := range []string{"-baseline", "", "-baseline-musl", "-musl"} {
		path, err := filepath.Abs(filepath.Join("node_modules", "opencode-"+system+kind, "bin", "opencode"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal(`opencode is missing; run "make setup-agents"`)
	return ""
}

func opencodeConfig(modelURL, key string) map[string]any {
	return map[string]any{
		"model":       "scripted/model",
		"small_model": "scripted/model",
		// Without this it offers the models of its makers beside ours.
		"enabled_providers": []string{"scripted"},
		"autoupdate":        false,
		"share":             "disabled",
		"snapshot":          false,
		"lsp":               false,
		"formatter":         false,
		"permission":        map[string]string{"edit": "ask", "bash": "ask"},
		"provider": map[string]any{"scripted": map[string]any{
			"npm":     "@ai-sdk/openai-compatible",
			"options": map[string]string{"baseURL": modelURL + "/v1", "apiKey": key},
			"models": map[string]any{"model": map[string]any{
				"name": "Scripted", "tool_call": true, "reasoning": true,
				"limit": map[string]int{"context": 100_000, "output": 10_000},
			}},
		}},
	}
}

func (o *opencode) command() []string { return []string{o.program, "acp"} }

// env keeps opencode in its home and off the network.
func (o *opencode) env() []string {
	return []string{
		"HOME=" + o.home, "OPENCODE_TEST_HOME=" + o.home, "XDG_CONFIG_HOME=" + o.home + "/.config", "XDG_DATA_HOME=" + o.home + "/.local/share",
		"XDG_STATE_HOME=" + o.home + "/.local/state", "XDG_CACHE_HOME=" + o.home + "/.cache", "TMPDIR=" + o.home,
		"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_SHARE=1", "OPENCODE_DISABLE_PROJECT_CONFIG=1",
	}
}

func (o *opencode) path(name string) string { return filepath.Join(o.workspace, name) }

// wrote checks a file the agent should have written.
func (o *opencode) wrote(t *testing.T, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(o.path(name)); err != nil || string(got) != want {
		t.Errorf("%s holds %q (%v), not %q", name, got, err, want)
	}
}

func (o *opencode) wroteNot(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(o.path(name)); !os.IsNotExist(err) {
		t.Errorf("%s exists (%v)", name, err)
	}
}
