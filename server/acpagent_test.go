package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/acpgateway/wire"
	"aqueduct/server/channel"
	"aqueduct/store"
)

// acpAgent is a proxy written to the contract. Its agents ask for a permission when prompted with "go", repeat the answer they
// got, and answer any other prompt with a word.
type acpAgent struct {
	t     *testing.T
	conn  *websocket.Conn
	title string // of the call it asks for, and of all that it names there
	heard chan *wire.SessionPermission
	env   chan map[string]string // that its agents are started with

	spans   chan [2]string        // traceparent and tracestate of each prompt
	prompts map[string]string     // under way, by run
	both    chan *wire.PromptSend // prompts that asked for two permissions
	open    map[string]int        // permissions asked for and not answered, by run
	writing sync.Mutex            // tests say what comes of no prompt

	chatter func(run, prompt string) // sends more before the word of a prompt that asks nothing
}

// TestPromptWaitsForItsAgent: prompts that come before the server's own agent has linked are answered when it has. While the
// later of them are sent, the first would have failed.
func TestPromptWaitsForItsAgent(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, nil, plan{acp: true, own: true})
	var early []*reader
	for i := range 6 {
		early = append(early, h.open(h.prompt(fmt.Sprint("T", i), fmt.Sprint("R", i), "hello")))
	}
	h.linksACP(t, "")
	for i, stream := range early {
		if frames := stream.rest(); frames[len(frames)-1].typ() != "RUN_FINISHED" {
			t.Errorf("T%d ends with %v", i, frames[len(frames)-1])
		}
	}
}

// newACPEnv is an env whose agent is behind a proxy.
func newACPEnv(t *testing.T, title string) (*env, *acpAgent) {
	t.Helper()
	return newACPEnvWith(t, title, plan{})
}

func newACPEnvWith(t *testing.T, title string, p plan) (*env, *acpAgent) {
	t.Helper()
	p.acp, p.hooks = true, channel.Webhooks{{ID: "im", Tenant: "local", Secret: hookSecret, Callback: "http://127.0.0.1:1/"}}
	h := newEnvWith(t, nil, p)
	return h, h.linksACP(t, title)
}

