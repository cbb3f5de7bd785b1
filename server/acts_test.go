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

// invokePeer is an agent that is called by POST /invoke: it answers each call with the frames of a script, and keeps what it
// was sent.
type invokePeer struct {
	t      *testing.T
	script func(call int, body string) string

	mu    sync.Mutex
	calls []string
}

// ServeHTTP implements http.Handler.
func (p *invokePeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	p.calls = append(p.calls, string(body))
	n := len(p.calls)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, p.script(n, string(body)))
}

// withInvokePeer is a server with such an agent as its first.
func withInvokePeer(t *testing.T, form httpagent.Messages, script func(call int, body string) string) (*env, *invokePeer) {
	t.Helper()
	peer := &invokePeer{t: t, script: script}
	web := httptest.NewServer(peer)
	t.Cleanup(web.Close)
	h := newEnv(t, saysN(1))
	cfg := atHome(t)
	cfg.ID, cfg.URL, cfg.Messages = "peer", web.URL, form
	agent := httpagent.New(cfg)
	h.agents.Add("peer", agent)
	h.agents.SetDefault("peer")
	t.Cleanup(agent.Close)
	return h, peer
}

// conversation is a thread as a test needs it, and how often its agent was called.
type conversation struct {
	*env
	calls func() int
	last  func() string // what the agent was called with last
}

// conversations are the same thread with an agent of each kind that may be called without a message. The word "broken" in a
// prompt makes it fail, "ask" makes it ask, "wait" makes it pass the gate twice: when it was called, and before it answers.
func conversations(t *testing.T, test func(t *testing.T, c conversation, gate chan struct{})) {
	t.Run("AG-UI", func(t *testing.T) {
		onBothDatabases(t, func(t *testing.T, db database) {
			gate := make(chan struct{})
			h, peer := withAGUIPeer(t, db.open, func(call int, in aguiInput) string {
				text := aguiBegin + fmt.Sprintf(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m%d","role":"assistant","delta":"answer"}`+"\n", call)
				switch said := lastUser(in.Messages); {
				case len(in.Resume) > 0:
				case said == "wait":
					gate <- struct{}{}
					<-gate
				case said == "ask":
					return text + `{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"tool_call","message":"May I?"}]}}`
				case said == "broken":
					return text + `{"type":"RUN_ERROR","message":"broken"}`
				}
				return text + `{"type":"STATE_DELTA","delta":[{"op":"add","path":"/agents","value":1}]}` + aguiEnd
			})
			test(t, conversation{h, func() int { peer.mu.Lock(); defer peer.mu.Unlock(); return len(peer.calls) }, func() string {
				peer.mu.Lock()
				defer peer.mu.Unlock()
				return peer.bodies[len(peer.bodies)-1]
			}}, gate)
		})
	})
	t.Run("HTTP", func(t *testing.T) {
		gate := make(chan struct{})
		h, peer := withInvokePeer(t, httpagent.MessagesAGUI, func(_ int, body string) string {
			var in struct {
				Messages []aguiMessage
				Resume   []any
			}
			_ = json.Unmarshal([]byte(body), &in)
			text := "event: delta\ndata: {\"text\":\"answer\"}\n\n"
			switch said := lastUser(in.Messages); {
			case len(in.Resume) > 0:
			case said == "wait":
				gate <- struct{}{}
				<-gate
			case said == "ask":
				return text + "event: ask\ndata: {\"id\":\"q1\",\"kind\":\"permission\",\"title\":\"May I?\",\"options\":[{\"id\":\"y\",\"name\":\"Yes\",\"kind\":\"allow_once\"},{\"id\":\"n\",\"name\":\"No\",\"kind\":\"reject_once\"}]}\n\nevent: done\ndata: {\"pending\":[\"q1\"]}\n\n"
			case said == "broken":
				return text + "event: error\ndata: {\"code\":\"broken\",\"message\":\"broken\"}\n\n"
			}
			return text + "event: state_delta\ndata: {\"delta\":[{\"op\":\"add\",\"path\":\"/agents\",\"value\":1}]}\n\nevent: done\ndata: {}\n\n"
		})
		test(t, conversation{h, func() int { peer.mu.Lock(); defer peer.mu.Unlock(); return len(peer.calls) }, func() string {
			peer.mu.Lock()
			defer peer.mu.Unlock()
			return peer.calls[len(peer.calls)-1]
		}}, gate)
	})
}

func lastUser(messages []aguiMessage) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == "user" {
			text, _ := messages[i].Content.(string)
			return text
		}
	}
	return ""
}

// seen is the history as a client that joined sends it back, in JSON, without what clients strip.
func (c conversation) seen(thread string) []json.RawMessage {
	c.t.Helper()
	var got struct{ Messages []json.RawMessage }
	joined := c.open(c.request("POST", "/api/agui/connect", `{"threadId":"`+thread+`","protocolVersion":"1.0"}`)).rest()
	if err := json.Unmarshal([]byte(typed(joined, "MESSAGES_SNAPSHOT").data), &got); err != nil {
		c.t.Fatal(err)
	}
	return got.Messages
}

