package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/acpgateway/wire"
	"aqueduct/store"
)

// traced is an entry of a Session's trace.
type traced struct {
	EventID   string `json:"event_id"`
	RunID     string `json:"run_id"`
	SessionID string `json:"session_id"`
	TS        int64  `json:"ts"`
	Source    string
	Type      string
	Payload   json.RawMessage
}

type tracedPage struct {
	SessionID string `json:"session_id"`
	ThreadID  string `json:"thread_id"`
	Events    []traced
	Next      string
	Position  string
}

// tracePage reads one page.
func (h *env) tracePage(path string) (page tracedPage) {
	h.t.Helper()
	got := h.do("GET", path, "")
	if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != http.StatusOK {
		h.t.Fatalf("%s: %v %d %s", path, err, got.status, got.body)
	}
	return page
}

// traceAll reads all pages.
func (h *env) traceAll(path string, limit int) (all []traced, position string) {
	h.t.Helper()
	for next := ""; ; {
		page := h.tracePage(fmt.Sprintf("%slimit=%d&after=%s", path, limit, next))
		if len(page.Events) > limit {
			h.t.Fatalf("%d entries in a page of %d", len(page.Events), limit)
		}
		all = append(all, page.Events...)
		if next = page.Next; next == "" {
			return all, page.Position
		}
	}
}

// note keeps a Record of a Session that belongs to no Turn.
func (h *env) note(sessionID, kind string, at time.Time) {
	h.t.Helper()
	err := h.store.InTx(h.t.Context(), func(tx store.Tx) error {
		return tx.InsertRecord(h.t.Context(), store.Record{ID: uuid.Must(uuid.NewV7()).String(), SessionID: sessionID, Source: store.SourceProxy, Type: kind,
			TS: at, Payload: []byte(`{"code":1}`)})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func briefly(entries []traced) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.EventID+" "+e.Source+" "+e.Type)
	}
	return strings.Join(all, "\n")
}

// TestSessionEvents: everything on record of a Session comes once, in pages of any size, and
// live to who goes on from any of them.
func TestSessionEvents(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("T", "R", "may I?")
	session := h.sessionOf("T")
	h.decide(h.question(), `{"decision":"approve"}`)
	<-h.ended
	<-h.ended
	h.note(session, "sandbox.acp_exit", time.Now())
	path := "/v1/sessions/" + session + "/events?"
	whole, position := h.traceAll(path, 1000)
	seen, ids, last := make(map[string]int), make(map[string]bool), int64(0)
	for _, e := range whole {
		if ids[e.EventID] || e.SessionID != session || (e.RunID == "") != (e.Type == "sandbox.acp_exit") || len(e.Payload) == 0 || e.TS == 0 {
			t.Errorf("%+v", e)
		}
		ids[e.EventID] = true
		seen[e.Source+" "+e.Type]++
		if _, seq, ok := strings.Cut(e.EventID, session+":"); ok {
			if n, err := strconv.ParseInt(seq, 10, 64); err != nil || n != last+1 {
				t.Errorf("%s after %d", e.EventID, last)
			}
			last++
		}
	}
	for kind, n := range map[string]int{
		"platform user_input": 1, "platform run_started": 1, "platform agent_invoke_started": 2, "platform agent_invoke_done": 2, "platform run_done": 1,
		"agui RUN_STARTED": 2, "agui RUN_FINISHED": 2, "platform approval_created": 1, "platform approval_decision": 1, "acp sandbox.acp_exit": 1,
	} {
		if seen[kind] != n {
			t.Errorf("%s: %d times, want %d in\n%s", kind, seen[kind], n, briefly(whole))
		}
	}
	order := briefly(whole)
	for _, pair := range [][2]string{{"user_input", "run_started"}, {"run_started", "agent_invoke_started"}, {"agent_invoke_started", "RUN_STARTED"},
		{"approval_created", "approval_decision"}, {"RUN_FINISHED", "run_done"}, {"run_done", "sandbox.acp_exit"}} {
		if i, j := strings.Index(order, pair[0]), strings.LastIndex(order, pair[1]); i < 0 || j < i {
			t.Errorf("%s is not before %s:\n%s", pair[0], pair[1], order)
		}
	}
	for _, limit := range []int{1, 2, 3, 7} {
		for _, path := range []string{path, "/v1/runs/" + session + "/events?", "/v1/sessions/T/events?", "/api/runs/" + session + "/events?records=1&"} {
			if got, end := h.traceAll(path, limit); briefly(got) != briefly(whole) || end != position {
				t.Errorf("%s in pages of %d:\n%s\nwhole:\n%s", path, limit, briefly(got), briefly(whole))
			}
		}
	}

	// Live, from each place on.
	open := func(last string) *reader {
		req := h.request("GET", path, "")
		req.Header.Set("Accept", "text/event-stream")
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		return h.open(req)
	}
	places := []string{""}
	first := open("")
	for range whole {
		f, err := first.next()
		if err != nil || f.id == "" {
			t.Fatal(f, err)
		}
		places = append(places, f.id)
	}
	for i, place := range places {
		stream := open(place)
		for _, want := range whole[i:] {
			if f, err := stream.next(); err != nil || f.field("event_id") != want.EventID {
				t.Fatalf("from %q: %v %+v, want %s", place, err, f, want.EventID)
			}
		}
		stream.close()
	}
	h.note(session, "branch_created", time.Now().Add(-time.Hour)) // kept late: it comes behind what was read
	if f, err := first.next(); err != nil || f.field("type") != "branch_created" {
		t.Fatal(f, err)
	}
	h.chat("T", "R2", "again?")
	if _, err := first.until(func(f frame) bool { return f.field("type") == "agent_invoke_done" }); err != nil {
		t.Fatal(err)
	}
	if got := h.do("DELETE", "/api/threads/T", ""); got.status != http.StatusNoContent {
		t.Fatal(got.status, got.body)
	}
	if _, err := first.until(func(frame) bool { return false }); err != io.EOF {
		t.Error(err)
	}
}

