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
	"aqueduct/store"
)

// aguiPeer is an agent that speaks AG-UI: it answers each call with the events of a script, and keeps what it was sent.
type aguiPeer struct {
	t      *testing.T
	script func(call int, in aguiInput) string

	mu     sync.Mutex
	calls  []aguiInput
	tokens []string // the run token of each call
	bodies []string
}

// aguiInput is a RunAgentInput as a peer reads it.
type aguiInput struct {
	ThreadID, RunID, ProtocolVersion string
	Messages                         []aguiMessage
	State                            json.RawMessage
	Tools                            []struct{ Name string }
	Resume                           []struct {
		InterruptID, Status string
		Payload             json.RawMessage
	}
}

type aguiMessage struct {
	ID, Role, Name, ToolCallID, EncryptedValue, EncryptedValueType, Error string

	Content   any
	ToolCalls []struct {
		ID, EncryptedValue, EncryptedValueType string

		Function struct{ Name, Arguments string }
		Metadata map[string]any
	}
	Metadata map[string]any
}

// ServeHTTP implements http.Handler.
func (p *aguiPeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var in aguiInput
	if err := json.Unmarshal(body, &in); err != nil {
		p.t.Error(err)
	}
	p.mu.Lock()
	p.calls, p.tokens, p.bodies = append(p.calls, in), append(p.tokens, r.Header.Get("x-aqueduct-run-token")), append(p.bodies, string(body))
	n := len(p.calls)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	for line := range strings.Lines(p.script(n, in)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		line = strings.NewReplacer("$THREAD", in.ThreadID, "$RUN", in.RunID).Replace(line)
		_, _ = fmt.Fprintf(w, "data: %s\n\n", line)
	}
}

func (p *aguiPeer) call(n int) aguiInput {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) < n {
		p.t.Fatalf("the agent was called %d times, not %d", len(p.calls), n)
	}
	return p.calls[n-1]
}

// withAGUIPeer is a server with such an agent as its first.
func withAGUIPeer(t *testing.T, open func(testing.TB) (store.Store, error), script func(call int, in aguiInput) string) (*env, *aguiPeer) {
	t.Helper()
	return withAGUIPeerAs(t, open, func(*httpagent.Config) {}, script)
}

// withAGUIPeerAs is withAGUIPeer with settings of the agent.
func withAGUIPeerAs(t *testing.T, open func(testing.TB) (store.Store, error), set func(*httpagent.Config), script func(call int, in aguiInput) string) (*env, *aguiPeer) {
	t.Helper()
	peer := &aguiPeer{t: t, script: script}
	web := httptest.NewServer(peer)
	t.Cleanup(web.Close)
	h := newEnvWith(t, saysN(1), plan{open: open})
	cfg := atHome(t)
	cfg.ID, cfg.URL, cfg.Protocol = "peer", web.URL+"/agent", httpagent.ProtocolAGUI
	set(&cfg)
	agent := httpagent.New(cfg)
	h.agents.Add("peer", agent)
	h.agents.SetDefault("peer")
	t.Cleanup(agent.Close)
	return h, peer
}

const (
	aguiBegin = `{"type":"RUN_STARTED","threadId":"$THREAD","runId":"$RUN"}` + "\n"
	aguiEnd   = "\n" + `{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN"}` + "\n"
)

