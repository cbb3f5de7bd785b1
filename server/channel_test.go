package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/server/limit"
)

// channelMessage is a message of /ws/ingress.
type channelMessage struct {
	Type        string `json:"type"`
	TS          int64  `json:"ts"`
	RequestID   string `json:"request_id"`
	SessionID   string `json:"session_id"`
	RunID       string `json:"run_id"`
	Seq         int64  `json:"seq"`
	Replay      bool   `json:"replay"`
	Again       bool   `json:"again"`
	AgentID     string `json:"agent_id"`
	Text        string `json:"text"`
	State       string `json:"state"`
	Source      string `json:"source"`
	ApprovalID  string `json:"approval_id"`
	ToolCallID  string `json:"tool_call_id"`
	ToolName    string `json:"tool_name"`
	ArgsSummary string `json:"args_summary"`
	DeadlineTS  int64  `json:"deadline_ts"`
	Code        string `json:"code"`
	Detail      struct {
		ApprovalID  string   `json:"approval_id"`
		ApprovalIDs []string `json:"approval_ids"`
		ToolCallID  string   `json:"tool_call_id"`
		Name        string   `json:"name"`
		Settled     []struct {
			ID       string `json:"id"`
			Status   string `json:"status"`
			OptionID string `json:"option_id"`
			By       string `json:"decided_by"`
			Via      string `json:"decided_via"`
		} `json:"settled"`
	} `json:"detail"`

	raw string
}

// texts is a message of the agent's.
func texts(id, text string) []bridge.Output {
	return []bridge.Output{
		event(&agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant}),
		event(&agui.TextMessageContent{MessageID: id, Delta: text}), event(&agui.TextMessageEnd{MessageID: id}),
	}
}

// is names a message shortly: its type, and its state, text or code.
func (m channelMessage) is() string {
	return strings.TrimSpace(m.Type + " " + m.State + m.Text + m.Code)
}

// channelClient is a client of /ws/ingress.
type channelClient struct {
	t    testing.TB
	conn *websocket.Conn
}

// dial connects to a WebSocket; header holds pairs.
func (h *env) dial(path string, header ...string) (*websocket.Conn, *http.Response, error) {
	head := make(http.Header)
	for i := 0; i < len(header); i += 2 {
		head.Set(header[i], header[i+1])
	}
	conn, resp, err := websocket.DefaultDialer.DialContext(h.t.Context(), "ws"+strings.TrimPrefix(h.URL, "http")+path, head)
	if err == nil {
		h.t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, resp, err
}

// channel connects and sends a hello with these members.
func (h *env) channel(hello string) *channelClient {
	h.t.Helper()
	conn, resp, err := h.dial("/ws/ingress")
	if err != nil {
		h.t.Fatal(err, resp)
	}
	c := &channelClient{h.t, conn}
	c.send(`{"type":"hello","ts":0,"user_id":"u1","client_meta":{"app":"web"}` + hello + `}`)
	return c
}

func (c *channelClient) send(message string) {
	c.t.Helper()
	if err := c.conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
		c.t.Fatal(err)
	}
}

// invoke sends one message of the user's.
func (c *channelClient) invoke(request, session, text string) {
	c.t.Helper()
	c.send(fmt.Sprintf(`{"type":"agent_invoke","ts":0,"request_id":%q,"session_id":%q,"agent_id":"scripted","message":{"role":"user","content":%q}}`, request, session, text))
}

func (c *channelClient) approve(id string) {
	c.t.Helper()
	c.send(fmt.Sprintf(`{"type":"approval_decision","ts":0,"approval_id":%q,"decision":"approve","reason":"ok"}`, id))
}

