package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"aqueduct/bridge/httpagent"
)

// openCallAgents are two agents that end their first run with a call of a tool that no client declared, and say with the next
// what they were given: "peer" by AG-UI, "plain" by HTTP.
type openCallAgents struct {
	*env
	mu    sync.Mutex
	given map[string][]string // by agent and thread, what each further call ended with
}

func withOpenCalls(t *testing.T, db database) *openCallAgents {
	t.Helper()
	o := &openCallAgents{given: make(map[string][]string)}
	keep := func(agent, what string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.given[agent] = append(o.given[agent], what)
	}
	h, _ := withAGUIPeer(t, db.open, func(_ int, in aguiInput) string {
		last := in.Messages[len(in.Messages)-1]
		if last.Role != "tool" {
			return aguiBegin + `
{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","delta":"What do you like?"}
{"type":"TOOL_CALL_START","toolCallId":"tc_pref","toolCallName":"collect_preferences"}
{"type":"TOOL_CALL_ARGS","toolCallId":"tc_pref","delta":"{\"prompt\": \"hi\"}"}
{"type":"TOOL_CALL_END","toolCallId":"tc_pref"}` + aguiEnd
		}
		keep("peer", fmt.Sprintf("%s %v", last.ToolCallID, last.Content))
		return aguiBegin + `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","delta":"Noted."}` + aguiEnd
	})
	o.env = h
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			InputMessage aguiMessage `json:"input_message"`
			Messages     []aguiMessage
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		last := in.Messages[len(in.Messages)-1]
		if last.Role != "tool" {
			_, _ = io.WriteString(w, "event: tool_call\ndata: {\"id\":\"tc_pref\",\"name\":\"collect_preferences\",\"args\":{}}\n\nevent: done\ndata: {}\n\n")
			return
		}
		if in.InputMessage.Role != "tool" || in.InputMessage.ToolCallID != last.ToolCallID {
			t.Errorf("the agent's prompt is %+v", in.InputMessage)
		}
		keep("plain", fmt.Sprintf("tc_pref %v", last.Content))
		_, _ = io.WriteString(w, "event: delta\ndata: {\"text\":\"Noted.\"}\n\nevent: done\ndata: {}\n\n")
	}))
	t.Cleanup(plain.Close)
	cfg := atHome(t)
	cfg.ID, cfg.URL = "plain", plain.URL+"/agent"
	agent := httpagent.New(cfg)
	h.agents.Add("plain", agent)
	t.Cleanup(agent.Close)
	return o
}

func (o *openCallAgents) calls(agent string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.given[agent]...)
}

// TestOpenCallIsAnswered: the answer to a call that an agent's run has left without a result is the agent's tool message, though
// no client declared the tool, by whichever client it comes. Twice it is one, and another comes too late.
func TestOpenCallIsAnswered(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		o := withOpenCalls(t, db)
		tool := func(version string) func(thread, run, id, answer string) string {
			return func(thread, run, id, answer string) string {
				return fmt.Sprintf(`{"threadId":%q,"runId":%q%s,"state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[{"id":"t-%s","role":"tool","toolCallId":%q,"content":%q}]}`,
					thread, run, version, run, id, answer)
			}
		}
		clients := map[string]func(thread, run, id, answer string) string{
			"AG-UI 1.0": tool(`,"protocolVersion":"1.0"`),
			"AG-UI 0.x": tool(""),
			"TDesign": func(thread, _, id, answer string) string {
				return fmt.Sprintf(`{"threadId":%q,"prompt":"","toolCallMessage":{"toolCallId":%q,"toolCallName":"collect_preferences","result":%q}}`, thread, id, answer)
			},
			"TDesign without the id": func(thread, _, _, answer string) string {
				return fmt.Sprintf(`{"threadId":%q,"toolCallMessage":{"result":%q}}`, thread, answer)
			},
			"resume": func(thread, run, id, answer string) string {
				return fmt.Sprintf(`{"threadId":%q,"runId":%q,"protocolVersion":"1.0","messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":%s}]}`, thread, run, id, answer)
			},
			"forwardedProps": func(thread, run, id, answer string) string {
				return fmt.Sprintf(`{"threadId":%q,"runId":%q,"messages":[],"forwardedProps":{"toolCallMessage":{"toolCallId":%q,"result":%s}}}`, thread, run, id, answer)
			},
		}
		const answer, other = `{"choice":"comfort"}`, `{"choice":"luxury"}`
		for _, agent := range []string{"peer", "plain"} {
			n := 0
			for name, body := range clients {
				thread := fmt.Sprintf("T-%s-%d", agent, n)
				first := o.open(o.request("POST", "/api/agui/chat?agent="+agent, inputBody(thread, "R-"+thread, "hi"))).rest()
				id := typed(first, "TOOL_CALL_START").field("toolCallId")
				if end := typed(first, "RUN_FINISHED").data; strings.Contains(end, "pending") || strings.Contains(end, "interrupt") {
					t.Errorf("%s: the run ends with %s", agent, end)
				}
				second := o.open(o.request("POST", "/api/agui/chat", body(thread, "A-"+thread, id, answer))).rest()
				if got := types(second); !strings.Contains(got, "TEXT_MESSAGE_CONTENT") || strings.Contains(got, "RUN_ERROR") {
					t.Errorf("%s by %s: the answer's run is %s", agent, name, got)
				}
				n++
				want := strings.TrimSpace(strings.Repeat("tc_pref "+answer+"\n", n))
				if got := strings.Join(o.calls(agent), "\n"); got != want {
					t.Fatalf("%s by %s: the agent was given\n%s\nwant\n%s", agent, name, got, want)
				}
				again := types(o.open(o.request("POST", "/api/agui/chat", body(thread, "B-"+thread, id, answer))).rest())
				later := types(o.open(o.request("POST", "/api/agui/chat", body(thread, "C-"+thread, id, other))).rest())
				if len(o.calls(agent)) != n || strings.Contains(again+later, "RUN_ERROR") {
					t.Errorf("%s by %s: a second answer has an effect: %s; %s; %s", agent, name, again, later, o.calls(agent))
				}
				transcript := transcriptOf(t, o.env, thread)
				results := 0
				for _, m := range transcript {
					if m.Role == "tool" && m.ToolCallID == id && m.Content == answer {
						results++
					}
				}
				if results != 1 {
					t.Errorf("%s by %s: the history has %d results: %+v", agent, name, results, transcript)
				}
			}
		}
	})
}

