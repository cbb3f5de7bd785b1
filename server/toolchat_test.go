package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/tools"
	"aqueduct/server/auth"
	"aqueduct/store"
	"aqueduct/store/broker/local"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// shownCalls is what frames say of tool calls and words, in short and in order: "+cut a1", "args", "end", "= result".
func shownCalls(frames []frame) []string {
	names := make(map[string]string)
	var said []string
	for _, f := range frames {
		id := f.field("toolCallId")
		switch f.typ() {
		case "TOOL_CALL_START":
			names[id] = f.field("toolCallName")
			said = append(said, "+"+names[id])
		case "TOOL_CALL_ARGS":
			said = append(said, f.field("delta"))
		case "TOOL_CALL_RESULT":
			said = append(said, names[id]+" = "+f.field("content"))
		case "TEXT_MESSAGE_CONTENT":
			said = append(said, "«"+f.field("delta")+"»")
		case "CUSTOM":
			said = append(said, f.field("name"))
		}
	}
	return said
}

func writing(id, words string) []bridge.Output {
	return []bridge.Output{
		event(&agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant}), event(&agui.TextMessageContent{MessageID: id, Delta: words}),
	}
}

// TestToolInChat: every call that we run for an agent is in its chat, among the agent's own words, with what became of it;
// live, when it is read again, and in the history; and it cost no commit.
func TestToolInChat(t *testing.T) {
	t.Parallel()
	written := make(chan struct{}, 2) // texts of the agent that the client has: a call comes by another connection
	w := &toolEnv{said: make(chan string, 1)}
	w.env = newEnvWith(t, func(_ context.Context, say func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
		say(writing("m", "before ")...)
		<-written
		before := w.commits()
		w.invoke(c, "cut", `{"wood":"oak"}`)
		commits := w.commits() - before
		say(event(&agui.TextMessageContent{MessageID: "m", Delta: "after"}))
		<-written
		w.invoke(c, "cut", `{"wood":"knot"}`)
		w.invoke(c, "burn", `{}`)
		w.said <- fmt.Sprint(commits)
	}, plan{})
	tool := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "knot") {
			http.Error(rw, "no", http.StatusTeapot)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"cut":1}`)
	}))
	t.Cleanup(tool.Close)
	w.register(fmt.Sprintf(`{"name":"cut","kind":"server_tool","endpoint":%q,"policy":{"risk":"low"}}`, tool.URL))
	w.register(fmt.Sprintf(`{"name":"burn","kind":"server_tool","endpoint":%q,"policy":{"risk":"low","verdict":"block"}}`, tool.URL))
	in := w.open(w.request("POST", "/api/agui/chat", inputBody("T", "R", "go")))
	var all []frame
	for range 2 {
		some, err := in.until(func(f frame) bool { return f.typ() == "TEXT_MESSAGE_CONTENT" })
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
		written <- struct{}{}
	}
	all = append(all, in.rest()...)
	got := strings.Join(shownCalls(all), " | ")
	want := `«before » | +cut | {"wood":"oak"} | cut = {"cut":1} | «after» | +cut | {"wood":"knot"} | ` +
		`cut = {"status":"failed","error":{"code":"tool_status","message":"The tool answered HTTP 418."}} | +burn | {} | ` +
		`burn = {"status":"refused","error":{"code":"blocked","message":`
	if !strings.HasPrefix(got, want) {
		t.Errorf("\n%s\n%s", got, want)
	}
	if commits := <-w.said; commits != "2" {
		t.Errorf("an allowed call made %s commits", commits)
	}
	again := w.chat("T", "R", "go")
	if got := strings.Join(shownCalls(again), " | "); !strings.HasPrefix(got, want) {
		t.Errorf("read again: %s", got)
	}
	if history := w.do("GET", "/api/threads/T/messages", "").body; strings.Count(history, `"role":"tool"`) != 3 || strings.Count(history, `\"cut\":1`) != 1 {
		t.Errorf("the history: %s", history)
	}
	turn := lastTurn(t, w)
	calls, err := w.store.ToolCallsOfTurn(t.Context(), store.System(), turn.ID)
	for _, call := range calls {
		if !call.InTranscript || call.RunID == "" {
			t.Errorf("%+v", call)
		}
	}
	if err != nil || len(calls) != 3 {
		t.Errorf("%d calls: %v", len(calls), err)
	}
}