// act is a body without a new message.
func act(thread, run string, messages []json.RawMessage, props, state string) string {
	list, _ := json.Marshal(messages)
	if messages == nil {
		list = []byte("[]")
	}
	return fmt.Sprintf(`{"threadId":%q,"runId":%q,"protocolVersion":"1.0","tools":[],"context":[],"messages":%s,"forwardedProps":%s,"state":%s}`, thread, run, list, props, state)
}

// TestRunOfPropsOrState: on an idle thread a body without a new message begins a Turn when its forwardedProps or a key of the
// state that it changed say something, and its messages hold the thread's newest one. Anything else is a join.
func TestRunOfPropsOrState(t *testing.T) {
	const press, none = `{"action":{"name":"go"}}`, `{}`
	conversations(t, func(t *testing.T, c conversation, _ chan struct{}) {
		c.chat("T", "R1", "hi")
		c.chat("T", "R2", "and?")
		all := c.seen("T")
		earlier := all[:len(all)-2] // one that ends in the user's message asks to regenerate
		for i, is := range []struct {
			name                string
			messages            []json.RawMessage
			props, state        string
			path, header, value string
			stale               bool // the messages stay those of the beginning
			begins              bool
		}{
			{name: "props", messages: all, props: press, state: none, begins: true},
			{name: "props, again from what was seen before it", messages: all, props: press, state: none, stale: true},
			{name: "no messages", props: press, state: `{"mine":1}`},
			{name: "messages that end earlier", messages: earlier, props: press, state: `{"mine":1}`},
			{name: "connect", messages: all, props: press, state: `{"mine":1}`, path: "/api/agui/connect"},
			{name: "Last-Event-ID", messages: all, props: press, state: none, header: "Last-Event-ID", value: "1"},
			{name: "Last-Event-ID 0", messages: all, props: press, state: none, header: "Last-Event-ID", value: "0"},
			{name: "empty props and state", messages: all, props: none, state: none},
			{name: "props of null", messages: all, props: "null", state: "null"},
			{name: "the state as it is", messages: all, props: none, state: `{"agents":1}`},
			{name: "a reserved key", messages: all, props: none, state: `{"agents":1,"acp":{"x":1}}`},
			{name: "a key that was changed", messages: all, props: none, state: `{"agents":1,"mine":2}`, begins: true},
			{name: "a key set to null", messages: all, props: none, state: `{"agents":null,"mine":2}`, begins: true},
			{name: "a result of a call that is not there", messages: append(all[:len(all):len(all)], json.RawMessage(`{"id":"x1","role":"tool","toolCallId":"nowhere","content":"1"}`)), props: press, state: none},
			{name: "a call of its own without a result", messages: append(all[:len(all):len(all)],
				json.RawMessage(`{"id":"x2","role":"assistant","content":"","toolCalls":[{"id":"xc1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"xc2","type":"function","function":{"name":"f","arguments":"{}"}}]}`),
				json.RawMessage(`{"id":"x3","role":"tool","toolCallId":"xc1","content":"1"}`)), props: press, state: none},
			{name: "the instruction alone is new", messages: []json.RawMessage{json.RawMessage(`{"id":"s","role":"system","content":"Be brief."}`)}, props: press, state: none},
		} {
			now := is.messages
			if len(now) >= len(all) && !is.stale {
				now = append(c.seen("T"), now[len(all):]...)
			}
			before, path := c.calls(), "/api/agui/chat"
			if is.path != "" {
				path = is.path
			}
			var header []string
			if is.header != "" {
				header = []string{is.header, is.value}
			}
			got := c.do("POST", path, act("T", fmt.Sprintf("A%d", i), now, is.props, is.state), header...)
			if got.status != 200 {
				t.Fatalf("%s: %d %s", is.name, got.status, got.body)
			}
			if begun := c.calls() - before; begun != map[bool]int{true: 1}[is.begins] {
				t.Errorf("%s: the agent was called %d times: %s", is.name, begun, got.body)
			}
			if is.begins && (!strings.Contains(got.body, `"TEXT_MESSAGE_START"`) || strings.Contains(got.body, `"MESSAGES_SNAPSHOT"`)) {
				t.Errorf("%s: the response is %s", is.name, got.body)
			}
		}
		if got := c.last(); !strings.Contains(got, `"mine":2`) {
			t.Errorf("the agent was called with %s", got)
		}
	})
}