// TestOpenCallIsAnsweredByREST: a page that keeps no chat posts the result, and gets what became of it in the shape of every
// result.
func TestOpenCallIsAnsweredByREST(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		o := withOpenCalls(t, db)
		id := typed(o.chat("T", "R", "hi"), "TOOL_CALL_START").field("toolCallId")
		path := "/api/tool_calls/" + id + "/result"
		first := o.do("POST", path, `{"ok":true,"result":{"choice":"comfort"}}`)
		if first.status != 200 || !strings.Contains(first.body, `"tool_name":"collect_preferences","status":"SUCCEEDED"`) || !strings.Contains(first.body, `"won":true`) {
			t.Fatalf("the result is answered with %d %s", first.status, first.body)
		}
		var made struct {
			RunID string `json:"run_id"`
		}
		if err := json.Unmarshal([]byte(first.body), &made); err != nil {
			t.Fatal(err)
		}
		if run := o.open(o.request("GET", "/api/runs/"+made.RunID+"/events", "", "Accept", "text/event-stream")).rest(); !strings.Contains(types(run), "TEXT_MESSAGE_CONTENT") {
			t.Errorf("the run %s is %s", made.RunID, types(run))
		}
		if again := o.do("POST", path, `{"result":{"choice":"comfort"}}`); again.status != 200 || !strings.Contains(again.body, `"won":false,"repeated":true`) {
			t.Errorf("repeated: %d %s", again.status, again.body)
		}
		if other := o.do("POST", path, `{"result":{"choice":"luxury"}}`); other.status != 409 || !strings.Contains(other.body, "already_decided") {
			t.Errorf("another result: %d %s", other.status, other.body)
		}
		if got := o.calls("peer"); len(got) != 1 || got[0] != `tc_pref {"choice":"comfort"}` {
			t.Errorf("the agent was given %v", got)
		}
		if gone := o.do("POST", "/api/tool_calls/nothing/result", `{"result":1}`); gone.status != 404 {
			t.Errorf("a call that is not there: %d %s", gone.status, gone.body)
		}
	})
}