// TestTraceFilters: type and source select, on every route that has entries, in pages and
// streams; what is not known as a source is refused.
func TestTraceFilters(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("T", "R", "may I?")
	session := h.sessionOf("T")
	turn := fields(t, h.do("GET", "/api/runs/R", ""))["turnId"].(string)
	h.decide(h.question(), `{"decision":"approve"}`)
	<-h.ended
	<-h.ended
	h.note(session, "sandbox.acp_exit", time.Now())
	kinds := func(path string, limit int) string {
		t.Helper()
		var all []string
		for next := ""; ; {
			got := h.do("GET", fmt.Sprintf("%s&limit=%d&after=%s", path, limit, next), "")
			var page struct {
				Events []struct {
					Type  string
					Event struct{ Type string }
				}
				Next json.RawMessage
			}
			if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != http.StatusOK {
				t.Fatalf("%s: %d %s", path, got.status, got.body)
			}
			for _, e := range page.Events {
				all = append(all, e.Type+e.Event.Type)
			}
			if next = strings.Trim(string(page.Next), `"`); next == "" {
				slices.Sort(all)
				return strings.Join(all, " ")
			}
		}
	}
	for path, want := range map[string]string{
		"/v1/sessions/T/events?type=RUN_STARTED":                                  "RUN_STARTED RUN_STARTED",
		"/v1/sessions/T/events?type=RUN_STARTED,run_done&type=run_started":        "RUN_STARTED RUN_STARTED run_done run_started",
		"/v1/sessions/T/events?source=proxy":                                      "sandbox.acp_exit",
		"/v1/sessions/T/events?source=acp":                                        "sandbox.acp_exit",
		"/v1/sessions/T/events?source=platform&type=run_done,RUN_STARTED":         "run_done",
		"/v1/runs/" + turn + "/events?type=approval_decision":                     "approval_decision",
		"/v1/runs/" + turn + "/events?source=agui&type=RUN_FINISHED,run_done":     "RUN_FINISHED RUN_FINISHED",
		"/v1/runs/" + turn + "/events?source=acp":                                 "",
		"/v1/runs/" + session + "/events?source=acp":                              "sandbox.acp_exit",
		"/api/runs/R/events?type=RUN_FINISHED":                                    "RUN_FINISHED",
		"/api/runs/R/events?type=none":                                            "",
		"/api/runs/R/events?records=1&type=user_input":                            "user_input",
		"/api/runs/R/events?source=platform&type=user_input,RUN_STARTED":          "user_input",
		"/api/runs/" + session + "/events?type=RUN_FINISHED":                      "RUN_FINISHED RUN_FINISHED",
		"/api/runs/" + session + "/events?source=proxy":                           "sandbox.acp_exit",
		"/api/runs/" + session + "/events?source=agui&type=RUN_FINISHED&records=": "RUN_FINISHED RUN_FINISHED",
	} {
		for _, limit := range []int{1, 100} {
			if got := kinds(path, limit); got != want {
				t.Errorf("%s in pages of %d: %q, want %q", path, limit, got, want)
			}
		}
	}
	for path, want := range map[string]string{
		"/v1/sessions/T/events?source=nobody":                     "invalid_query",
		"/v1/runs/" + turn + "/events?source=x":                   "invalid_query",
		"/api/runs/R/events?source=x":                             "invalid_query",
		"/v1/sessions/T/events?after=1":                           "invalid_cursor",
		"/v1/sessions/T/events?after=1~x":                         "invalid_cursor",
		"/v1/sessions/T/events?after=1~2~3~4":                     "invalid_cursor",
		"/v1/sessions/T/events?after=99999~0":                     "beyond_log",
		"/v1/sessions/unknown/events":                             "not_found",
		"/api/runs/01890000-0000-7000-8000-000000000000/events":   "not_found",
		"/v1/runs/01890000-0000-7000-8000-000000000000/events":    "not_found",
		"/v1/sessions/T/events?limit=-1":                          "invalid_query",
		"/api/runs/" + session + "/events?after=99999":            "beyond_log",
		"/v1/sessions/T/events?type=" + strings.Repeat("x,", 100): "invalid_query",
	} {
		if got := h.do("GET", path, ""); fields(t, got)["code"] != want {
			t.Errorf("%s: %d %s, want %s", path, got.status, got.body, want)
		}
	}
	stream := func(path string) *reader {
		req := h.request("GET", path, "")
		req.Header.Set("Accept", "text/event-stream")
		return h.open(req)
	}
	if got := types(stream("/api/runs/R/events?type=RUN_STARTED,RUN_FINISHED").rest()); got != "RUN_STARTED RUN_FINISHED" {
		t.Error(got)
	}
	for path, want := range map[string]string{
		"/api/runs/" + session + "/events?type=RUN_FINISHED": "RUN_FINISHED", "/v1/sessions/T/events?source=proxy": "sandbox.acp_exit",
		"/v1/runs/" + session + "/events?type=run_done": "run_done", "/api/runs/" + session + "/events?source=proxy": "sandbox.acp_exit",
	} {
		r := stream(path)
		if f, err := r.next(); err != nil || f.field("type") != want {
			t.Errorf("%s: %v %+v", path, err, f)
		}
		r.close()
	}
}

