package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// This file handles the effect of a person's next message on open Questions. Neither a page's tool without an answer nor a
// question that a page cannot show may lock the thread.

// leaves reports whether all open calls are of clients' tools, so that the next message continues without them. If none is
// open, the Turn is about to continue with answers that it got.
func leaves(open []store.ToolCall) bool {
	for _, call := range open {
		if call.Status != store.ToolWaitingClient {
			return false
		}
	}
	return len(open) > 0
}

// goOn settles the calls of clients' tools that a new message leaves unanswered, in the transaction that takes the message. A
// later result is refused.
//
// The settlement, the message and the command that ends the Turn are one commit. The owner of the Session reads commands
// before settlements. So it ends the Turn and does not call the agent again with results that no page gave.
//
// A call that the request itself answers gets that answer (intake.goesOn). over reports that no other call was settled.
func (t *answerTaker) goOn(ctx context.Context, left []store.ToolCall) (over bool, err error) {
	if err := t.settleGiven(ctx); err != nil {
		return false, err
	}
	for _, s := range t.settled {
		if err := t.keepToolMessage(ctx, s, ""); err != nil {
			return false, err
		}
	}
	answered := slices.Clone(t.settled)
	for _, call := range left {
		if slices.ContainsFunc(answered, func(s approval.Settled) bool { return s.Question.Call.ID == call.ID }) {
			continue
		}
		q, err := approval.Of(ctx, t.tx, store.System(), call)
		if err != nil {
			return false, err
		}
		settled, err := t.approvals.Apply(ctx, t.tx, t.session, q, approval.WentOn(t.req.Principal.User), t.req.Principal)
		if err != nil {
			return false, err
		}
		if settled.Won {
			t.settled = append(t.settled, settled)
		}
	}
	return len(left) > 0 && len(t.settled) == len(answered), nil
}

// takeWords makes the message of a TDesign page the answer to the only open question. The question must accept any text, and
// the page must not declare a component for it: such a page cannot show the card.
func (t *answerTaker) takeWords(ctx context.Context) error {
	if t.req.Dialect != DialectTDesign || t.any || len(t.fresh) != 1 || t.active == nil || !t.active.Status.Paused() || len(t.fresh[0].Content.Parts) > 0 {
		return nil
	}
	open, err := t.tx.OpenToolCalls(ctx, store.System(), t.session.ID)
	if err != nil || len(open) != 1 || t.req.profile().declares(open[0].Name) {
		return err
	}
	q, err := approval.Of(ctx, t.tx, store.System(), open[0])
	if err != nil || q.Approval.Kind != store.ApprovalInput || !takesText(q.Approval.ResponseSchema) {
		return err
	}
	words := approval.Answer{QuestionID: q.Call.ID, Payload: mustJSON(t.fresh[0].Content.String())}
	t.any, t.given, t.words = true, []given{{q, words}}, true
	t.fresh = nil
	return nil
}

// takesText reports whether any text answers a question: it has no schema, or the schema of a text.
func takesText(schema json.RawMessage) bool {
	var is struct {
		Type string            `json:"type"`
		Enum []json.RawMessage `json:"enum"`
	}
	return len(schema) == 0 || json.Unmarshal(schema, &is) == nil && is.Type == "string" && is.Enum == nil
}

// tookWords adds a sentence that reports this to the page's own response.
func (t *answerTaker) tookWords() {
	if settled := t.settled; t.words && len(settled) == 1 {
		t.notes = append(t.notes, textMessage(fmt.Sprintf("Your message is the answer to “%s”.", settled[0].Question.Approval.Title))...)
	}
}

// notTaken returns the note about a message that arrives while a question is open. It names the way out, because an input may
// have no expiry.
func notTaken(active *store.Turn, fresh []agui.Message) any {
	stop := "/api/runs/" + active.ID + "/cancel"
	return map[string]any{
		"ids": idsOf(fresh), "cancel": stop,
		"message": "A question is open. Answer it, or stop it by POST " + stop + ", and send the message again.",
	}
}