// TestReloadNeverCallsTheAgent: a page with constant forwardedProps and an initial state is reloaded 20 times in every phase of
// its thread, and the agent is called for none of them. A button that is pressed twice calls it twice, and the same request
// sent again does not.
func TestReloadNeverCallsTheAgent(t *testing.T) {
	const props, state = `{"agent":"planner","locale":"en"}`, `{"recipe":{"title":"Soup"}}`
	conversations(t, func(t *testing.T, c conversation, gate chan struct{}) {
		reloads := func(phase, thread string, running bool) {
			t.Helper()
			before := c.calls()
			for i := range 20 {
				r := c.open(c.request("POST", "/api/agui/chat", act(thread, fmt.Sprintf("%s%d", phase, i), nil, props, state)))
				if running { // it ends with the Run
					if _, err := r.next(); err != nil {
						t.Fatalf("%s: %v", phase, err)
					}
				} else {
					r.rest()
				}
				r.close()
			}
			if n := c.calls() - before; n != 0 {
				t.Errorf("%s: the agent was called %d times", phase, n)
			}
		}
		prompt := func(thread, run, text string) *reader {
			body := strings.NewReplacer(`"forwardedProps":{}`, `"forwardedProps":`+props, `"state":{}`, `"state":`+state).Replace(inputBody(thread, run, text))
			return c.open(c.request("POST", "/api/agui/chat", body))
		}
		// Before there is a thread the page has nothing to join.
		for i := range 3 {
			if got := c.do("POST", "/api/agui/chat", act("new", fmt.Sprintf("n%d", i), nil, props, state)); got.status != 400 || c.calls() != 0 {
				t.Errorf("a page of a new thread: %d %s", got.status, got.body)
			}
		}
		prompt("idle", "R1", "hi").rest()
		reloads("idle", "idle", false)
		prompt("ask", "R1", "ask").rest()
		reloads("question", "ask", false)
		prompt("broken", "R1", "broken").rest()
		reloads("error", "broken", false)
		running := prompt("wait", "RW", "wait")
		<-gate // the agent was called
		reloads("running", "wait", true)
		if got := c.do("POST", "/api/runs/RW/cancel", "{}"); got.status >= 300 {
			t.Fatal(got)
		}
		close(gate)
		running.rest()
		reloads("cancelled", "wait", false)

		before := c.calls()
		for i := range 2 {
			body := act("idle", fmt.Sprintf("press%d", i), c.seen("idle"), props, state)
			first := c.do("POST", "/api/agui/chat", body)
			again := c.do("POST", "/api/agui/chat", body)
			if first.body != again.body {
				t.Errorf("the same request again is\n%s\nand not\n%s", again.body, first.body)
			}
		}
		if n := c.calls() - before; n != 2 {
			t.Errorf("a button pressed twice called the agent %d times", n)
		}
		reloads("idle again", "idle", false)
	})
}

// TestClientsOwnCallReachesTheAgent: a call that the page made itself, with its result, both under ids that are not known,
// reaches the agent with the Turn that the page begins, marked as the client's, and is no part of the thread.
func TestClientsOwnCallReachesTheAgent(t *testing.T) {
	conversations(t, func(t *testing.T, c conversation, _ chan struct{}) {
		c.chat("T", "R1", "hi")
		pair := func(n int) []json.RawMessage {
			return []json.RawMessage{
				json.RawMessage(fmt.Sprintf(`{"id":"p%d","role":"assistant","content":"","toolCalls":[{"id":"pc%d","type":"function","function":{"name":"log_a2ui_event","arguments":"{\"name\":\"go\"}"}}]}`, n, n)),
				json.RawMessage(fmt.Sprintf(`{"id":"pt%d","role":"tool","toolCallId":"pc%d","content":"User performed action \"go\""}`, n, n)),
			}
		}
		for n := range 2 {
			got := c.do("POST", "/api/agui/chat", act("T", fmt.Sprintf("B%d", n), append(c.seen("T"), pair(n)...), `{"a2uiAction":{"userAction":{"name":"go"}}}`, `{}`))
			if strings.Contains(got.body, "question_unknown") || strings.Contains(got.body, "messages_dropped") {
				t.Errorf("the client is warned: %s", got.body)
			}
			if c.calls() != n+2 {
				t.Fatalf("after press %d the agent was called %d times: %s", n+1, c.calls(), got.body)
			}
			sent := c.last()
			for _, want := range []string{fmt.Sprintf(`"pc%d"`, n), `log_a2ui_event`, `User performed action`, `"aqueduct.from":"client"`, `a2uiAction`} {
				if !strings.Contains(sent, want) {
					t.Errorf("the agent is not sent %s: %s", want, sent)
				}
			}
			if strings.Contains(sent, fmt.Sprintf(`"pc%d"`, n-1)) {
				t.Errorf("the agent is sent the call of the press before: %s", sent)
			}
			if at := strings.Index(sent, fmt.Sprintf(`"pc%d"`, n)); strings.LastIndex(sent, `"answer"`) > at {
				t.Errorf("the call does not come last: %s", sent)
			}
		}
		if joined := c.do("GET", "/api/threads/T/messages?format=agui", "").body; strings.Contains(joined, "log_a2ui_event") {
			t.Errorf("the thread has the client's call: %s", joined)
		}
		// A prompt may bring one as well.
		c.do("POST", "/api/agui/chat", act("T", "C", append(append(c.seen("T"), pair(7)...), json.RawMessage(`{"id":"u9","role":"user","content":"go on"}`)), `{}`, `{}`))
		if sent := c.last(); !strings.Contains(sent, `"pc7"`) || strings.Index(sent, `"pc7"`) > strings.Index(sent, `"u9"`) && !strings.Contains(sent, `"input_message"`) {
			t.Errorf("a prompt's call is not sent before it: %s", sent)
		}
	})
}