// linksACP links the proxy.
func (h *env) linksACP(t *testing.T, title string) *acpAgent {
	t.Helper()
	conn, resp, err := h.dial("/ws/agent")
	if err != nil {
		t.Fatal(err, resp)
	}
	a := &acpAgent{t: t, conn: conn, title: title, heard: make(chan *wire.SessionPermission, 8), spans: make(chan [2]string, 64), env: make(chan map[string]string, 8), prompts: make(map[string]string),
		both: make(chan *wire.PromptSend, 1), open: make(map[string]int)}
	a.send(&wire.RegisterAgent{Agent: wire.ProxyInfo{ID: "p1", Name: "double"}})
	if _, err := receive(conn); err != nil { // register_ack
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	return a
}

func (a *acpAgent) serve() {
	for {
		_, raw, err := a.conn.ReadMessage()
		if err != nil {
			return
		}
		_, frame, err := wire.Decode(raw)
		if err != nil {
			a.t.Errorf("a frame of the gateway's: %v: %s", err, raw)
		}
		switch f := frame.(type) {
		case *wire.Open:
			a.env <- f.Init.Env
			a.send(&wire.Opened{RunID: f.RunID, OK: true})
		case *wire.PromptSend:
			a.prompted(f)
		case *wire.SessionPermission:
			a.heard <- f
			if a.open[f.RunID]--; a.open[f.RunID] > 0 {
				continue
			}
			option := ""
			if f.OptionID != nil {
				option = *f.OptionID
			}
			a.ends(f.RunID, "heard "+f.Outcome+" "+option)
		}
	}
}

func (a *acpAgent) prompted(f *wire.PromptSend) {
	a.prompts[f.RunID] = f.PromptID
	select {
	case a.spans <- [2]string{f.Traceparent, f.Tracestate}:
	default: // not counted that far
	}
	if strings.Contains(string(f.Prompt[len(f.Prompt)-1]), `"both"`) {
		a.open[f.RunID] = 2
		a.asks(f, "7")
		a.asks(f, "8")
		a.both <- f
		return
	}
	if !strings.Contains(string(f.Prompt[len(f.Prompt)-1]), `"go"`) {
		if a.chatter != nil {
			a.chatter(f.RunID, f.PromptID)
		}
		a.ends(f.RunID, "well")
		return
	}
	a.asks(f, "7")
}

// asks asks for a permission.
func (a *acpAgent) asks(f *wire.PromptSend, request string) {
	title, _ := json.Marshal(a.title)
	a.send(&wire.ProxyUpdate{RunID: f.RunID, Content: fmt.Appendf(nil, `{"type":"permission_request","request_id":%[3]q,"session_id":"S1","prompt_id":%[1]q,
		"tool_call":{"toolCallId":"call-%[3]s","title":%[2]s,"name":%[2]s,"kind":"execute","rawInput":{"cmd":"rm"}},
		"options":[{"optionId":"p-once","name":%[2]s,"kind":"allow_once"},{"optionId":"p-no","name":"Reject","kind":"reject_once"}]}`, f.PromptID, title, request)})
}

// ends sends a word and ends the prompt.
func (a *acpAgent) ends(run, word string) {
	prompt, session, stop := a.prompts[run], "S1", "end_turn"
	a.send(&wire.ACPUpdate{RunID: run, PromptID: &prompt, SessionID: &session, Update: fmt.Appendf(nil,
		`{"sessionUpdate":"agent_message_chunk","messageId":%q,"content":{"type":"text","text":%q}}`, "m-"+prompt, word)})
	a.send(&wire.PromptResult{RunID: run, PromptID: prompt, OK: true, SessionID: session, StopReason: &stop})
}

func (a *acpAgent) send(f wire.Frame) {
	a.writing.Lock()
	defer a.writing.Unlock()
	raw, err := wire.Encode(f)
	if err == nil {
		err = a.conn.WriteMessage(websocket.TextMessage, raw)
	}
	if err != nil {
		a.t.Error(err)
	}
}

// TestACPSpellings: what an ACP agent asks is settled by each spelling of each surface: its
// proxy is answered once, with the agent's own option, and the chat goes on, watched or not. An
// answer that changes the arguments is refused and leaves it open.
func TestACPSpellings(t *testing.T) {
	t.Parallel()
	surfaces := slices.Sorted(maps.Keys(asked))
	for i, s := range approvals {
		surface, watched := surfaces[i%len(surfaces)], i%2 == 0
		t.Run(surface+"/"+s.name, func(t *testing.T) {
			t.Parallel()
			h, agent := newACPEnv(t, "rm -rf x")
			asked[surface](h)
			id := h.question()
			var tail *reader
			if watched {
				tail = h.open(h.request("GET", "/api/threads/T/events?after=1", "", "Accept", "text/event-stream"))
				defer tail.close()
			}
			got := s.send(h, id)
			if s.edits {
				if !strings.Contains(got.body, `"edit_not_allowed"`) || h.status(id).Status != store.ApprovalPending {
					t.Fatalf("HTTP %d %s; it is %s", got.status, got.body, h.status(id).Status)
				}
				got = h.decide(id, `{"decision":"approve"}`)
			}
			if got.status != 200 || strings.Contains(got.body, `"question_open"`) {
				t.Fatal(got.status, got.body)
			}
			select {
			case p := <-agent.heard:
				if p.SessionID != "S1" || p.RequestID != "7" || p.Outcome != wire.OutcomeSelected || p.OptionID == nil || *p.OptionID != "p-once" {
					t.Errorf("the proxy heard %+v", p)
				}
			case <-time.After(socketPatience):
				t.Fatal("the proxy hears nothing")
			}
			h.idle("T")
			if tail != nil {
				if _, err := tail.until(func(f frame) bool { return f.field("delta") == "heard selected p-once" }); err != nil {
					t.Errorf("who watched saw nothing: %v", err)
				}
			}
			if again := h.decide(id, `{"decision":"reject"}`); again.status != 409 || !strings.Contains(again.body, "APPROVED") {
				t.Errorf("who comes too late hears %d %s", again.status, again.body)
			}
			// What the proxy receives of one run comes in order: a second permission would be here.
			all := h.chat("T", "R9", "and now?")
			if text(all) != "well" || len(agent.heard) != 0 {
				t.Errorf("the chat says %q, and the proxy heard %d times more", text(all), len(agent.heard))
			}
			if history := joined(h.open(h.request("POST", "/api/agui/connect", `{"threadId":"T","protocolVersion":"1.0"}`)).rest()); !strings.Contains(history, "heard selected p-once") {
				t.Errorf("the chat did not go on: %s", history)
			}
		})
	}
}

// TestACPArgumentsAreNotEdited: an ACP agent executes its own arguments, so edits cannot be enforced. An attempt to change
// them is refused on every surface that has a form for it, and the question stays open.
func TestACPArgumentsAreNotEdited(t *testing.T) {
	t.Parallel()
	h, agent := newACPEnv(t, "rm -rf x")
	h.chat("T", "R", "go")
	id := h.question()
	for _, d := range desks {
		if d.payload == nil {
			continue
		}
		if code := d.at(h, id)(d.payload(`{"approved":true,"editedArgs":{"cmd":"ls"}}`)); code != "edit_not_allowed" || h.status(id).Status != store.ApprovalPending {
			t.Errorf("%s: code %q, and it is %s", d.name, code, h.status(id).Status)
		}
	}
	h.decide(id, `{"decision":"reject"}`)
	if p := <-agent.heard; p.OptionID == nil || *p.OptionID != "p-no" || len(agent.heard) != 0 {
		t.Errorf("the proxy heard %+v", p)
	}
	h.idle("T")
}