// TestOpenCallsOfOneRun: of two open calls each gets its own answer, in one request or one after the other; and one beside an
// open question waits for that, and is given with its answer.
func TestOpenCallsOfOneRun(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		const twoCalls = `
{"type":"TOOL_CALL_CHUNK","toolCallId":"a","toolCallName":"pick","delta":"{}"}
{"type":"TOOL_CALL_CHUNK","toolCallId":"b","toolCallName":"pick","delta":"{}"}`
		h, peer := withAGUIPeer(t, db.open, func(_ int, in aguiInput) string {
			switch in.Messages[len(in.Messages)-1].Content {
			case "two":
				return aguiBegin + twoCalls + aguiEnd
			case "asks":
				return aguiBegin + twoCalls + `
{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"confirmation","message":"Sure?","responseSchema":{"type":"object","properties":{"approved":{"type":"boolean"}}}}]}}`
			}
			return aguiBegin + `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Noted."}` + aguiEnd
		})
		calls := func(run []frame) (ids []string) {
			for _, f := range run {
				if f.field("type") == "TOOL_CALL_START" && f.field("toolCallName") == "pick" {
					ids = append(ids, f.field("toolCallId"))
				}
			}
			return ids
		}
		results := func(call int) string {
			var list []string
			for _, m := range peer.call(call).Messages {
				if m.Role == "tool" {
					list = append(list, fmt.Sprint(m.ToolCallID, "=", m.Content))
				}
			}
			return strings.Join(list, " ")
		}
		message := func(id, answer string) string {
			return fmt.Sprintf(`{"id":"t-%s","role":"tool","toolCallId":%q,"content":%q}`, id, id, answer)
		}
		post := func(thread, run, more string) []frame {
			return h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":%q,"runId":%q,"protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},%s}`, thread, run, more))).rest()
		}

		ids := calls(h.chat("both", "R1", "two"))
		post("both", "R2", `"messages":[`+message(ids[0], "1")+`,`+message(ids[1], "2")+`]`)
		if got := results(2); got != "a=1 b=2" {
			t.Errorf("both at once: the agent is given %s", got)
		}
		ids = calls(h.chat("each", "R1", "two"))
		post("each", "R2", `"messages":[`+message(ids[1], "2")+`]`)
		post("each", "R3", `"messages":[`+message(ids[0], "1")+`]`)
		if got := results(5); got != "a=1 b=2" {
			t.Errorf("one after the other: the agent is given %s", got)
		}

		first := h.chat("asked", "R1", "asks")
		ids = calls(first)
		_, question, _ := strings.Cut(typed(first, "RUN_FINISHED").data, `"interrupts":[{"id":"`)
		question, _, _ = strings.Cut(question, `"`)
		alone := post("asked", "R2", `"messages":[`+message(ids[0], "1")+`]`)
		if end := typed(alone, "RUN_FINISHED").data; !strings.Contains(end, question) || len(peer.calls) != 6 {
			t.Errorf("beside an open question: %s, %d calls", end, len(peer.calls))
		}
		post("asked", "R3", `"messages":[`+message(ids[1], "2")+`],"resume":[{"interruptId":"`+question+`","status":"resolved","payload":{"approved":true}}]`)
		if got := results(7); got != "a=1 b=2" || len(peer.call(7).Resume) != 1 {
			t.Errorf("with the answer of the question: the agent is given %s and %+v", got, peer.call(7).Resume)
		}
	})
}

// TestOpenCallOfASharedThread: who may only read a thread answers nothing in it, and who may write answers as its owner does.
func TestOpenCallOfASharedThread(t *testing.T) {
	t.Parallel()
	h := newSharing(t)
	var mu sync.Mutex
	var given []string
	web := httptest.NewServer(&aguiPeer{t: t, script: func(_ int, in aguiInput) string {
		last := in.Messages[len(in.Messages)-1]
		if last.Role == "tool" {
			mu.Lock()
			defer mu.Unlock()
			given = append(given, fmt.Sprint(last.Content))
		}
		return aguiBegin + `{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"pick","delta":"{}"}` + aguiEnd
	}})
	t.Cleanup(web.Close)
	cfg := atHome(t)
	cfg.ID, cfg.URL, cfg.Protocol = "peer", web.URL+"/agent", httpagent.ProtocolAGUI
	agent := httpagent.New(cfg)
	h.agents.Add("peer", agent)
	t.Cleanup(agent.Close)

	run := h.by("ann", "POST", "/api/agui/chat?agent=peer", inputBody("open", "R1", "hi"))
	id := typed(stream(t, run.body), "TOOL_CALL_START").field("toolCallId")
	var thread struct{ SessionID string }
	if err := json.Unmarshal([]byte(h.by("ann", "GET", "/api/threads/open", "").body), &thread); err != nil {
		t.Fatal(err)
	}
	for who, rights := range map[string]string{"bob": `["read"]`, "dan": `["write"]`} {
		if made := h.by("ann", "POST", "/api/threads/open/shares", `{"user":"`+who+`","rights":`+rights+`}`); made.status != 201 {
			t.Fatal(made)
		}
	}
	for _, who := range []string{"bob", "eve", "dan"} {
		body := fmt.Sprintf(`{"threadId":%q,"runId":"A-%s","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[{"id":"t-%s","role":"tool","toolCallId":%q,"content":%q}]}`, thread.SessionID, who, who, id, who)
		got := h.by(who, "POST", "/api/agui/chat", body)
		if who == "bob" && !strings.Contains(got.body, "not_approver") {
			t.Errorf("bob, who may read, gets %d %s", got.status, got.body)
		}
		if byREST := h.by(who, "POST", "/api/tool_calls/"+id+"/result", `{"result":"x"}`); who != "dan" && byREST.status != 404 {
			t.Errorf("%s by REST: %d %s", who, byREST.status, byREST.body)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(given) != 1 || given[0] != "dan" {
		t.Errorf("the agent was given %v", given)
	}
}

// TestOpenCallIsOver: the next message of the user takes the place of the answer, which comes too late then.
func TestOpenCallIsOver(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		o := withOpenCalls(t, db)
		id := typed(o.chat("T", "R1", "hi"), "TOOL_CALL_START").field("toolCallId")
		o.chat("T", "R2", "never mind")
		late := o.chatAnswer("T", "R3", id, "late")
		if !strings.Contains(typed(late, "CUSTOM").data, "question_unknown") || len(o.calls("peer")) != 0 {
			t.Errorf("a late answer: %s; the agent was given %v", types(late), o.calls("peer"))
		}
	})
}

