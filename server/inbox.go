package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// batchBody is several decisions at once, not more than 100: each is a transaction of its own.
type batchBody struct {
	Decisions []rawJSON `json:"decisions" validate:"required,min=1,max=100"`
}

// batchedJSON is what became of one of them: the approval, or why not.
type batchedJSON struct {
	ApprovalID string       `json:"approval_id"`
	OK         bool         `json:"ok"`
	Code       string       `json:"code,omitempty"`
	Detail     string       `json:"detail,omitempty"`
	Approval   *settledJSON `json:"approval,omitempty"`
}

// decideAll is POST /api/approvals/decisions. Each decision stands for itself.
func (h *approvals) decideAll(c echo.Context) error {
	var body batchBody
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	out := struct {
		Decisions []batchedJSON `json:"decisions"`
	}{Decisions: make([]batchedJSON, 0, len(body.Decisions))}
	for _, raw := range body.Decisions {
		out.Decisions = append(out.Decisions, h.decideOne(c, raw))
	}
	return c.JSON(http.StatusOK, out)
}

// decideOne reads one of them by itself: what is wrong with it is no fault of the others.
func (h *approvals) decideOne(c echo.Context, raw rawJSON) batchedJSON {
	var d decisionFrame
	err := h.in.message(raw, &d)
	var settled settledJSON
	if err == nil {
		settled, err = h.decideNamed(c, d)
	}
	out := batchedJSON{ApprovalID: d.ApprovalID, OK: err == nil}
	if settled.ApprovalID != "" {
		out.Approval = &settled
	}
	if err != nil {
		p := problemOf(err)
		out.Code, out.Detail = p.Code, p.Detail
	}
	return out
}

func (h *approvals) decideNamed(c echo.Context, d decisionFrame) (settledJSON, error) {
	ctx := c.Request().Context()
	a, err := approvalFor(ctx, h.store, h.sessions, auth.From(ctx), auth.From(ctx).Inbox(), d.ApprovalID)
	if err != nil {
		return settledJSON{}, err
	}
	return h.settle(c, a, d.decisionBody)
}

// settle decides one, for decide and decideAll.
func (h *approvals) settle(c echo.Context, a store.Approval, body decisionBody) (settledJSON, error) {
	answer, err := body.answer(a)
	if err != nil {
		return settledJSON{}, err
	}
	name, err := h.thread(c, a.SessionID)
	if err != nil {
		return settledJSON{}, err
	}
	ctx := c.Request().Context()
	if err := h.in.mayDecide(c, auth.From(ctx).Principal); err != nil {
		return settledJSON{}, err
	}
	settled, err := h.sessions.Decide(ctx, auth.From(ctx).Principal, a.ID, answer, inbox.ViaREST)
	return settledJSON{approvalJSON: approvalOut(settled.Question.Approval, name), Won: settled.Won, Repeated: settled.Repeated}, err
}

type delegateBody struct {
	To    string     `json:"to" validate:"max=128"` // a user of the tenant; "" takes it back
	Until *time.Time `json:"until"`
}

// delegate is POST /api/approvals/{id}/delegate.
func (h *approvals) delegate(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	var body delegateBody
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	var until time.Time
	if body.Until != nil {
		if until = *body.Until; !until.After(time.Now()) {
			return refuse(codeInvalidBody, "until has passed already.")
		}
	}
	ctx := c.Request().Context()
	a, err := h.sessions.Delegate(ctx, auth.From(ctx).Principal, id, body.To, until)
	if err != nil {
		return err
	}
	h.sessions.Inbox().Look()
	h.sessions.Inbox().LookAgain(auth.From(ctx).Principal.Tenant)
	return c.JSON(http.StatusOK, approvalOut(a, ""))
}

// revoke is POST /api/approvals/{id}/revoke: until the call is dispatched.
func (h *approvals) revoke(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := h.sessions.Revoke(ctx, auth.From(ctx).Principal, id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// isDecided says that somebody else was first.
func isDecided(err error) bool {
	var refusal *bridge.Refusal
	return errors.As(err, &refusal) && refusal.Code == bridge.RefusedDecided
}
