package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// approvals is /api/approvals: what people are asked for. Its words are the platform
// contract's.
type approvals struct {
	sessions *bridge.Sessions
	store    store.Store
	control  bridge.Controller // nil when this server has no gateway
	in       *intake
	out      *streams
}

func (h *approvals) mount(to *routes) {
	to.deciders(http.MethodGet, "/api/approvals", h.list)
	to.deciders(http.MethodGet, "/api/approvals/:id", h.get)
	to.deciders(http.MethodPost, "/api/approvals/:id/decision", h.decide)
	to.deciders(http.MethodPost, "/api/approvals/decisions", h.decideAll)
	to.deciders(http.MethodPost, "/api/approvals/:id/delegate", h.delegate)
	to.deciders(http.MethodPost, "/api/approvals/:id/revoke", h.revoke)
}

type approvalJSON struct {
	ApprovalID string `json:"approval_id"`
	ToolCallID string `json:"tool_call_id"`
	RunID      string `json:"run_id"` // the contract's run: our Turn
	ThreadID   string `json:"thread_id,omitempty"`
	origin
	Kind           string     `json:"kind"`
	Status         string     `json:"status"`
	ToolName       string     `json:"tool_name,omitempty"`
	ToolKind       string     `json:"tool_kind,omitempty"` // ACP's
	Title          string     `json:"title,omitempty"`
	Args           rawJSON    `json:"args,omitempty"`
	ArgsSHA256     string     `json:"args_sha256,omitempty"`
	Options        rawJSON    `json:"options,omitempty"`
	ResponseSchema rawJSON    `json:"response_schema,omitempty"`
	Risk           string     `json:"risk,omitempty"`
	CreatedAt      time.Time  `json:"created_at"`
	ExpiresAt      *time.Time `json:"expires_at,omitempty"`
	DecidedAt      *time.Time `json:"decided_at,omitempty"`
	DecidedBy      string     `json:"decided_by,omitempty"`
	DecidedVia     string     `json:"decided_via,omitempty"`
	Decision       rawJSON    `json:"decision,omitempty"`
	Reason         string     `json:"reason,omitempty"`
	Approvers      rawJSON    `json:"approvers,omitempty"`
	FourEyes       bool       `json:"four_eyes,omitempty"`
	MayEdit        bool       `json:"may_edit,omitempty"`
	EditedArgs     rawJSON    `json:"edited_args,omitempty"`
	DelegatedTo    string     `json:"delegated_to,omitempty"`
	DelegatedBy    string     `json:"delegated_by,omitempty"`
	DelegatedUntil *time.Time `json:"delegated_until,omitempty"`
}

func approvalOut(a store.Approval, threadID string) approvalJSON {
	return approvalJSON{
		ApprovalID: a.ID, ToolCallID: a.ID, RunID: a.TurnID, ThreadID: threadID, Kind: string(a.Kind), Status: string(a.Status),
		ToolName: a.Tool, ToolKind: a.ToolKind, Title: a.Title, Args: a.Args, ArgsSHA256: a.ArgsSHA256, Options: a.Options,
		ResponseSchema: a.ResponseSchema, Risk: a.Risk, CreatedAt: a.CreatedAt.UTC(), ExpiresAt: moment(a.ExpiresAt),
		DecidedAt: moment(a.DecidedAt), DecidedBy: a.DecidedBy, DecidedVia: a.DecidedVia, Decision: a.Decision, Reason: a.Reason,
		Approvers: a.Approvers, FourEyes: a.FourEyes, MayEdit: a.MayEdit, EditedArgs: a.EditedArgs,
		DelegatedTo: a.DelegatedTo, DelegatedBy: a.DelegatedBy, DelegatedUntil: moment(a.DelegatedUntil),
	}
}

// origin is who asks, and where an ACP agent that asks works.
type origin struct {
	thread  string
	Agent   string `json:"agent,omitempty"`
	ProxyID string `json:"proxy_id,omitempty"`
	Folder  string `json:"folder,omitempty"`
}

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