// TestAGUIAgent: what an agent sends in chunks, under ids that it uses in every run, is in the chat as legal AG-UI with ids of
// ours; and with the next prompt it gets its own ids back.
func TestAGUIAgent(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
			return aguiBegin + `
{"type":"REASONING_START","messageId":"m1"}
{"type":"REASONING_MESSAGE_START","messageId":"m1","role":"reasoning"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":"m1","delta":"hm"}
{"type":"REASONING_MESSAGE_END","messageId":"m1"}
{"type":"REASONING_END","messageId":"m1"}
{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"m1","encryptedValue":"sealed"}
{"type":"TOOL_CALL_CHUNK","toolCallId":"call_0","toolCallName":"search","delta":"{\"q\":"}
{"type":"TOOL_CALL_CHUNK","toolCallId":"call_0","delta":"1}"}
{"type":"TOOL_CALL_RESULT","messageId":"r1","toolCallId":"call_0","content":"found"}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","role":"assistant","delta":"answer "}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","delta":"` + fmt.Sprint(call) + `"}
{"type":"STATE_DELTA","delta":[{"op":"add","path":"/n","value":` + fmt.Sprint(call) + `}]}
{"type":"CUSTOM","name":"note","value":{"x":1}}
{"type":"META_EVENT","metaType":"thumbs_up","payload":{"id":"m1"}}
{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"whoever","role":"user","content":"hi"},{"id":"m1","role":"assistant","content":"answer ` + fmt.Sprint(call) + `"}]}` + aguiEnd + "[DONE]\n"
		})
		first, second := h.chat("T", "R1", "hi"), h.chat("T", "R2", "and?")
		want := "RUN_STARTED STATE_SNAPSHOT REASONING_START REASONING_MESSAGE_START REASONING_MESSAGE_CONTENT REASONING_MESSAGE_END REASONING_END REASONING_ENCRYPTED_VALUE " +
			"TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END STATE_SNAPSHOT CUSTOM RAW RUN_FINISHED"
		if got := types(first); got != strings.Replace(want, "RUN_STARTED STATE_SNAPSHOT ", "RUN_STARTED ", 1) {
			t.Errorf("the first run is %s", got)
		}
		for _, f := range append(first, second...) {
			for _, member := range []string{"messageId", "toolCallId", "entityId"} {
				if id := f.field(member); id != "" && len(id) != 36 {
					t.Errorf("the agent's id %s is in the chat: %s", id, f.data)
				}
			}
		}
		if a, b := typed(first, "TEXT_MESSAGE_START").field("messageId"), typed(second, "TEXT_MESSAGE_START").field("messageId"); a == b {
			t.Error("answers of two runs are one message")
		}
		if raw := typed(first, "RAW"); !strings.Contains(raw.data, `"metaType":"thumbs_up"`) {
			t.Errorf("an event of a type that is not known is %s", raw.data)
		}
		one, two := peer.call(1), peer.call(2)
		if one.ProtocolVersion != "1.0" || one.ThreadID != two.ThreadID || one.RunID == two.RunID || string(one.State) != "{}" || !strings.Contains(string(two.State), `"n":1`) {
			t.Errorf("%+v, then %+v", one, two)
		}
		var got []string
		for _, m := range two.Messages {
			got = append(got, fmt.Sprintf("%s %s %s %v", m.Role, m.ID, m.ToolCallID+m.EncryptedValue, m.Content))
			for _, c := range m.ToolCalls {
				got = append(got, c.ID+" "+c.Function.Name+c.Function.Arguments)
			}
			if m.Metadata != nil {
				t.Errorf("%s has metadata %v", m.ID, m.Metadata)
			}
		}
		for _, want := range []string{"user u-R1  hi", `call_0 search{"q":1}`, "tool r1 call_0 found", "reasoning m1 sealed hm", "user u-R2  and?"} {
			if !strings.Contains(strings.Join(got, "\n"), want) {
				t.Errorf("the agent is not sent %q but\n%s", want, strings.Join(got, "\n"))
			}
		}
		if joined := h.do("GET", "/api/threads/T/messages", "").body; strings.Count(joined, "answer 1") != 1 || strings.Count(joined, "answer 2") != 1 {
			t.Error(joined)
		}
	})
}