// TestOpenCallIsAnsweredMeanwhile: a second answer, while the agent works with the first, is one too many, and not one to a call
// that does not exist.
func TestOpenCallIsAnsweredMeanwhile(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		working, release := make(chan struct{}), make(chan struct{})
		h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
			if call == 1 {
				return aguiBegin + toolCalled("c1", "", "collect", "{}") + aguiEnd
			}
			close(working)
			<-release
			return aguiBegin + wrote("m2", "Noted.") + aguiEnd
		})
		id := typed(h.chat("T", "R1", "hi"), "TOOL_CALL_START").field("toolCallId")
		answer := fmt.Sprintf(`{"threadId":"T","toolCallMessage":{"toolCallId":%q,"result":"{\"a\":1}"}}`, id)
		first := h.open(h.request("POST", "/api/agui/chat", answer))
		<-working
		again := h.open(h.request("POST", "/api/agui/chat", answer))
		rest := h.do("POST", "/api/tool_calls/"+id+"/result", `{"result":"{\"a\":1}"}`)
		close(release)
		first.rest()
		if got := joined(again.rest()); strings.Contains(got, "no such question") || !strings.Contains(got, "answered already") {
			t.Errorf("the second answer gets %s", got)
		}
		if rest.status != 200 || !strings.Contains(rest.body, "repeated") || peer.times() != 2 {
			t.Errorf("by REST it gets %d %s; the agent was called %d times", rest.status, rest.body, peer.times())
		}
	})
}

// TestTDesignDeclaresTools: tools in the body of a page are given to the agent, and a call of one waits for the page.
func TestTDesignDeclaresTools(t *testing.T) {
	t.Parallel()
	h, peer := withAGUIPeer(t, nil, func(call int, _ aguiInput) string {
		if call > 1 {
			return aguiBegin + `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","delta":"Noted."}` + aguiEnd
		}
		return aguiBegin + `{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"show_map","delta":"{}"}` + aguiEnd
	})
	first := h.open(h.request("POST", "/api/agui/chat", `{"threadId":"T","prompt":"hi","tools":[{"name":"show_map","description":"","parameters":{"type":"object"}}]}`)).rest()
	if tools := peer.call(1).Tools; len(tools) != 1 || tools[0].Name != "show_map" {
		t.Errorf("the agent is given the tools %+v", tools)
	}
	if open := h.do("GET", "/api/threads/T", "").body; !strings.Contains(open, `"status":"INTERRUPTED"`) || strings.Contains(open, `"questions":[]`) {
		t.Errorf("the call does not wait: %s", open)
	}
	id := typed(first, "TOOL_CALL_START").field("toolCallId")
	second := h.open(h.request("POST", "/api/agui/chat", `{"threadId":"T","toolCallMessage":{"toolCallId":"`+id+`","result":"{\"shown\":true}"}}`)).rest()
	messages := peer.call(2).Messages
	if last := messages[len(messages)-1]; last.Role != "tool" || last.ToolCallID != "c" || last.Content != `{"shown":true}` || !strings.Contains(types(second), "TEXT_MESSAGE_CONTENT") {
		t.Errorf("the agent is called with %+v; the run is %s", last, types(second))
	}
	if bad := h.open(h.request("POST", "/api/agui/chat", `{"threadId":"T","prompt":"hi","tools":[{"description":"x"}]}`)).rest(); !strings.Contains(typed(bad, "RUN_ERROR").data, "/tools/0/name") {
		t.Errorf("a tool without a name: %v", bad)
	}
}