// list gives the newest first; next goes into ?after= for more. With Accept: text/event-stream
// it is the live feed.
func (h *approvals) list(c echo.Context) error {
	if wantsStream(c.Request()) {
		return h.stream(c)
	}
	var q approvalsQuery
	if err := h.in.query(c, &q); err != nil {
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

func (h *approvals) write(c echo.Context, rows []store.Approval, page store.Page) error {
	out := struct {
		Approvals []approvalJSON `json:"approvals"`
		Next      string         `json:"next,omitempty"`
	}{Approvals: make([]approvalJSON, 0, len(rows))}
	origins := make(map[string]origin)
	for _, a := range rows {
		from, ok := origins[a.TurnID]
		if !ok {
			var err error
			if from, err = h.origin(c, a); err != nil {
				return err
			}
			origins[a.TurnID] = from
		}
		one := approvalOut(a, from.thread)
		one.origin = from
		out.Approvals = append(out.Approvals, one)
	}
	if len(rows) == page.Size() {
		out.Next = rows[len(rows)-1].ID
	}
	return c.JSON(http.StatusOK, out)
}

// thread is what the client calls a Session; "" when it was deleted meanwhile.
func (h *approvals) thread(c echo.Context, sessionID string) (string, error) {
	ctx := c.Request().Context()
	s, err := h.store.Session(ctx, auth.From(ctx).ReviewInbox(), sessionID)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return s.ExternalID, err
}

// origin is where a question comes from; of a Session that was deleted meanwhile nothing is known.
func (h *approvals) origin(c echo.Context, a store.Approval) (origin, error) {
	ctx := c.Request().Context()
	s, err := h.store.Session(ctx, auth.From(ctx).ReviewInbox(), a.SessionID)
	if errors.Is(err, store.ErrNotFound) {
		return origin{}, nil
	}
	if err != nil {
		return origin{}, err
	}
	turn, err := h.store.Turn(ctx, store.System(), a.TurnID) // the Approval itself is the caller's to see
	if err != nil {
		return origin{}, err
	}
	from := origin{thread: s.ExternalID, Agent: turn.AgentID}
	if h.control != nil {
		from.ProxyID, from.Folder, err = h.control.Place(ctx, bridge.InstanceID(s, turn.AgentID))
	}
	return from, err
}

func (h *approvals) find(c echo.Context) (store.Approval, error) {
	id, err := pathID(c, "id")
	if err != nil {
		return store.Approval{}, err
	}
	ctx := c.Request().Context()
	caller := auth.From(ctx)
	if !writes(c.Request()) {
		return h.store.Approval(ctx, caller.ReviewInbox(), id)
	}
	return approvalFor(ctx, h.store, h.sessions, caller, caller.Inbox(), id)
}

func (h *approvals) get(c echo.Context) error {
	a, err := h.find(c)
	if err != nil {
		return err
	}
	from, err := h.origin(c, a)
	if err != nil {
		return err
	}
	out := approvalOut(a, from.thread)
	out.origin = from
	return c.JSON(http.StatusOK, out)
}

// decisionBody takes the contract's words (approve, reject), an option, or the value of an
// input.
type decisionBody struct {
	Decision string  `json:"decision" validate:"omitempty,oneof=approve reject cancel"`
	OptionID string  `json:"option_id" validate:"max=256"`
	Approved *bool   `json:"approved" validate:"required_without_all=Decision OptionID Payload"`
	Payload  rawJSON `json:"payload"`
	edited
	Reason string `json:"reason" validate:"max=2000"`
}

// edited is what shall run instead, where the question allows it. Who changes arguments and
// spells that as AG-UI's resume does must not have the others run.
type edited struct {
	Edited rawJSON `json:"edited_args"`
	AsAGUI rawJSON `json:"editedArgs"`
}

func (e edited) args() (rawJSON, error) {
	switch {
	case !there(e.AsAGUI):
		return e.Edited, nil
	case there(e.Edited):
		return nil, refuse(bridge.RefusedInvalidAnswer, "edited_args and editedArgs are the same; give one.")
	}
	return e.AsAGUI, nil
}

// answer reads the body as every other surface's answer is read. To reject an input is to
// give none.
func (b decisionBody) answer(a store.Approval) (inbox.Answer, error) {
	out := inbox.Answer{QuestionID: a.ID, Reason: b.Reason}
	if there(b.Payload) {
		out.Payload = b.Payload
	}
	edited, err := b.args()
	if err != nil {
		return out, err
	}
	approved := b.Approved
	switch b.Decision {
	case "approve", "reject":
		yes := b.Decision == "approve"
		if approved != nil && *approved != yes {
			return out, refuse(bridge.RefusedInvalidAnswer, "decision and approved contradict each other.")
		}
		approved = &yes
	}
	refused := approved != nil && !*approved
	out.Cancelled = b.Decision == "cancel" || refused && a.Kind == store.ApprovalInput
	if out.Cancelled {
		return out, nil
	}
	if out.Payload != nil {
		if a.Kind == store.ApprovalPermission && (approved != nil || b.OptionID != "" || there(edited)) {
			return out, refuse(bridge.RefusedInvalidAnswer, "A permission is answered in the payload or beside it, not in both: they could differ.")
		}
		return out, nil
	}
	if a.Kind == store.ApprovalInput {
		return out, refuse(bridge.RefusedInvalidAnswer, "An input is answered with a payload.")
	}
	payload, err := json.Marshal(struct {
		OptionID string  `json:"optionId,omitempty"`
		Approved *bool   `json:"approved,omitempty"`
		Edited   rawJSON `json:"editedArgs,omitempty"`
	}{b.OptionID, approved, edited})
	out.Payload = payload
	return out, err
}

// settledJSON is what became of a decision.
type settledJSON struct {
	approvalJSON
	Won      bool `json:"won"`
	Repeated bool `json:"repeated"`
}

func (h *approvals) decide(c echo.Context) error {
	var body decisionBody
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	a, err := h.find(c)
	if err != nil {
		return err
	}
	settled, err := h.settle(c, a, body)
	if isDecided(err) {
		p := problemOf(err)
		p.Approval = &settled.approvalJSON
		return p
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, settled)
}