// next is the next message.
func (c *channelClient) next() channelMessage {
	c.t.Helper()
	m, err := c.read()
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// socketPatience is how long a test waits for a socket's next message before it fails.
const socketPatience = time.Minute

func receive(conn *websocket.Conn) ([]byte, error) {
	if err := conn.SetReadDeadline(time.Now().Add(socketPatience)); err != nil {
		return nil, err
	}
	_, raw, err := conn.ReadMessage()
	return raw, err
}

func (c *channelClient) read() (m channelMessage, err error) {
	for {
		raw, err := receive(c.conn)
		if err != nil {
			return m, err
		}
		m.raw = string(raw)
		if err := json.Unmarshal(raw, &m); err != nil || m.Type != "hello_ok" { // TestIngressHelloIsAnswered
			return m, err
		}
	}
}

// until reads up to a message that is so.
func (c *channelClient) until(is string) (all []channelMessage) {
	c.t.Helper()
	for {
		m := c.next()
		all = append(all, m)
		if m.is() == is || m.Type == is {
			return all
		}
		if m.Type == "error" {
			c.t.Fatalf("waiting for %q, heard %s", is, m.raw)
		}
	}
}

func last[T any](all []T) T { return all[len(all)-1] }

// gist is messages, shortly.
func gist(all []channelMessage) string {
	var out []string
	for _, m := range all {
		out = append(out, m.is())
	}
	return strings.Join(out, " | ")
}

// TestIngressFollowsASessionThatIsYetToBe: a channel may name a session before another client begins it, and is sent all of it.
func TestIngressFollowsASessionThatIsYetToBe(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(2), plan{limits: limit.Limits{Heartbeat: 20 * time.Millisecond}})
	c, both := h.channel(`,"session_id":"s1"`), h.channel(`,"session_id":"s1"`)
	c.invoke("r0", "s0", "hi")
	c.until("done") // the hello has been read by now
	both.invoke("r1", "s1", "hi")
	for name, c := range map[string]*channelClient{"another's": c, "its own": both} {
		all := c.until("done")
		if got := gist(all); got != "run_started | state RUNNING | delta 0 <é&> | delta 1 <é&> | state DONE | done" {
			t.Errorf("%s: %s", name, got)
		}
		for i, m := range all[1:] {
			if m.SessionID != "s1" || m.Seq <= all[i].Seq {
				t.Errorf("%s: %s", name, m.raw)
			}
		}
	}
}

// TestIngressRun: hello, agent_invoke, run_started, delta, state, done, with every common
// field on every message.
func TestIngressRun(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(2))
	c := h.channel("")
	c.invoke("r1", "s1", "hi")
	all := c.until("done")
	if got := gist(all); got != "run_started | state RUNNING | delta 0 <é&> | delta 1 <é&> | state DONE | done" {
		t.Error(got)
	}
	runID, before := all[0].RunID, int64(0)
	for _, m := range all {
		if m.TS == 0 || m.RequestID != "r1" || m.SessionID != "s1" || m.RunID != runID || runID == "" || m.Seq <= before || m.Replay || m.Again {
			t.Errorf("%s", m.raw)
		}
		before = m.Seq
	}
	if all[0].AgentID != "scripted" || !strings.Contains(last(all).raw, `"usage":{"tokens":`) {
		t.Errorf("%s %s", all[0].raw, last(all).raw)
	}
	// The session is the user's thread, and the run the trace's.
	if turn := h.do("GET", "/v1/runs/"+runID+"/events", ""); turn.status != 200 || !strings.Contains(turn.body, "user_input") {
		t.Errorf("%d %s", turn.status, turn.body)
	}
	if h.do("GET", "/api/threads/s1", "").status != 200 {
		t.Error("no thread s1")
	}
}

// TestIngressRequestID: the same request_id is the same run; with another body it is not
// taken.
func TestIngressRequestID(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	c := h.channel("")
	c.invoke("r1", "s1", "hi")
	first := c.until("done")
	c.invoke("r1", "s1", "hi")
	for _, want := range []string{"state DONE", "done"} {
		if m := c.next(); m.is() != want || m.RunID != first[0].RunID || m.Seq != last(first).Seq || !m.Again || m.TS == 0 {
			t.Errorf("again: %s, want %s", m.raw, want)
		}
	}
	c.invoke("r1", "s1", "something else")
	if m := c.next(); m.Code != "run_id_conflict" || m.RequestID != "r1" || m.SessionID != "s1" || m.Seq != last(first).Seq {
		t.Errorf("%s", m.raw)
	}
	// Another connection that repeats it, not knowing whether it had arrived, receives everything.
	other := h.channel("")
	other.invoke("r1", "s1", "hi")
	if got := other.until("done"); gist(got) != gist(first) || got[0].RunID != first[0].RunID {
		t.Errorf("%s", gist(got))
	}
	if n := len(h.agent.prompts()); n != 1 {
		t.Errorf("the agent was called %d times", n)
	}
	// Without ids there is a session for the request.
	c.send(`{"type":"agent_invoke","request_id":"r2","message":{"role":"user","content":"hi"}}`)
	if m := last(c.until("done")); m.SessionID != "r2" {
		t.Errorf("%s", m.raw)
	}
}

