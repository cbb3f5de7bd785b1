// The inbox over HTTP: list, read and decide questions. Live changes are in inboxstream.go, batches and delegation of
// one question in inbox.go. What a decision means and who may make it is decided by bridge/approval; the JSON shapes
// are those of server/answer, which the sockets and the channels use as well.

package server

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// approvals is /api/approvals: what people are asked for. Its words are the platform contract's. It keeps nothing
// between requests: any goroutine may call it.
type approvals struct {
	approvals *approval.Service
	store     store.Store
	// control knows on which proxy and in which folder an agent works, which a person wants to see before a decision.
	control bridge.Controller // nil when this server has no gateway
	in      *decode.Decoder
	out     *streams
}

// Mount adds the routes. All of them take tokens of approvers, which open no chat; which roles each needs is in the
// table of route.
func (h *approvals) Mount(to *route.Routes) {
	to.Deciders(http.MethodGet, "/api/approvals", h.list)
	to.Deciders(http.MethodGet, "/api/approvals/:id", h.get)
	to.Deciders(http.MethodPost, "/api/approvals/:id/decision", withBody(h.in, h.decide))
	to.Deciders(http.MethodPost, "/api/approvals/decisions", withBody(h.in, h.decideAll))
	to.Deciders(http.MethodPost, "/api/approvals/:id/delegate", withID("id", h.delegate))
	to.Deciders(http.MethodPost, "/api/approvals/:id/revoke", revokes(h.approvals.Revoke))
}

// approvalsQuery selects what is listed. Its values are compared with those of openapi.json by a test. delegated
// selects what was handed to the caller; the other members narrow the list and may be combined.
type approvalsQuery struct {
	Limit    int    `query:"limit" validate:"gte=0,lte=1000"`
	After    string `query:"after" validate:"omitempty,uuid"`
	Kind     string `query:"kind" validate:"omitempty,oneof=permission input"`
	Tool     string `query:"tool" validate:"max=200"`
	Mine     bool   `query:"delegated"` // what was delegated to the caller
	Status   string `query:"status" validate:"omitempty,oneof=PENDING APPROVED REJECTED EXPIRED CANCELLED"`
	ThreadID string `query:"thread_id" validate:"max=128"`
	RunID    string `query:"run_id" validate:"omitempty,uuid"`
}

// list gives the newest first; next goes into ?after= for more. With Accept: text/event-stream it is the live feed.
// The scope is what the caller may review, which is wider than what the caller may decide: an auditor sees the
// questions of the tenant. With delegated=true it is the caller's own scope, narrowed to questions that were handed
// to the caller.
func (h *approvals) list(c echo.Context) error {
	if wantsStream(c.Request()) {
		return h.stream(c)
	}
	var q approvalsQuery
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	ctx := c.Request().Context()
	in := auth.From(ctx).ReviewInbox()
	filter := store.ApprovalFilter{
		Status: store.ApprovalStatus(q.Status), TurnID: q.RunID, Kind: store.ApprovalKind(q.Kind), Tool: q.Tool,
	}
	if q.Mine {
		in, filter.DelegatedTo = auth.From(ctx).Scope(), auth.From(ctx).Principal.User
	}
	if q.ThreadID != "" {
		s, err := h.store.SessionByExternalID(ctx, in, q.ThreadID)
		if errors.Is(err, store.ErrNotFound) {
			// A thread of another user has a name of its own there, so it is found by the server's id alone, and only
			// while it is shared with the caller.
			var a store.Access
			a, err = h.store.Access(ctx, auth.From(ctx).Principal, store.AccessBy{SessionID: q.ThreadID})
			s = a.Session
		}
		if err != nil {
			return err
		}
		filter.SessionID = s.ID
	}
	page := store.Page{Limit: q.Limit, After: q.After}
	rows, err := h.store.Approvals(ctx, in, filter, page)
	if err != nil {
		return err
	}
	return h.write(c, rows, page)
}

