package acpgateway_test

import (
	"strings"
	"testing"

	"aqueduct/acpgateway/acp"
	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// elicits is a request for input, as our proxy passes it on.
func (c *conversation) elicits(request, rest string) {
	c.p.say(signal(c.run, `{"type":"elicitation_request","request_id":"`+request+`","session_id":"`+agentSession+`","prompt_id":"`+c.prompt+`",`+rest+`}`))
}

const nameForm = `"mode":"form","message":"Which branch?","requested_schema":{"type":"object","properties":{"branch":{"type":"string"}},"required":["branch"]}`

// An agent's request for input is a Question of kind input, with its schema; what a person says
// goes back to the agent, and that nobody wants to say.
func TestElicitation(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "One thing: ")
		answer := func(a inbox.Answer) *acp.SessionElicitation {
			a.QuestionID = h.asked("t1")[0]
			approval, err := h.store.Approval(h.t.Context(), store.System(), a.QuestionID)
			h.must(err)
			if approval.Kind != store.ApprovalInput {
				t.Errorf("%+v", approval)
			}
			h.request(bridge.ChatRequest{ThreadID: "t1", Answers: []inbox.Answer{a}})
			return want[*acp.SessionElicitation](p)
		}
		c.elicits("e-1", nameForm)
		c.s.rest()
		approval, err := h.store.Approval(h.t.Context(), store.System(), h.asked("t1")[0])
		h.must(err)
		if approval.Title != "Which branch?" || !strings.Contains(string(approval.ResponseSchema), `"branch"`) {
			t.Errorf("%+v", approval)
		}
		if said := answer(inbox.Answer{Payload: []byte(`{"branch":"main"}`)}); said.RequestID != "e-1" || said.SessionID != agentSession ||
			said.Action != acp.ElicitAccept || string(said.Content) != `{"branch":"main"}` {
			t.Errorf("%+v", said)
		}
		h.settle()
		c.elicits("e-2", nameForm)
		h.settle()
		if said := answer(inbox.Answer{Cancelled: true}); said.RequestID != "e-2" || said.Action != acp.ElicitDecline || said.Content != nil {
			t.Errorf("%+v", said)
		}
		h.settle()
		c.elicits("e-3", `"mode":"url","message":"Please log in.","url":"https://login.example/"`)
		h.settle()
		if said := answer(inbox.Answer{Payload: []byte(`{"action":"accept"}`)}); said.Action != acp.ElicitAccept || said.Content != nil {
			t.Errorf("%+v", said)
		}
		h.settle()
		c.elicits("e-4", nameForm)
		h.settle()
		h.cancel("t1")
		want[*acp.SessionCancel](p)
		if said := want[*acp.SessionElicitation](p); said.RequestID != "e-4" || said.Action != acp.ElicitCancel {
			t.Errorf("%+v", said)
		}
		h.settle()
		if open := h.asked("t1"); len(open) != 0 {
			t.Errorf("open: %v", open)
		}
	})
}