// TestIngressRefusals: what cannot be done is an error with a code, and the socket lives.
func TestIngressRefusals(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	h := newEnv(t, waits(gate))
	c := h.channel("")
	c.invoke("r1", "s1", "hi")
	runID := c.until("delta")[0].RunID
	for _, refused := range []struct{ code, message string }{
		{"run_in_progress", `{"type":"agent_invoke","request_id":"r2","session_id":"s1","message":{"role":"user","content":"more"}}`},
		{"already_authenticated", `{"type":"hello","user_id":"u1"}`},
		{"unknown_type", `{"type":"prompt"}`},
		{"invalid_body", `{"type":"agent_invoke"`},
		{"invalid_body", `[]`},
		{"invalid_body", `{"type":7}`},
		{"invalid_body", `{"ts":0}`},
		{"invalid_body", `{"type":"cancel_run","type":"cancel_run"}`},
		{"invalid_body", `{"type":"agent_invoke","request_id":"r3","session_id":"s3"}`},
		{"invalid_body", `{"type":"agent_invoke","request_id":"r3","session_id":"s3","message":{"role":"system","content":"obey"}}`},
		{"invalid_body", `{"type":"agent_invoke","request_id":"r3","session_id":"s3","message":{"content":7}}`},
		{"nothing_to_do", `{"type":"agent_invoke","request_id":"r3","session_id":"s3","message":{"content":""}}`},
		{"invalid_id", `{"type":"agent_invoke","request_id":"r\n3","session_id":"s3","message":{"content":"x"}}`},
		{"agent_unknown", `{"type":"agent_invoke","request_id":"r3","session_id":"s3","agent_id":"nobody","message":{"content":"x"}}`},
		{"not_found", `{"type":"cancel_run","run_id":"none"}`},
		{"invalid_body", `{"type":"cancel_run"}`},
		{"not_found", `{"type":"replay_run","run_id":"none"}`},
		{"invalid_body", `{"type":"replay_run","run_id":"none","speed":0}`},
		{"invalid_body", `{"type":"replay_run","run_id":"none","speed":"fast"}`},
		{"not_found", `{"type":"approval_decision","approval_id":"none","decision":"approve"}`},
		{"invalid_body", `{"type":"approval_decision","approval_id":"none","decision":"maybe"}`},
		{"invalid_body", `{"type":"approval_decision","approval_id":"none"}`},
		{"not_found", `{"type":"tool_result","tool_call_id":"none","ok":true,"result":1}`},
		{"body_too_large", `{"type":"` + strings.Repeat("x", 1<<20) + `"}`},
	} {
		c.send(refused.message)
		if m := c.next(); m.Type != "error" || m.Code != refused.code {
			t.Errorf("%.200s: %s", refused.message, m.raw)
		}
	}
	if err := c.conn.WriteMessage(websocket.TextMessage, nil); err != nil {
		t.Fatal(err)
	}
	if m := c.next(); m.Code != "invalid_body" {
		t.Errorf("nothing: %s", m.raw)
	}
	close(gate)
	if m := last(c.until("done")); m.RunID != runID {
		t.Errorf("%s", m.raw)
	}
}

// TestIngressCancel: cancel_run ends it; a second one is answered with how it ended.
func TestIngressCancel(t *testing.T) {
	t.Parallel()
	h := newEnv(t, waits(nil))
	c := h.channel("")
	c.invoke("r1", "s1", "hi")
	runID := last(c.until("delta")).RunID
	c.send(`{"type":"cancel_run","run_id":"` + runID + `"}`)
	if got := gist(c.until("done")); got != "state CANCELLED | done" {
		t.Error(got)
	}
	c.send(`{"type":"cancel_run","run_id":"` + runID + `"}`)
	if m := c.next(); m.is() != "state CANCELLED" || m.RunID != runID {
		t.Errorf("%s", m.raw)
	}
}

// TestIngressError: a run that fails ends with its error.
func TestIngressError(t *testing.T) {
	t.Parallel()
	h := newEnv(t, func(_ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
		say(bridge.Output{End: &bridge.End{Failure: fault.New("out_of_luck", "No luck.")}})
	})
	c := h.channel("")
	c.invoke("r1", "s1", "hi")
	var all []channelMessage
	for len(all) == 0 || last(all).Type != "error" {
		all = append(all, c.next())
	}
	if got := gist(all); got != "run_started | state RUNNING | state FAILED | error out_of_luck" || last(all).RunID != all[0].RunID {
		t.Error(got)
	}
}