// write sends one page. Questions of one Turn share their origin, so it is read once for each Turn and not for each
// row: an inbox is often full of questions of the same agent. A page of a thousand questions of one agent so costs
// two reads more than the list, and not two thousand.
func (h *approvals) write(c echo.Context, rows []store.Approval, page store.Page) error {
	out := struct {
		Approvals []answer.Approval `json:"approvals"`
		Next      string            `json:"next,omitempty"`
	}{Approvals: make([]answer.Approval, 0, len(rows))}
	// The map lives for one page. A Turn of a deleted Session is in it too, so that it is looked for once.
	origins := make(map[string]answer.Origin)
	for _, a := range rows {
		from, ok := origins[a.TurnID]
		if !ok {
			var err error
			if from, err = h.origin(c, a); err != nil {
				return err
			}
			origins[a.TurnID] = from
		}
		one := answer.ApprovalOf(a, from.Thread)
		one.Origin = from
		out.Approvals = append(out.Approvals, one)
	}
	out.Next = nextOf(rows, page.Size(), func(a store.Approval) string { return a.ID })
	return c.JSON(http.StatusOK, out)
}

// thread is what the client calls a Session; "" when it was deleted meanwhile. A deleted thread is no error here: its
// approvals stay for the audit and must stay readable.
func (h *approvals) thread(c echo.Context, sessionID string) (string, error) {
	ctx := c.Request().Context()
	s, err := h.store.Session(ctx, auth.From(ctx).ReviewInbox(), sessionID)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return s.ExternalID, err
}

// origin is where a question comes from; of a Session that was deleted meanwhile nothing is known. The Session is
// read in the caller's scope first, so the wider read of the Turn behind it adds nothing that the caller may not see.
func (h *approvals) origin(c echo.Context, a store.Approval) (answer.Origin, error) {
	ctx := c.Request().Context()
	s, err := h.store.Session(ctx, auth.From(ctx).ReviewInbox(), a.SessionID)
	if errors.Is(err, store.ErrNotFound) {
		return answer.Origin{}, nil
	}
	if err != nil {
		return answer.Origin{}, err
	}
	turn, err := h.store.Turn(ctx, store.System(), a.TurnID) // the Approval itself is the caller's to see
	if err != nil {
		return answer.Origin{}, err
	}
	from := answer.Origin{Thread: s.ExternalID, Agent: turn.AgentID}
	if h.control != nil {
		from.ProxyID, from.Folder, err = h.control.Place(ctx, bridge.InstanceID(s, turn.AgentID))
	}
	return from, err
}

// find reads the Approval of the path. A request that writes sees fewer than one that reads: an auditor may look at
// everything in the tenant, but decides only what waits for the auditor's own decision. Ids outside of that are
// audited. The two scopes differ on purpose: with the wider one an auditor could approve, with the narrower one an
// auditor could not audit.
func (h *approvals) find(c echo.Context) (store.Approval, error) {
	id, err := decode.PathID(c, "id")
	if err != nil {
		return store.Approval{}, err
	}
	ctx, caller := callerOf(c)
	if !writes(c.Request()) {
		return h.store.Approval(ctx, caller.ReviewInbox(), id)
	}
	return answer.FindApproval(ctx, h.store, h.approvals, caller, caller.Inbox(), id)
}

// get shows one question with where it comes from, open or decided. Decided questions are shown as well, with their
// decision, because links in mails and notifications lead here later.
func (h *approvals) get(c echo.Context) error {
	a, err := h.find(c)
	if err != nil {
		return err
	}
	from, err := h.origin(c, a)
	if err != nil {
		return err
	}
	out := answer.ApprovalOf(a, from.Thread)
	out.Origin = from
	return c.JSON(http.StatusOK, out)
}

// decide settles one question. When a different decision came first, the problem holds that decision, so that the
// page can show who decided without a second request. The same decision again is answered like the first. The
// question is read in the narrow scope before anything is counted or written, so an id that is not the caller's own
// to decide changes nothing but the audit.
func (h *approvals) decide(c echo.Context, body answer.Decision) error {
	a, err := h.find(c)
	if err != nil {
		return err
	}
	// From here on the row may be changed by another decision. settle compares under the Session's lock, so what was
	// read above decides nothing.
	settled, err := h.settle(c, a, body)
	if fault.CodeOf(err) == approval.AlreadyDecided {
		// A conflict is answered with the decision that won, which settle returns beside the error.
		p := problem.Of(err)
		p.Approval = &settled.Approval
		return p
	}
	return reply(c, http.StatusOK, settled, err)
}