// TestToolBeforeNextWords: a call is in the chat before what its agent sends when it learns of the call's end; also where the
// policy blocks the call, or a person decides before the chat has shown the question; whether the agent waits or reads.
func TestToolBeforeNextWords(t *testing.T) {
	t.Parallel()
	const calls = 30
	for name, decide := range map[string]string{"burn": "", "pay": `{"approved":true}`, "sell": `{"approved":false}`, "read": `{"approved":false}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &toolEnv{}
			w.env = newEnvWith(t, func(_ context.Context, say func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
				say(writing("m", "0")...)
				for n := range calls {
					got := w.invoke(c, name, fmt.Sprintf(`{"n":%d}`, n))
					if decide != "" {
						w.do("POST", fmt.Sprintf("/api/approvals/%v/decision", got["tool_call_id"]), decide)
						for path := fmt.Sprintf("/v1/tool_calls/%v", got["tool_call_id"]); name == "read" && got["status"] == "pending"; {
							got = fields(t, w.do("GET", path, "", bearerOf(c.RunToken)...))
						}
						w.settled(c, got)
					}
					say(event(&agui.TextMessageContent{MessageID: "m", Delta: fmt.Sprint(n + 1)}))
				}
			}, plan{})
			tool := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, `{}`) }))
			t.Cleanup(tool.Close)
			for name, verdict := range map[string]string{"burn": "block", "pay": "require_approval", "sell": "require_approval", "read": "require_approval"} {
				w.register(fmt.Sprintf(`{"name":%q,"kind":"server_tool","endpoint":%q,"policy":{"risk":"low","verdict":%q}}`, name, tool.URL, verdict))
			}
			w.chat("T", "R", "go") // under load its Run ends with a question before that is decided: the thread has the rest
			all, err := w.open(w.request("GET", "/api/threads/T/events?after=0", "")).until(func(f frame) bool { return f.field("delta") == fmt.Sprint(calls) })
			if err != nil {
				t.Fatal(err)
			}
			said, results := shownCalls(all), 0
			for _, line := range said {
				var word int
				if _, err := fmt.Sscanf(line, "«%d»", &word); err == nil && results < word {
					t.Fatalf("%s behind %d results: %q", line, results, said)
				}
				if strings.Contains(line, " = ") {
					results++
				}
			}
			if results != calls {
				t.Errorf("%d results: %q", results, said)
			}
		})
	}
}

// commits is how many commits the log has made.
func (w *toolEnv) commits() int {
	var n int
	for line := range strings.Lines(w.do("GET", "/metrics", "").body) {
		if _, err := fmt.Sscanf(line, "aqueduct_commit_seconds_count %d", &n); err == nil {
			break
		}
	}
	return n
}

func lastTurn(t *testing.T, w *toolEnv) store.Turn {
	t.Helper()
	session, err := w.store.SessionByExternalID(t.Context(), store.System(), "T")
	if err != nil {
		t.Fatal(err)
	}
	run, err := w.store.LastRun(t.Context(), store.System(), session.ID)
	if err != nil {
		t.Fatal(err)
	}
	turn, err := w.store.Turn(t.Context(), store.System(), run.TurnID)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// TestToolApprovedInChat: after an approval the result under the call's id is the tool's own; the approval itself is sent
// at once. A TDesign page gets the same, with the name on the result.
func TestToolApprovedInChat(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"agui-1.0", "agui-0.x", "tdesign"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			// That the approval is sent before the result depends on a ring.
			w := newToolEnvWith(t, plan{broker: local.New()}, highRisk, func(w *toolEnv, c bridge.Call) string {
				return brief(w.settled(c, w.invoke(c, "cut", `{"wood":"oak"}`)))
			})
			first := w.open(w.request("POST", "/api/agui/chat?follow=1&dialect="+dialect, inputBody("T", "R", "go")))
			shown, err := first.until(func(f frame) bool { return f.typ() == "RUN_FINISHED" })
			if err != nil {
				t.Fatal(err)
			}
			id := w.question()
			if got := w.decide(id, `{"decision":"approve"}`); got.status != http.StatusOK {
				t.Fatal(got.status, got.body)
			}
			shown = append(shown, first.rest()...)
			said := strings.Join(shownCalls(shown), " | ")
			if !strings.Contains(said, `question_settled | request_permission = {"cut":{"wood":"oak"}}`) || strings.Count(said, " = ") != 1 {
				t.Errorf("%s", said)
			}
			i := slices.IndexFunc(shown, func(f frame) bool { return f.typ() == "TOOL_CALL_RESULT" })
			if i < 0 || shown[i].field("toolCallId") != id || dialect == "tdesign" && shown[i].field("toolCallName") != "request_permission" {
				t.Errorf("%v", shown)
			}
		})
	}
}

// staleLook is a store that holds back one look at a Turn's calls, which then shows what was there before.
type staleLook struct {
	store.Store
	armed atomic.Bool
	looks chan struct{} // closed when the look has been taken
	goOn  chan struct{} // closed by the test
}

func (s *staleLook) ToolCallsOfTurn(ctx context.Context, in store.Scope, turnID string) ([]store.ToolCall, error) {
	calls, err := s.Store.ToolCallsOfTurn(ctx, in, turnID)
	if s.armed.CompareAndSwap(true, false) {
		close(s.looks)
		<-s.goOn
	}
	return calls, err
}

// quietBroker is a broker that can be made to lose every ring.
type quietBroker struct {
	store.Broker
	quiet atomic.Bool
}

func (b *quietBroker) Ring(ctx context.Context, ids ...string) {
	if !b.quiet.Load() {
		b.Broker.Ring(ctx, ids...)
	}
}

// TestToolResultBeforeItsWords: the result of a call stands before the words that the agent makes of it, also where they
// come to the Session before it knows of the result: its goroutine was busy, and the ring is lost.
func TestToolResultBeforeItsWords(t *testing.T) {
	t.Parallel()
	look, broker := &staleLook{looks: make(chan struct{}), goOn: make(chan struct{})}, &quietBroker{Broker: local.New()}
	open := func(t testing.TB) (_ store.Store, err error) {
		look.Store, err = sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{Sent: sentSQLite.Note})
		return look, err
	}
	w := newToolEnvWith(t, plan{broker: broker, open: open}, highRisk, func(w *toolEnv, c bridge.Call) string { return "" })
	running, finish := make(chan struct{}), make(chan struct{})
	tool := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		close(running)
		<-finish
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"sawn":1}`)
	}))
	t.Cleanup(tool.Close)
	if got := w.do("POST", "/v1/tools", fmt.Sprintf(`{"name":"saw","kind":"server_tool","endpoint":%q,"policy":%s,"schema":{}}`, tool.URL, highRisk)); got.status != http.StatusOK {
		t.Fatal(got.status, got.body)
	}
	spoken := make(chan struct{})
	w.agent.script = func(_ context.Context, say func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
		words := brief(w.settled(c, w.invoke(c, "saw", `{}`)))
		say(append(writing("m", words), event(&agui.TextMessageEnd{MessageID: "m"}))...)
		close(spoken)
	}
	first := w.open(w.request("POST", "/api/agui/chat?follow=1", inputBody("T", "R", "go")))
	shown, err := first.until(func(f frame) bool { return f.typ() == "RUN_FINISHED" })
	if err != nil {
		t.Fatal(err)
	}
	if got := w.decide(w.question(), `{"decision":"approve"}`); got.status != http.StatusOK {
		t.Fatal(got.status, got.body)
	}
	further, err := first.until(func(f frame) bool { return f.typ() == "CUSTOM" && f.field("name") == "question_settled" })
	if err != nil {
		t.Fatal(err)
	}
	<-running
	broker.quiet.Store(true)
	look.armed.Store(true)
	broker.Broker.Ring(t.Context(), lastTurn(t, w).SessionID)
	<-look.looks
	close(finish)
	<-spoken
	close(look.goOn)
	all := strings.Join(shownCalls(slices.Concat(shown, further, first.rest())), " | ")
	if !strings.HasSuffix(all, `question_settled | request_permission = {"sawn":1} | «succeeded {"sawn":1}»`) {
		t.Error(all)
	}
}

