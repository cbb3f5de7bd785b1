package server_test

import (
	"context"
	"encoding/json"

	"strings"
	"testing"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
)

// TestIngressHelloIsAnswered: a client is sent that its hello was good, and for whom it speaks, before anything of its sessions.
func TestIngressHelloIsAnswered(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	c := h.channel("")
	c.invoke("r1", "s1", "hi")
	c.until("state WAITING_APPROVAL")
	for name, hello := range map[string]string{
		"plain": "", "a session": `,"session_id":"s1"`, "a position": `,"last_seq":{"s1":0}`, "its request": `,"request_id":"h1"`, "a bad position": `,"last_seq":{"s1":99999}`,
	} {
		conn, _, err := h.dial("/ws/ingress")
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.WriteMessage(1, []byte(`{"type":"hello","user_id":"local"`+hello+`}`)); err != nil {
			t.Fatal(err)
		}
		raw, err := receive(conn)
		if err != nil {
			t.Fatal(name, err)
		}
		var m struct {
			channelMessage
			UserID string `json:"user_id"`
		}
		if err := json.Unmarshal(raw, &m); err != nil || m.Type != "hello_ok" || m.UserID != "local" || m.SessionID != "" || m.Seq != 0 || m.TS == 0 {
			t.Errorf("%s: %s", name, raw)
		}
		if want := map[bool]string{true: "h1"}[strings.Contains(hello, "h1")]; m.RequestID != want {
			t.Errorf("%s: %s", name, raw)
		}
	}
}

// TestIngressFinishedRequestAgain checks a request that is repeated after its end. It gets its last state, and done or error,
// but no start. A request that waits gets its start and the state that names its approval.
func TestIngressFinishedRequestAgain(t *testing.T) {
	t.Parallel()
	h := newEnv(t, func(ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
		switch call.Input().Content.String() {
		case "ask":
			asks(ctx, say, call, answers)
		case "fail":
			say(bridge.Output{End: &bridge.End{Failure: fault.New("out_of_luck", "No luck.")}})
		case "wait":
			say(texts("m"+call.TurnID, "Hm.")...)
			<-ctx.Done()
		default:
			saysN(1)(ctx, say, call, answers)
		}
	})
	c := h.channel("")
	for text, want := range map[string]string{
		"hi": "state DONE | done", "fail": "state FAILED | error out_of_luck", "wait": "state CANCELLED | done", "ask": "state DONE | done",
	} {
		c.invoke(text, "s-"+text, text)
		var all []channelMessage
		switch text {
		case "ask":
			all = c.until("state WAITING_APPROVAL")
			c.invoke(text, "s-"+text, text)
			started, state := c.next(), c.next()
			if started.is() != "run_started" || !started.Again || state.is() != "state WAITING_APPROVAL" || state.Detail.ApprovalID == "" || state.RunID != started.RunID {
				t.Errorf("waiting: %s, %s", started.raw, state.raw)
			}
			c.approve(state.Detail.ApprovalID)
			all = append(all, c.until("done")...)
		case "wait":
			all = c.until("delta Hm.")
			c.send(`{"type":"cancel_run","run_id":"` + all[0].RunID + `"}`)
			all = append(all, c.until("done")...)
		case "fail":
			for m := c.next(); ; m = c.next() {
				if all = append(all, m); m.Type == "error" {
					break
				}
			}
		default:
			all = c.until("done")
		}
		for range 2 {
			c.invoke(text, "s-"+text, text)
			again := []channelMessage{c.next(), c.next()}
			if gist(again) != want {
				t.Errorf("%s: %s, want %s", text, gist(again), want)
			}
			for _, m := range again {
				if !m.Again || m.RunID != all[0].RunID || m.RequestID != text || m.SessionID != "s-"+text || m.Seq != last(all).Seq {
					t.Errorf("%s: %s after %s", text, m.raw, last(all).raw)
				}
			}
		}
	}
	if n := len(h.agent.prompts()); n != 5 { // with the answer
		t.Errorf("the agent was called %d times", n)
	}
}

// TestIngressQueuedRequestAgain: the same for one that came by the queue, which is answered with task_enqueued first. To cancel one
// that waits is answered with its session, its request and its run.
func TestIngressQueuedRequestAgain(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	h := newEnv(t, waits(gate))
	c := h.channel("")
	invoke := func(request, session string) {
		c.send(`{"type":"agent_invoke","mode":"async","request_id":"` + request + `","session_id":"` + session + `","message":{"role":"user","content":"hi"}}`)
	}
	invoke("r1", "s1")
	c.until("delta 0 <é&>")
	invoke("r2", "s1") // after it in the queue
	waiting := last(c.until("task_enqueued"))
	cancel := `{"type":"cancel_run","request_id":"c1","run_id":"` + waiting.RunID + `"}`
	isAnswer := func(m channelMessage) bool {
		return m.is() == "state CANCELLED" && m.RunID == waiting.RunID && m.SessionID == "s1" && m.RequestID == "c1"
	}
	other := h.channel("")
	other.send(cancel)
	if m := other.next(); !isAnswer(m) {
		t.Errorf("cancelled: %s", m.raw)
	}
	c.send(cancel) // again: this connection gets the answer, and the end of the request that it waits for
	for answered, ended := false, false; !answered || !ended; {
		switch m := c.next(); {
		case isAnswer(m):
			answered = true
		case m.RequestID != "r2" || m.SessionID != "s1" || m.RunID != waiting.RunID:
			t.Fatalf("%s", m.raw)
		case m.Type == "done":
			ended = true
		}
	}
	close(gate)
	c.until("done")
	invoke("r1", "s1")
	if got := gist(c.until("done")); got != "task_enqueued | state DONE | done" {
		t.Errorf("again: %s", got)
	}
}
