// What people do in an inbox: several decisions at once, handing a question over, and the one function that settles a
// question for every route of this file and of approvals.go.

package server

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/approval"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/problem"
	"aqueduct/store"
)

// batchBody is several decisions at once, not more than 100: each is a transaction of its own. The elements stay raw
// here, so that one with a mistake is answered by itself.
// Each has the form {"approval_id":…,"decision":"approve"}, with the members of a single decision.
type batchBody struct {
	Decisions []json.RawMessage `json:"decisions" validate:"required,min=1,max=100"`
}

// batchedJSON is what became of one of them: the approval, or why not. A refused one that was decided before has
// both: the code, and the decision that stands.
type batchedJSON struct {
	ApprovalID string          `json:"approval_id"`
	OK         bool            `json:"ok"`
	Code       string          `json:"code,omitempty"`
	Detail     string          `json:"detail,omitempty"`
	Approval   *answer.Settled `json:"approval,omitempty"`
}

// decideAll is POST /api/approvals/decisions. Each decision stands for itself. They are made one after the other, in
// the order of the body. A crash in between leaves those made that were answered, and repeating the whole request is
// safe.
func (h *approvals) decideAll(c echo.Context, body batchBody) error {
	out := struct {
		Decisions []batchedJSON `json:"decisions"`
	}{Decisions: make([]batchedJSON, 0, len(body.Decisions))}
	for _, raw := range body.Decisions {
		out.Decisions = append(out.Decisions, h.decideOne(c, raw))
	}
	return c.JSON(http.StatusOK, out)
}

// decideOne reads one of them by itself: what is wrong with it is no fault of the others. A decision that conflicts
// is answered with the one that stands, as by the route of a single one.
func (h *approvals) decideOne(c echo.Context, raw json.RawMessage) batchedJSON {
	var d answer.NamedDecision
	err := h.in.Message(raw, &d)
	var settled answer.Settled
	if err == nil {
		settled, err = h.decideNamed(c, d)
	}
	out := batchedJSON{ApprovalID: d.ApprovalID, OK: err == nil}
	if settled.ApprovalID != "" {
		out.Approval = &settled
	}
	if err != nil {
		p := problem.Of(err)
		out.Code, out.Detail = p.Code, p.Detail
	}
	return out
}

// decideNamed finds the question in the caller's inbox and settles it. The inbox alone counts here: an auditor who
// sees a question in the list cannot decide it through a batch either.
func (h *approvals) decideNamed(c echo.Context, d answer.NamedDecision) (answer.Settled, error) {
	ctx := c.Request().Context()
	a, err := answer.FindApproval(ctx, h.store, h.approvals, auth.From(ctx), auth.From(ctx).Inbox(), d.ApprovalID)
	if err != nil {
		return answer.Settled{}, err
	}
	return h.settle(c, a, d.Decision)
}

// settle decides one question, for decide and decideAll. The thread's name is read before the decision: afterwards
// the thread may be deleted, and a decision that was made must be answered as made. The limit on decisions is taken
// last of all checks, so that a request which cannot succeed does not use it up. A repeated decision is no error:
// Repeated is set, and the answer is that of the first.
func (h *approvals) settle(c echo.Context, a store.Approval, body answer.Decision) (answer.Settled, error) {
	words, err := body.Words()
	if err != nil {
		return answer.Settled{}, err
	}
	name, err := h.thread(c, a.SessionID)
	if err != nil {
		return answer.Settled{}, err
	}
	ctx := c.Request().Context()
	if err := h.in.MayDecide(c, auth.From(ctx).Principal); err != nil {
		return answer.Settled{}, err
	}
	settled, err := h.approvals.DecideInWords(ctx, auth.From(ctx).Principal, a.ID, words, approval.ViaREST)
	return answer.Settled{Approval: answer.ApprovalOf(settled.Question.Approval, name), Won: settled.Won, Repeated: settled.Repeated}, err
}

// delegateBody hands one question over to another user, until a time or until it is decided. Without until it stays
// with the other user until it is decided.
type delegateBody struct {
	To    string     `json:"to" validate:"max=128"` // a user of the tenant; "" takes it back
	Until *time.Time `json:"until"`
}

// delegate is POST /api/approvals/{id}/delegate. The answer has no thread name: who hands a question over knows it,
// and the new owner may not see the thread.
func (h *approvals) delegate(c echo.Context, id string) error {
	var body delegateBody
	if err := h.in.JSON(c, &body); err != nil {
		return err
	}
	var until time.Time
	if body.Until != nil {
		if until = *body.Until; !until.After(time.Now()) {
			return problem.Refuse(problem.InvalidBody, "until has passed already.")
		}
	}
	ctx := c.Request().Context()
	a, err := h.approvals.Delegations.Delegate(ctx, auth.From(ctx).Principal, id, body.To, until)
	return reply(c, http.StatusOK, answer.ApprovalOf(a, ""), err)
}