// TestToolShownOnce: an agent that shows a call by its own frames too, under the id that it gives us with the call, in
// whatever order, has one call in the chat; and the id is the one that it is answered with.
func TestToolShownOnce(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string { return "" })
	var ids []string
	w.agent.script = func(_ context.Context, say func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
		shows := func(mine string) []bridge.Output {
			id := tools.CallID(c.TurnID, mine)
			return []bridge.Output{event(&agui.ToolCallStart{ToolCallID: id, ToolCallName: "cut"}), event(&agui.ToolCallArgs{ToolCallID: id, Delta: `{"mine":1}`}),
				event(&agui.ToolCallEnd{ToolCallID: id})}
		}
		result := func(mine string) bridge.Output {
			return event(&agui.ToolCallResult{MessageID: "r" + mine, ToolCallID: tools.CallID(c.TurnID, mine), Role: "tool", Content: agui.Text("mine")})
		}
		call := func(body string) {
			got := w.agentCall(c.RunToken, "/v1/tools/cut:invoke", fmt.Sprintf(`{"run_id":%q,"args":{"wood":"oak"},%s}`, c.TurnID, body))
			ids = append(ids, fmt.Sprint(got["tool_call_id"]))
		}
		say(shows("a")...)
		say() // taken: it repeats the earlier answer
		call(`"call_id":"a"`)
		say(result("a"))
		call(`"call_id":"b"`)
		say(append(shows("b"), result("b"))...)
		call(`"idempotency_key":"c"`)
		call(`"idempotency_key":"c"`)
		say(append(shows("c"), result("c"))...)
		say(append(shows("d"), result("d"))...) // its own
	}
	all := w.chat("T", "R", "go")
	want := `+cut | {"mine":1} | cut = {"cut":{"wood":"oak"}} | +cut | {"wood":"oak"} | cut = {"cut":{"wood":"oak"}} | ` +
		`+cut | {"wood":"oak"} | cut = {"cut":{"wood":"oak"}} | +cut | {"mine":1} | cut = mine`
	if got := strings.Join(shownCalls(all), " | "); got != want {
		t.Errorf("\n%s\n%s", got, want)
	}
	var shown []string
	for _, f := range all {
		if f.typ() == "TOOL_CALL_START" {
			shown = append(shown, f.field("toolCallId"))
		}
	}
	if ids = slices.Compact(ids); len(shown) < 3 || !slices.Equal(shown[:3], ids) {
		t.Errorf("shown %v, answered %v", shown, ids)
	}
}

