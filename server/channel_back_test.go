package server_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// deltasOf is the text of all deltas of a request, each seq once.
func deltasOf(all []channelMessage, request string) (text string) {
	seqs := make(map[int64]string)
	for _, m := range all {
		if m.Type == "delta" && m.RequestID == request {
			seqs[m.Seq] = m.Text
		}
	}
	keys := make([]int64, 0, len(seqs))
	for seq := range seqs {
		keys = append(keys, seq)
	}
	slices.Sort(keys)
	for _, seq := range keys {
		text += seqs[seq]
	}
	return text
}

// TestIngressRequestAgain: a client that lost its connection before the first message comes
// back, names its session or nothing, and repeats its request. It receives the Run from its
// first event on, not only from where its new connection began.
func TestIngressRequestAgain(t *testing.T) {
	t.Parallel()
	for name, hello := range map[string]string{"naming its session": `,"session_id":"s1"`, "naming nothing": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			h := newEnv(t, waits(gate))
			first := h.channel("")
			first.invoke("r1", "s1", "hello")
			all := first.until("delta")
			back := h.channel(hello)
			back.invoke("r1", "s1", "hello")
			begun := back.until("run_started")
			close(gate)
			all = append(all, first.until("done")...)
			again := append(begun, back.until("done")...)
			if want := deltasOf(all, "r1"); want == "" || deltasOf(again, "r1") != want {
				t.Errorf("heard %q again, first %q: %v", deltasOf(again, "r1"), want, gist(again))
			}
		})
	}
}

// TestIngressRoomForItsOwn: however many sessions of the user wait for an answer, a client receives the results of its own
// requests.
func TestIngressRoomForItsOwn(t *testing.T) {
	t.Parallel()
	h := newEnv(t, func(ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
		if input := call.Input(); input.Content.String() == "ask" {
			asks(ctx, say, call, answers)
			return
		}
		saysN(1)(ctx, say, call, answers)
	})
	for i := range 70 {
		ch := h.channel("")
		ch.ask(fmt.Sprint("asked", i), "ask", "WAITING_APPROVAL")
		_ = ch.conn.Close()
	}
	ch := h.channel("")
	for ch.next().Type != "approval_required" { // the first of the open questions has arrived
	}
	for i := range 32 { // as many as are left to a client for its own
		if own := ch.ask(fmt.Sprint("own", i), "hello", "DONE"); deltasOf(own, fmt.Sprint("own", i)) == "" {
			t.Fatalf("session %d: %v", i, gist(own))
		}
	}
}

// ask makes a request in a session of its own and returns its messages up to a state.
func (c *channelClient) ask(session, text, state string) (all []channelMessage) {
	c.t.Helper()
	c.invoke(session, session, text)
	for {
		m := c.next()
		if m.SessionID != session {
			continue
		}
		if m.Type == "error" {
			c.t.Fatalf("session %s: %s", session, m.raw)
		}
		if all = append(all, m); m.State == state {
			return all
		}
	}
}
