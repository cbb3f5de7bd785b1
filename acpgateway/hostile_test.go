package acpgateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// refused fails the test unless so many frames were refused for a reason since before.
func (h *acpEnv) refusedSince(before map[string]int, reason string, n int) {
	h.t.Helper()
	h.settleNow()
	if got := h.refusals()[reason] - before[reason]; got != n {
		h.t.Errorf("%d frames were refused as %s, want %d; all: %v", got, reason, n, h.refusals())
	}
}

// A proxy that names the run of another, or none there is, changes nothing for anybody.
func TestS06ForeignRun(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p1, thief := newProxy(h, "p1").link(), newProxy(h, "p2")
		thief.agent = "other"
		thief.link()
		c := p1.begin("t1", "hi")
		c.says("m", "mine ")
		before := h.refusals()
		stop := "end_turn"
		for _, run := range []string{c.run, "no-such-run", strings.Repeat("x", 200), "00dc6ad0-0000-7000-8000-000000000000"} {
			thief.send(
				update(run, c.prompt, chunk("m", "stolen")),
				&wire.PromptResult{RunID: run, PromptID: c.prompt, OK: true, StopReason: &stop},
				signal(run, `{"type":"permission_request","request_id":"9","session_id":"S1","prompt_id":"`+c.prompt+`","tool_call":{"toolCallId":"x"},
					"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}`),
				exitOf(run, nil), &wire.Opened{RunID: run, OK: true}, &wire.Closed{RunID: run, OK: true}, &wire.BranchCreated{RunID: run, Branch: "evil"},
			)
		}
		h.refusedSince(before, "foreign_run", 28)
		thief.silent()
		if n := thief.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n) // it would send them for ever
		}
		c.says("m", "alone")
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "says: mine alone", "DONE success")
	})
}

// A proxy may number frames of as many runs as it makes up: nothing of them is remembered but
// that some are not its own.
func TestInventedRuns(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		for i := range 5000 {
			p.send(update(fmt.Sprint("invented-", i), "", chunk("m", "x")))
		}
		p.send(update("invented-0", "", chunk("m", "x"))) // forgotten to be foreign meanwhile
		c.says("m", "alone")
		c.ends()
		c.s.rest()
		h.settle()
		lines, foreign := h.gateway.Remembered("p1")
		if lines != 1 || foreign > 4096 {
			t.Errorf("%d lines, %d foreign runs", lines, foreign)
		}
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		h.reads("t1", "RUN", "says: alone", "DONE success")
	})
}

// Whatever is no message of the contract is counted and forgotten.
func TestMalformedAndUnknown(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		before := h.refusals()
		malformed := []string{
			``, `{`, `null`, `[]`, `"x"`, `{}`, `{"type":5}`, `{"type":"acp_update","run_id":"` + c.run + `","prompt_id":7,"update":{}}`,
			`{"type":"prompt_result","run_id":"` + c.run + `","ok":"yes"}`, `{"type":"acp_exit","run_id":"` + strings.Repeat("x", 201) + `"}`, `{"type":"acp_opened","run_id":{}}`, `{"type":"acp_update","update":{}}`,
		}
		for _, body := range malformed {
			p.raw(body)
		}
		h.refusedSince(before, "malformed", len(malformed))
		for _, name := range []string{"hello", "acp_update2", "acp.update", strings.Repeat("t", 1<<16)} {
			p.raw(`{"type":"` + name + `","run_id":"` + c.run + `"}`)
		}
		h.refusedSince(before, "unknown_type", 4)
		for _, name := range []string{"register_ack", "acp_open", "acp_close", "prompt_send", "session_cancel", "session_permission", "sandbox_control"} {
			p.raw(`{"type":"` + name + `","run_id":"` + c.run + `"}`)
		}
		h.refusedSince(before, "unexpected", 7)
		// Odd updates and signals are passed on as they are.
		for _, raw := range []string{`null`, `5`, `{}`, `{"sessionUpdate":"new_in_2030","x":1}`, `{"sessionUpdate":"tool_call"}`} {
			c.update(raw)
		}
		for _, raw := range []string{`null`, `{}`, `{"type":"invented"}`, `{"type":"text","text":{}}`, `{"type":"permission_request","request_id":[]}`} {
			p.send(signal(c.run, raw))
		}
		c.says("m", "well")
		c.ends()
		c.s.rest()
		events := h.events("t1")
		h.legal("t1", events)
		if got := transcript(t, events); !strings.HasSuffix(got, lines("says: well", "DONE success")) || !strings.Contains(got, "custom acp.new_in_2030") ||
			!strings.Contains(got, "custom proxy.invented") {
			t.Error(got)
		}
	})
}

