package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"aqueduct/store"
)

// TestThreads: list, page, one, rename, delete.
func TestThreads(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	for i := range 5 {
		h.chat(fmt.Sprintf("T%d", i), "R", fmt.Sprintf("prompt %d", i))
	}
	seen, next := []string{}, ""
	for range 4 {
		var page struct {
			Threads []struct{ ID, Title string }
			Next    string
		}
		if err := json.Unmarshal([]byte(h.do("GET", "/api/threads?limit=2&after="+next, "").body), &page); err != nil {
			t.Fatal(err)
		}
		for _, thread := range page.Threads {
			seen = append(seen, thread.ID+"="+thread.Title)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if got := strings.Join(seen, " "); got != "T4=prompt 4 T3=prompt 3 T2=prompt 2 T1=prompt 1 T0=prompt 0" {
		t.Errorf("%s", got)
	}
	if got := fields(t, h.do("PATCH", "/api/threads/T1", `{"title":"A <new> name"}`)); got["title"] != "A <new> name" {
		t.Errorf("%v", got)
	}
	one := fields(t, h.do("GET", "/api/threads/T1", ""))
	run, _ := one["lastRun"].(map[string]any)
	if one["title"] != "A <new> name" || one["id"] != "T1" || one["agentId"] != "scripted" || run["status"] != "FINISHED" || run["runId"] != "R" {
		t.Errorf("%v", one)
	}
	if got := h.do("DELETE", "/api/threads/T1", ""); got.status != 204 || got.body != "" {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, path := range []string{"", "/messages", "/events"} {
		isProblem(t, h.do("GET", "/api/threads/T1"+path, ""), 404)
	}
	isProblem(t, h.do("DELETE", "/api/threads/T1", ""), 404)
	if h.threads() != 4 {
		t.Errorf("%d threads left", h.threads())
	}
}

// TestConnectToNoThread is not an empty thread.
func TestConnectToNoThread(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	isProblem(t, h.do("POST", "/api/agui/connect", `{"threadId":"none","runId":"r","protocolVersion":"1.0","messages":[]}`), 404)
	isProblem(t, h.do("POST", "/api/agui/connect", `{"messages":[],"protocolVersion":"1.0"}`), 400)
	if h.threads() != 0 {
		t.Error("joining made a thread")
	}
}

// TestConnect gives history and state, and starts and settles nothing.
func TestConnect(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("T", "R", "may I?")
	id := h.question()
	body := fmt.Sprintf(`{"threadId":"T","runId":"J","protocolVersion":"1.0","messages":[{"id":"new","role":"user","content":"more"}],`+
		`"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":true}}]}`, id)
	got := h.open(h.request("POST", "/api/agui/connect", body)).rest()
	if types(got) != "RUN_STARTED MESSAGES_SNAPSHOT STATE_SNAPSHOT RUN_FINISHED" || !strings.Contains(got[3].data, id) || got[0].field("runId") != "J" {
		t.Errorf("%v", got)
	}
	for _, f := range got {
		if f.id != "" {
			t.Errorf("a frame that is not kept has an id: %v", f)
		}
	}
	if h.question() != id || strings.Contains(got[1].data, "more") {
		t.Error("joining changed something")
	}
}

// TestOpenQuestionsAreListed with their thread: a page that loads must find them.
func TestOpenQuestionsAreListed(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("T", "R", "may I?")
	one := fields(t, h.do("GET", "/api/threads/T", ""))
	if list, _ := one["questions"].([]any); len(list) != 1 || list[0] != h.question() {
		t.Errorf("%v", one)
	}
}

// TestHistory in both forms, and paged.
func TestHistory(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("T", "R", "may I?")
	id := h.question()
	h.decide(id, `{"decision":"approve"}`)
	if got := <-h.ended + " " + <-h.ended; !strings.Contains(got, "interrupt") {
		t.Logf("%s", got)
	}
	type message struct {
		ID, Role, Content, ToolCallID string
		ToolCalls                     []struct {
			ID       string
			Function struct{ Name, Arguments string }
		}
	}
	read := func(query string) (list []message, link string) {
		got := h.do("GET", "/api/threads/T/messages"+query, "")
		if err := json.Unmarshal([]byte(got.body), &list); err != nil {
			t.Fatalf("%v: %s", err, got.body)
		}
		return list, got.header.Get("Link")
	}
	for form, option := range map[string]string{"": pageOption(id, 0), "?format=agui": "yes"} {
		list, _ := read(form)
		var roles []string
		for _, m := range list {
			roles = append(roles, m.Role)
			if m.Role == "tool" && !json.Valid([]byte(m.Content)) {
				t.Errorf("%s: a card cannot parse %q", form, m.Content)
			}
			for _, call := range m.ToolCalls {
				if call.ID != id || call.Function.Name != "request_permission" || !strings.Contains(call.Function.Arguments, `"id":"`+option+`"`) {
					t.Errorf("%s: %v", form, call)
				}
			}
		}
		if got := strings.Join(roles, " "); got != "user assistant tool assistant" {
			t.Errorf("%s: %s", form, got)
		}
	}
	newest, link := read("?limit=1")
	if len(newest) != 1 || newest[0].Role != "assistant" || !strings.Contains(link, `rel="next"`) {
		t.Fatalf("%v %s", newest, link)
	}
	target, _, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
	var older []message
	if err := json.Unmarshal([]byte(h.do("GET", target, "").body), &older); err != nil || len(older) != 1 || older[0].Role != "tool" {
		t.Errorf("%v %v", older, err)
	}
}

// TestForeignIsAbsent: another user's things look like absent ones.
func TestForeignIsAbsent(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("mine", "R", "may I?")
	other := store.As(store.Principal{Tenant: "local", User: "somebody else"})
	if _, err := h.store.SessionByExternalID(t.Context(), other, "mine"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
	absent := h.do("GET", "/api/threads/none", "")
	if got := h.do("GET", "/api/runs/none", ""); got.body != absent.body {
		t.Errorf("answers differ: %s %s", got.body, absent.body)
	}
}

// TestRunPages gives the slice in pages, byte for byte.
func TestRunPages(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(20))
	h.chat("T", "R0", "before")
	sent := h.chat("T", "R1", "go")
	h.chat("T", "R2", "after")
	var got []frame
	for next := int64(0); ; {
		var page struct {
			Events []struct {
				Seq   int64
				Event json.RawMessage
			}
			Next int64
		}
		body := h.do("GET", fmt.Sprintf("/api/runs/R1/events?limit=7&after=%d", next), "").body
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			got = append(got, frame{id: fmt.Sprint(e.Seq), data: string(e.Event)})
		}
		if next = page.Next; next == 0 {
			break
		}
	}
	if chained([32]byte{}, got) != chained([32]byte{}, sent) {
		t.Errorf("%d in pages, %d sent", len(got), len(sent))
	}
}

// TestTrace: the platform contract's replay has a Turn's Runs and Records, each once, in
// time, also in pages.
func TestTrace(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("T", "R", "may I?")
	turn := fields(t, h.do("GET", "/api/runs/R", ""))["turnId"].(string)
	h.decide(h.question(), `{"decision":"approve"}`)
	<-h.ended
	<-h.ended
	type entry struct {
		EventID string `json:"event_id"`
		RunID   string `json:"run_id"`
		TS      int64  `json:"ts"`
		Type    string
		Payload json.RawMessage
	}
	read := func(path string, limit int) (all []entry) {
		for next := ""; ; {
			var page struct {
				RunID  string `json:"run_id"`
				Events []entry
				Next   string
			}
			body := h.do("GET", fmt.Sprintf("%slimit=%d&after=%s", path, limit, next), "").body
			if err := json.Unmarshal([]byte(body), &page); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			all = append(all, page.Events...)
			if next = page.Next; next == "" {
				return all
			}
		}
	}
	whole := read("/v1/runs/"+turn+"/events?", 1000)
	ids, seen := make(map[string]bool), make(map[string]int)
	for i, e := range whole {
		if ids[e.EventID] || e.RunID != turn || i > 0 && e.TS < whole[i-1].TS || len(e.Payload) == 0 {
			t.Errorf("%d: %v", i, e)
		}
		ids[e.EventID] = true
		seen[e.Type]++
	}
	for typ, n := range map[string]int{"user_input": 1, "RUN_STARTED": 2, "RUN_FINISHED": 2, "approval_decision": 1, "run_started": 1, "run_done": 1} {
		if seen[typ] != n {
			t.Errorf("%s: %d times, want %d", typ, seen[typ], n)
		}
	}
	for _, path := range []string{"/v1/runs/" + turn + "/events?", "/v1/runs/R/events?", "/api/runs/R/events?records=1&"} {
		if got := read(path, 3); fmt.Sprint(got) != fmt.Sprint(whole) {
			t.Errorf("%s in pages: %d entries, whole %d", path, len(got), len(whole))
		}
	}
}
