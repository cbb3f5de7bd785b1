package server_test

import (
	"strings"
	"testing"
)

// TestDraining checks a server that drains. It refuses new work on every route, and serves work under way and requests that
// only read. It is done when the last Run has ended, and that Run's client has its end.
func TestDraining(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	h := newEnv(t, waits(gate))
	running := h.open(h.prompt("T", "R", "hi"))
	if _, err := running.until(func(f frame) bool { return f.typ() == "TEXT_MESSAGE_CONTENT" }); err != nil {
		t.Fatal(err)
	}
	h.server.Leave()
	left := make(chan int, 1)
	go func() { left <- h.bridge.Draining().Wait(t.Context()) }()
	for !h.bridge.Draining().Begun() {
	}

	for name, req := range map[string]struct{ path, body string }{
		"AG-UI 1.0":                {"/api/agui/chat", inputBody("new", "n1", "hi")},
		"AG-UI 0.x":                {"/api/agui/chat", `{"threadId":"new","runId":"n2","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[{"id":"u","role":"user","content":"hi"}]}`},
		"a task":                   {"/v1/runs", `{"request_id":"n3","message":{"content":"hi"}}`},
		"a prompt behind the Turn": {"/api/agui/chat?on_busy=queue", inputBody("T", "n4", "more")},
	} {
		if got := h.do("POST", req.path, req.body); got.status != 503 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, `"shutting_down"`) {
			t.Errorf("%s: HTTP %d %s", name, got.status, got.body)
		}
	}
	if got := h.do("POST", "/api/agui/chat", `{"prompt":"hi","threadId":"new"}`); got.status != 200 || !strings.Contains(got.body, "going away") || !strings.Contains(got.body, "RUN_ERROR") {
		t.Errorf("TDesign: HTTP %d %s", got.status, got.body)
	}
	if got := <-h.mcpCall("/mcp", "nothing", "{}"); !strings.Contains(got, "going away") {
		t.Errorf("a user's program: %s", got)
	}
	for path, want := range map[string]int{"/readyz": 503, "/healthz": 200, "/api/threads/T": 200, "/api/threads/new": 404, "/api/approvals": 200} {
		if got := h.do("GET", path, ""); got.status != want {
			t.Errorf("%s: HTTP %d %s", path, got.status, got.body)
		}
	}
	joined, again := h.open(h.request("POST", "/api/agui/connect", `{"threadId":"T","runId":"J","messages":[],"tools":[],"context":[],"state":{}}`)), h.open(h.prompt("T", "R", "hi"))
	select {
	case n := <-left:
		t.Errorf("it is done, with %d left, although a run is under way", n)
	default:
	}
	close(gate)
	for name, r := range map[string]*reader{"its client": running, "a join": joined, "the same request again": again} {
		if frames := r.rest(); len(frames) == 0 || frames[len(frames)-1].typ() != "RUN_FINISHED" {
			t.Errorf("%s has %v", name, frames)
		}
	}
	if n := <-left; n != 0 {
		t.Errorf("%d are left", n)
	}
}