// TestAGUIAgentFrontendTool: a call of the client's tool that the agent left open is the client's to answer, under the id
// that it was streamed with; the agent goes on with the result.
func TestAGUIAgentFrontendTool(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
			if call > 1 {
				return aguiBegin + `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","delta":"done"}` + aguiEnd
			}
			return aguiBegin + `
{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"look:"}
{"type":"TEXT_MESSAGE_END","messageId":"m1"}
{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"show_map","parentMessageId":"m1"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"lat\":"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"52}"}
{"type":"TOOL_CALL_END","toolCallId":"c1"}` + aguiEnd
		})
		body := strings.Replace(inputBody("T", "R1", "hi"), `"tools":[]`, `"tools":[{"name":"show_map","description":"d","parameters":{"type":"object"}}]`, 1)
		first := h.open(h.request("POST", "/api/agui/chat", body)).rest()
		id := typed(first, "TOOL_CALL_START").field("toolCallId")
		if got := types(first); strings.Count(got, "TOOL_CALL_START") != 1 || !strings.Contains(got, "TOOL_CALL_ARGS TOOL_CALL_END") {
			t.Errorf("the call is shown as %s", got)
		}
		if end := typed(first, "RUN_FINISHED").data; !strings.Contains(end, `"pendingToolCallIds":["`+id+`"]`) {
			t.Fatalf("the run ends with %s", end)
		}
		second := h.chatAnswer("T", "R2", id, `{"shown":true}`)
		if !strings.Contains(types(second), "TEXT_MESSAGE_START") || len(peer.call(1).Tools) != 1 {
			t.Error(types(second))
		}
		two := peer.call(2)
		if last := two.Messages[len(two.Messages)-1]; last.Role != "tool" || last.ToolCallID != "c1" || last.Content != `{"shown":true}` || len(two.Resume) != 0 || two.RunID == peer.call(1).RunID {
			t.Errorf("the agent is called with %+v", two)
		}
		h.chat("T", "R3", "more")
		if n := len(peer.call(3).Messages); n != 5 {
			t.Errorf("the third call has %d messages: %+v", n, peer.call(3).Messages)
		}
	})
}

// TestAGUIAgentInterrupts: what interrupts a run is asked in the chat and in the inbox, and the agent is called again with
// the answers to all of it when the last is there. A call that it shows again then is shown once.
func TestAGUIAgentInterrupts(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
			if call > 1 {
				return aguiBegin + `
{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"rm"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"path\":\"a\"}"}
{"type":"TOOL_CALL_END","toolCallId":"c1"}
{"type":"TOOL_CALL_RESULT","messageId":"r1","toolCallId":"c1","content":"gone"}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","delta":"done"}` + aguiEnd
			}
			return aguiBegin + `
{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"rm"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"path\":\"a\"}"}
{"type":"TOOL_CALL_END","toolCallId":"c1"}
{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[
{"id":"i1","reason":"tool_call","toolCallId":"c1","message":"Remove a?"},
{"id":"i2","reason":"input_required","message":"Why?","responseSchema":{"type":"object","properties":{"why":{"type":"string"}}}}]}}`
		})
		peer.script = oneLine(peer.script)
		first := h.chat("T", "R1", "hi")
		var end struct {
			Outcome struct {
				Interrupts []struct{ ID, Reason, Message string }
			}
		}
		if err := json.Unmarshal([]byte(typed(first, "RUN_FINISHED").data), &end); err != nil || len(end.Outcome.Interrupts) != 2 {
			t.Fatalf("%v: %s", err, typed(first, "RUN_FINISHED").data)
		}
		var inbox struct {
			Approvals []struct {
				ID, Kind, Tool, Title string
				Args                  json.RawMessage
			}
		}
		listed := h.do("GET", "/api/approvals", "").body
		if err := json.Unmarshal([]byte(listed), &inbox); err != nil || !strings.Contains(listed, "Remove a?") || !strings.Contains(listed, "Why?") {
			t.Fatalf("the inbox has %s, %v", listed, err)
		}
		permission, input := end.Outcome.Interrupts[0], end.Outcome.Interrupts[1]
		if permission.Reason != "tool_call" {
			permission, input = input, permission
		}
		one := h.open(h.request("POST", "/api/agui/chat", `{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":"`+permission.ID+`","status":"resolved","payload":{"approved":true}}]}`)).rest()
		if !strings.Contains(typed(one, "RUN_FINISHED").data, input.ID) {
			t.Errorf("with one answer the run ends with %s", typed(one, "RUN_FINISHED").data)
		}
		last := h.open(h.request("POST", "/api/agui/chat", `{"threadId":"T","runId":"R3","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":"`+input.ID+`","status":"resolved","payload":{"why":"old"}}]}`)).rest()
		if got := types(last); strings.Contains(got, "TOOL_CALL_START") || !strings.Contains(got, "TEXT_MESSAGE_CONTENT") {
			t.Errorf("the agent goes on with %s", got)
		}
		two := peer.call(2)
		answers := map[string]string{}
		for _, r := range two.Resume {
			answers[r.InterruptID] = r.Status + string(r.Payload)
		}
		if len(answers) != 2 || !strings.Contains(answers["i1"], `"approved":true`) || !strings.Contains(answers["i2"], `"why":"old"`) {
			t.Errorf("the agent is resumed with %v", answers)
		}
		for _, m := range two.Messages {
			for _, c := range m.ToolCalls {
				if c.Function.Name != "rm" || c.ID != "c1" {
					t.Errorf("the agent is sent the call %+v", c)
				}
			}
		}
		h.chat("T", "R4", "more")
		calls, results := 0, 0
		for _, m := range peer.call(3).Messages {
			calls += len(m.ToolCalls)
			if m.Role == "tool" && m.ToolCallID == "c1" {
				results++
			}
		}
		if calls != 1 || results != 1 {
			t.Errorf("the history has %d calls and %d results", calls, results)
		}
	})
}