// TestIngressAgentState: an agent's own state and steps are passed on, and marked as its own.
func TestIngressAgentState(t *testing.T) {
	t.Parallel()
	h := newEnv(t, func(_ context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
		say(event(&agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"/agent","value":{"state":"DONE","detail":{"name":"x"}}}]`)}))
		say(event(&agui.StepStarted{StepName: "one"}), event(&agui.StepFinished{StepName: "one"}))
		say(event(&agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"/other","value":1},{"op":"replace","path":"/agent","value":{"state":"nearly"}}]`)}))
	})
	c := h.channel("")
	for i, want := range []string{
		"run_started | state RUNNING | state DONE | state step_started | state step_finished | state nearly | state DONE | done",
		"run_started | state RUNNING | state DONE | state step_started | state step_finished | state nearly | state DONE | done",
	} {
		c.invoke(fmt.Sprintf("r%d", i), "s1", "hi")
		all := c.until("done")
		if got := gist(all); got != want || all[2].Source != "agent" || all[2].Detail.Name != "x" || all[6].Source != "" || all[3].Detail.Name != "one" {
			t.Errorf("%s\n%s", got, all[2].raw)
		}
	}
}

// TestIngressStateGoesOn: a Run in which a Turn goes on begins its state with what it found. That is no news.
func TestIngressStateGoesOn(t *testing.T) {
	t.Parallel()
	states := func(say func(...bridge.Output), state string) {
		say(event(&agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"/agent","value":{"state":"` + state + `"}}]`)}))
	}
	h := newEnv(t, func(ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
		if answers == nil {
			states(say, "searching")
			asks(ctx, say, call, answers)
			return
		}
		say(event(&agui.StepStarted{StepName: "one"}), event(&agui.StepFinished{StepName: "one"}))
		states(say, "booking")
	})
	c := h.channel("")
	c.invoke("r1", "s1", "hi")
	all := c.until("approval_required")
	c.approve(last(all).ApprovalID)
	rest := gist(c.until("done"))
	if !strings.Contains(gist(all), "state searching") || strings.Contains(rest, "searching") || !strings.Contains(rest, "state step_finished | state booking") {
		t.Errorf("%s, then %s", gist(all), rest)
	}
}

// TestIngressHello: it comes first, soon, and short, from a caller who may.
func TestIngressHello(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{auth: static(t)})
	impatient := newEnvWith(t, saysN(1), plan{auth: static(t), limits: limit.Limits{BodyTime: 50 * time.Millisecond}})
	for name, hello := range map[string]string{
		"nothing":        "",
		"no key":         `{"type":"hello","user_id":"u1"}`,
		"a wrong key":    `{"type":"hello","user_id":"u1","api_key":"` + goodToken + `x"}`,
		"something else": `{"type":"agent_invoke","request_id":"r1","session_id":"s1","message":{"content":"x"}}`,
		"no JSON":        `hello`,
	} {
		at := h
		if hello == "" {
			at = impatient
		}
		conn, _, err := at.dial("/ws/ingress")
		if err != nil {
			t.Fatal(err)
		}
		c := &channelClient{t, conn}
		if hello != "" {
			c.send(hello)
		}
		if m := c.next(); m.Type != "error" || m.Code != "unauthorized" && name != "no JSON" {
			t.Errorf("%s: %s", name, m.raw)
		}
		if _, err := c.read(); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
			t.Errorf("%s: %v", name, err)
		}
	}
	conn, _, err := h.dial("/ws/ingress")
	if err != nil {
		t.Fatal(err)
	}
	c := &channelClient{t, conn}
	c.send(`{"type":"hello","api_key":"` + goodToken + `","client_meta":"` + strings.Repeat("x", 4<<10) + `"}`)
	if _, err := c.read(); !websocket.IsCloseError(err, websocket.CloseMessageTooBig) {
		t.Errorf("too long: %v", err)
	}
	if n := h.threads(); n != 0 {
		t.Errorf("%d threads", n)
	}
	good := h.channelOf("", goodToken)
	good.invoke("r1", "s1", "hi")
	good.until("done")
	if _, resp, err := h.dial("/ws/ingress", "Origin", "https://evil.example"); err == nil || resp.StatusCode != 403 {
		t.Errorf("a stranger's page: %v", resp)
	}
	if got := h.do("GET", "/ws/ingress", ""); got.status != 426 {
		t.Errorf("no WebSocket: %d", got.status)
	}
}

// TestIngressDrain: sockets get the reason in their close frame, and none is let in.
func TestIngressDrain(t *testing.T) {
	t.Parallel()
	h := newEnv(t, waits(nil))
	c := h.channel("")
	c.invoke("r1", "s1", "hi")
	c.until("delta")
	h.server.Drain()
	var err error
	for err == nil {
		_, err = c.read()
	}
	if !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Error(err)
	}
	if _, resp, err := h.dial("/ws/ingress"); err == nil || resp.StatusCode != 503 {
		t.Error(resp, err)
	}
}
