package server_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestS28IDsOfAnyText: ids are what clients make of them, and come back as they were, wherever they stand.
func TestS28IDsOfAnyText(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	for i, id := range []string{
		"alice@example.com", "旅行 🧳", "a b", "100%", "%41", `say "hi"`, `back\slash`, "a/b", "a?b#c&d=e;f+g", "<b>&amp;</b>", "..", "'; DROP TABLE runs; --",
		"👩\u200d💻", strings.Repeat("文", 128),
	} {
		name := fmt.Sprintf("%.40q", id)
		path := url.PathEscape(id)
		if id == ".." {
			path = "%2e%2e"
		}
		quoted, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"threadId":%s,"runId":%s,"protocolVersion":"1.0","messages":[{"id":%s,"role":"user","content":"hi %d"}]}`, quoted, quoted, quoted, i)
		r := h.open(h.request("POST", "/api/agui/chat", body))
		frames := r.rest()
		if len(frames) == 0 || frames[0].field("threadId") != id || frames[0].field("runId") != id || last(frames).typ() != "RUN_FINISHED" {
			t.Errorf("%s: %v", name, frames)
			continue
		}
		for _, header := range []string{"X-Thread-Id", "X-Run-Id"} {
			if got, err := url.PathUnescape(r.resp.Header.Get(header)); err != nil || got != id {
				t.Errorf("%s: %s: %q, %v", name, header, r.resp.Header.Get(header), err)
			}
		}
		if got := fields(t, h.do("GET", "/api/threads/"+path, "")); got["id"] != id {
			t.Errorf("%s: the thread is %v", name, got)
		}
		if got := fields(t, h.do("GET", "/api/runs/"+path+"/events", "")); got["run"].(map[string]any)["threadId"] != id {
			t.Errorf("%s: the run is %v", name, got["run"])
		}
		if got := h.do("GET", "/api/threads/"+path+"/messages?format=agui", "").body; !strings.Contains(got, `"role":"user"`) {
			t.Errorf("%s: history %s", name, got)
		}
		if got := h.do("GET", "/api/approvals?status=PENDING&thread_id="+url.QueryEscape(id), "").body; !strings.Contains(got, "request_permission") && !strings.Contains(got, "approval_id") {
			t.Errorf("%s: inbox %s", name, got)
		}
		// The same body again is the same Run; the thread in the header is a join.
		if again := h.open(h.request("POST", "/api/agui/chat", body)).rest(); len(again) != len(frames) || last(again).data != last(frames).data {
			t.Errorf("%s: again: %v", name, again)
		}
		joined := h.open(h.request("POST", "/api/agui/connect", `{"protocolVersion":"1.0","messages":[]}`, "X-Thread-Id", r.resp.Header.Get("X-Thread-Id"))).rest()
		if len(joined) == 0 || joined[0].field("threadId") != id {
			t.Errorf("%s: joined: %v", name, joined)
		}
		if got := h.do("DELETE", "/api/threads/"+path, ""); got.status != 204 {
			t.Errorf("%s: deleted: %d %s", name, got.status, got.body)
		}
	}
	for _, id := range []string{"", " a", "a ", "a\nb", "a\u0000", "a\u2028b", "a\u202eb", "\ufeff", strings.Repeat("文", 129), "@browser"} {
		quoted, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		if id != "" { // one that is left out is made here
			isProblem(t, h.do("POST", "/api/agui/chat", `{"threadId":`+string(quoted)+`,"messages":[{"id":"u","role":"user","content":"hi"}]}`), 400)
		}
		if id != "@browser" { // stands for a thread alone
			isProblem(t, h.do("POST", "/api/agui/chat", `{"messages":[{"id":`+string(quoted)+`,"role":"user","content":"hi"}]}`), 400)
		}
	}
}