// oneLine joins the lines of events that were broken for their length.
func oneLine(script func(int, aguiInput) string) func(int, aguiInput) string {
	return func(call int, in aguiInput) string {
		return strings.NewReplacer("[\n{", "[{", ",\n{\"id\"", ",{\"id\"").Replace(script(call, in))
	}
}

// TestAGUIAgentSnapshots: a snapshot adds to the chat what was not streamed, once, whatever ids it has.
func TestAGUIAgentSnapshots(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
			if call > 1 {
				return aguiBegin + `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"x1","role":"user","content":"hi"},{"id":"x2","role":"assistant","content":"thinking of it","toolCalls":[{"id":"c1","type":"function","function":{"name":"search","arguments":"{}"}}]},{"id":"x3","role":"tool","toolCallId":"c1","content":"hit"},{"id":"x5","role":"user","content":"and?"},{"id":"x6","role":"assistant","content":"second"}]}` + aguiEnd
			}
			return aguiBegin + `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":"hi"},{"id":"a","role":"assistant","content":"thinking of it","toolCalls":[{"id":"c1","type":"function","function":{"name":"search","arguments":"{}"}}]},{"id":"r","role":"tool","toolCallId":"c1","content":"hit"}]}` + aguiEnd
		})
		first, second := h.chat("T", "R1", "hi"), h.chat("T", "R2", "and?")
		if got := types(first); got != "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT RUN_FINISHED" {
			t.Errorf("the first snapshot becomes %s", got)
		}
		if got := types(second); got != "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" || typed(second, "TEXT_MESSAGE_CONTENT").field("delta") != "second" {
			t.Errorf("the second snapshot becomes %s", got)
		}
		if n := len(peer.call(2).Messages); n != 4 {
			t.Errorf("the second call has %d messages", n)
		}
	})
}

// TestAGUIAgentFailures: how a run of the agent can fail, each with its code.
func TestAGUIAgentFailures(t *testing.T) {
	tests := map[string]struct{ script, code string }{
		"error":      {aguiBegin + `{"type":"RUN_ERROR","message":"no credit","code":"quota"}`, "quota"},
		"plain":      {`{"type":"RUN_ERROR","message":"no credit"}`, "agent_error"},
		"cancelled":  {aguiBegin + `{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"cancelled"}}`, "agent_cancelled"},
		"cut":        {aguiBegin + `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"half"}`, "upstream_truncated"},
		"no end":     {`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"half"}`, "upstream_truncated"},
		"not JSON":   {aguiBegin + `{"type":`, "upstream_malformed"},
		"wrong type": {aguiBegin + `{"type":"TEXT_MESSAGE_CONTENT","messageId":7,"delta":"x"}`, "upstream_malformed"},
		"order":      {aguiBegin + `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}`, "upstream_malformed"},
	}
	onBothDatabases(t, func(t *testing.T, db database) {
		h, _ := withAGUIPeer(t, db.open, func(_ int, in aguiInput) string {
			name, _ := in.Messages[0].Content.(string)
			return tests[name].script
		})
		for name, test := range tests {
			if end := typed(h.chat(name, "R1", name), "RUN_ERROR"); end.field("code") != test.code {
				t.Errorf("%s ends with %s", name, end.data)
			}
		}
	})
}
