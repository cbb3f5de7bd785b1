package server_test

import (
	"encoding/json"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"aqueduct/web"
)

// TestOpenAPIParity: the document lists exactly what is mounted, but for the page's files.
func TestOpenAPIParity(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{acp: true})
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(h.do("GET", "/openapi.json", "").body), &doc); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for path, methods := range doc.Paths {
		for method := range methods {
			listed = append(listed, strings.ToUpper(method)+" "+path)
		}
	}
	var mounted []string
	param := regexp.MustCompile(`:(\w+)`)
	for _, route := range h.server.Routes() {
		_, path, _ := strings.Cut(route, " /")
		if _, err := fs.Stat(web.FS(), path); err == nil && path != "" {
			continue
		}
		route = param.ReplaceAllString(route, "{$1}")
		if named := actions[route]; named != "" {
			route = named
		}
		mounted = append(mounted, route)
	}
	slices.Sort(listed)
	slices.Sort(mounted)
	if !slices.Equal(listed, mounted) {
		t.Errorf("listed:\n%s\nmounted:\n%s", strings.Join(listed, "\n"), strings.Join(mounted, "\n"))
	}
}

// actions are the contract's names of routes whose verb the handler itself splits off.
var actions = map[string]string{
	"POST /v1/tools/{call}": "POST /v1/tools/{name}:invoke", "POST /v1/tool_calls/{id}": "POST /v1/tool_calls/{id}:wait",
	"POST /v1/agents/{id}": "POST /v1/agents/{id}:invoke",
}

// TestOpenAPINames: every operation has a name of its own, by which generated clients call it.
func TestOpenAPINames(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal([]byte(h.do("GET", "/openapi.json", "").body), &doc); err != nil {
		t.Fatal(err)
	}
	form, seen := regexp.MustCompile(`^[a-z]+([A-Z][a-z]*)*$`), make(map[string]string)
	for path, methods := range doc.Paths {
		for method, o := range methods {
			here := method + " " + path
			if before := seen[o.OperationID]; before != "" || !form.MatchString(o.OperationID) {
				t.Errorf("%s is called %q, as is %q", here, o.OperationID, before)
			}
			seen[o.OperationID] = here
		}
	}
}

// TestOpenAPIFilters: the inbox's filters are listed, as is what a decision may say.
func TestOpenAPIFilters(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name string }
		}
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(h.do("GET", "/openapi.json", "").body), &doc); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, p := range doc.Paths["/api/approvals"]["get"].Parameters {
		listed = append(listed, p.Name)
	}
	slices.Sort(listed)
	if want := []string{"Last-Event-ID", "after", "delegated", "kind", "lastEventId", "limit", "run_id", "status", "thread_id", "tool"}; !slices.Equal(listed, want) {
		t.Errorf("%v, want %v", listed, want)
	}
	if doc.Components.Schemas["Decision"].Properties["edited_args"] == nil {
		t.Error("a decision cannot edit")
	}
}

// TestOpenAPIRefs: every reference leads somewhere.
func TestOpenAPIRefs(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	body := h.do("GET", "/openapi.json", "").body
	var doc struct {
		Components map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"#/components/(\w+)/(\w+)"`).FindAllStringSubmatch(body, -1) {
		if doc.Components[m[1]][m[2]] == nil {
			t.Errorf("%s leads nowhere", m[0])
		}
	}
}

// TestOpenAPIRest: what no other test causes of what is listed.
func TestOpenAPIRest(t *testing.T) {
	t.Parallel()
	w := newModelEnv(t, oneUpstream)
	if got := w.do("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Accept", "application/json, text/event-stream"); got.status != 202 {
		t.Errorf("a notification of MCP: %d %s", got.status, got.body)
	}
	resp, text := w.posted("/v1/agents/scripted:invoke", `{"run_id":"01900000-0000-7000-8000-000000000000","input_message":{"role":"user","content":"hi"}}`)
	if resp.StatusCode != 403 || !strings.Contains(text, `"foreign_run"`) {
		t.Errorf("a call in the name of another run: %d %s", resp.StatusCode, text)
	}
}

// TestPage: it loads without a token, under a policy that lets nothing else run.
func TestPage(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{auth: static(t)})
	got := h.do("GET", "/", "")
	if got.status != 200 || !strings.Contains(got.body, "<html") || !strings.Contains(got.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%d %v", got.status, got.header)
	}
	if script := h.do("GET", "/app.js", ""); script.status != 200 || !strings.Contains(script.header.Get("Content-Type"), "javascript") {
		t.Errorf("%d %v", script.status, script.header)
	}
}