// TestToolResultCut: a long result is whole for the agent, and cut in the chat, with a note.
func TestToolResultCut(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
		return brief(w.invoke(c, "cut", fmt.Sprintf(`{"wood":%q}`, strings.Repeat("o", 100_000))))
	})
	var result string
	for _, f := range w.chat("T", "R", "go") {
		if f.typ() == "TOOL_CALL_RESULT" {
			result = f.field("content")
		}
	}
	if !strings.HasPrefix(result, `{"cut":true,"bytes":100019,"shown":65536,"beginning":"{\"cut\":{\"wood\":\"ooo`) || len(result) > 70_000 {
		t.Errorf("%.200s (%d bytes)", result, len(result))
	}
	if said := <-w.said; len(said) < 100_000 {
		t.Errorf("the agent got %d bytes", len(said))
	}
}

// TestToolCallOfOwner: a call is read by the user of its thread; to others it is not there.
func TestToolCallOfOwner(t *testing.T) {
	t.Parallel()
	p, keys := keyed(t)
	bearer := func(user, tenant string, kind auth.Type) string {
		return "Bearer " + issue(t, keys, auth.Claims{Type: kind, Tenant: tenant, UserClaims: auth.UserClaims{User: user}}, time.Hour)
	}
	ids := make(chan string, 1)
	w := &toolEnv{}
	w.env = newEnvWith(t, func(_ context.Context, _ func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
		ids <- fmt.Sprint(w.invoke(c, "pick", `{}`)["tool_call_id"])
	}, p)
	ann := bearer("ann", "acme", auth.TypeUser)
	body := strings.Replace(inputBody("T", "R", "go"), `"tools":[]`, `"tools":[{"name":"pick","description":"","parameters":{"type":"object"}}]`, 1)
	w.open(w.request("POST", "/api/agui/chat", body, "Authorization", ann)).rest()
	path := "/v1/tool_calls/" + <-ids
	if got := w.do("GET", path, "", "Authorization", ann); got.status != http.StatusOK || !strings.Contains(got.body, `"tool_call_id":"`+path[len("/v1/tool_calls/"):]) {
		t.Errorf("its owner: HTTP %d %s", got.status, got.body)
	}
	for who, token := range map[string]string{
		"another": bearer("bob", "acme", auth.TypeUser), "of the same name": bearer("ann", "other", auth.TypeUser), "an approver": bearer("eve", "acme", auth.TypeApprover),
	} {
		none := w.do("GET", "/v1/tool_calls/"+uuid.NewString(), "", "Authorization", token)
		if got := w.do("GET", path, "", "Authorization", token); got.status != none.status || got.body != none.body || got.status == http.StatusOK {
			t.Errorf("%s: HTTP %d %s, and of none %d %s", who, got.status, got.body, none.status, none.body)
		}
	}
	if got := w.do("GET", path, ""); got.status != http.StatusUnauthorized {
		t.Errorf("nobody: HTTP %d %s", got.status, got.body)
	}
}