// A numbered frame that cannot be read has its number all the same: what follows is taken.
func TestMalformedNumberedFrame(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi") // acp_opened was 1
		p.mu.Lock()
		p.seqs[c.run] += 2
		p.mu.Unlock()
		p.raw(`{"type":"acp_update","run_id":"` + c.run + `","prompt_id":7,"seq":2}`)
		p.raw(`{"type":"invented","run_id":"` + c.run + `","seq":3}`)
		c.says("m", "well")
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "says: well", "DONE success")
		h.settle()
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
	})
}

// A frame over the limit ends the link with 1009; other proxies notice nothing, and the
// Session goes on when the proxy is back.
func TestFrameOverTheLimit(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p, other := newProxy(h, "p1").link(), newProxy(h, "p2")
		other.agent = "other"
		other.link()
		c := p.begin("t1", "hi")
		c.says("m", "before ")
		h.settle()
		go p.raw(`{"type":"acp_update","run_id":"` + c.run + `","update":"` + strings.Repeat("x", 17<<20) + `"}`)
		if code := p.closed(); code != websocket.CloseMessageTooBig {
			t.Errorf("closed with %d", code)
		}
		s := h.request(bridge.ChatRequest{ThreadID: "t2", AgentID: "other", Messages: []agui.Message{{ID: "u", Role: "user", Content: agui.Text("hi")}}})
		open := want[*wire.Open](other)
		other.send(&wire.Opened{RunID: open.RunID, OK: true})
		sent := want[*wire.PromptSend](other)
		other.send((&conversation{run: sent.RunID, prompt: sent.PromptID}).result())
		s.rest()
		h.reads("t2", "RUN", "DONE success")
		h.pass(2 * time.Second)
		p.link()
		c.says("m", "after")
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "says: before after", "DONE success")
	})
}

// An option without a kind gets the one that its name implies; where that implies none a person picks it by name. A request
// that offers nothing at all is declined, and the chat shows it.
func TestOptionsOfUnknownKinds(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		ask := func(id, options string) {
			p.send(signal(c.run, `{"type":"permission_request","request_id":"`+id+`","session_id":"S1","prompt_id":"`+c.prompt+`",
				"tool_call":{"toolCallId":"x`+id+`","title":"X","kind":"edit"},"options":[`+options+`]}`))
		}
		before := h.refusals()
		ask("0", ``)
		if said := want[*wire.SessionPermission](p); said.Outcome != "cancelled" || said.OptionID != nil {
			t.Errorf("%+v", said)
		}
		h.refusedSince(before, "malformed", 1)
		for i, c2 := range []struct{ options, choose, told string }{
			{`{"optionId":"a","name":"Yes, do it","kind":"weird"},{"optionId":"n","name":"No"}`, `{"approved":true}`, "a"},
			{`{"optionId":"a","name":"Yes, do it","kind":"weird"},{"optionId":"n","name":"No"}`, `{"approved":false}`, "n"},
			{`{"optionId":"always","name":""},{"optionId":"deny"}`, `{"approved":false}`, "deny"},
			{`{"optionId":"b","name":"Blue"},{"optionId":"g","name":"Green"}`, `{"optionId":"option#2"}`, "g"},
		} {
			ask(fmt.Sprint(i+1), c2.options)
			h.settle()
			h.settle()
			h.settle()
			h.request(bridge.ChatRequest{ThreadID: "t1", Answers: []approval.Answer{{QuestionID: h.asked("t1")[0], Payload: []byte(c2.choose)}}})
			if said := want[*wire.SessionPermission](p); said.OptionID == nil || *said.OptionID != c2.told {
				t.Errorf("%s: %+v", c2.options, said)
			}
			h.settle()
		}
		c.ends()
		h.settle()
		if n := h.count("t1", "acp.permission_declined"); n != 1 {
			t.Errorf("the chat was told %d times", n)
		}
	})
}