// TestSessionEventsAreTheOwners: no other user reads a Session's trace.
func TestSessionEventsAreTheOwners(t *testing.T) {
	t.Parallel()
	p, keys := keyed(t)
	o := &office{env: newEnvWith(t, asks, p), keys: keys}
	o.ask("alice")
	s, err := o.store.SessionByExternalID(t.Context(), store.Within("acme"), "thread-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/sessions/" + s.ID + "/events", "/v1/runs/" + s.ID + "/events", "/api/runs/" + s.ID + "/events"} {
		if got := o.do("GET", path, "", o.bearer("alice")...); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
		if got := o.do("GET", path, "", o.bearer("bob")...); got.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// TestBetweenPrompts: what a proxy sends while no prompt is under way can be read by the run_id
// that it knows, and the agent's stderr is one record and nothing in the chat.
func TestBetweenPrompts(t *testing.T) {
	t.Parallel()
	h, a := newACPEnv(t, "x")
	said := h.chat("T", "R", "hello")
	if last := said[len(said)-1]; last.typ() != "RUN_FINISHED" {
		t.Fatal(last)
	}
	session := fields(t, h.do("GET", "/api/threads/T", ""))["sessionId"].(string)
	if session != h.sessionOf("T") {
		t.Fatal(session)
	}
	text := func(words string) *wire.ProxyUpdate {
		content, _ := json.Marshal(map[string]string{"type": "text", "text": words})
		return &wire.ProxyUpdate{RunID: session, Content: content}
	}
	req := h.request("GET", "/v1/sessions/"+session+"/events?source=proxy&type=acp.update.received,branch_created,sandbox.acp_exit", "")
	req.Header.Set("Accept", "text/event-stream")
	live := h.open(req)
	for i := range 20 {
		a.send(text(fmt.Sprintf("[agent:stderr] line %d\n", i)))
	}
	a.send(&wire.BranchCreated{RunID: session, Branch: "feature"})
	code := 3
	a.send(&wire.Exit{RunID: session, Code: &code})
	var got []frame
	for len(got) == 0 || got[len(got)-1].field("type") != "sandbox.acp_exit" {
		f, err := live.next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f)
	}
	folded, lines := 0, 0
	for _, f := range got {
		if n := strings.Count(f.data, "line "); n > 0 {
			folded, lines = folded+1, lines+n
		}
	}
	if folded != 1 || lines != 20 {
		t.Errorf("%d lines in %d records: %v", lines, folded, got)
	}
	log := h.do("GET", "/api/runs/"+session+"/events?limit=1000", "").body
	if strings.Contains(log, "line 1") {
		t.Errorf("stderr is in the chat: %s", log)
	}
}
