// Standing delegations: while I am away, this user may decide what I may. Handing over one single question is POST
// /api/approvals/{id}/delegate (inbox.go).

package server

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/approval"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/route"
	"aqueduct/store"
)

// delegations is /api/delegations: who may decide, for a while, what another may decide.
type delegations struct {
	approvals *approval.Service
	store     store.Store
	in        *decode.Decoder
}

// Mount adds the routes. Approvers who do not chat may delegate as well, since they are who goes on holiday.
func (h *delegations) Mount(to *route.Routes) {
	to.Deciders(http.MethodGet, "/api/delegations", h.list)
	to.Deciders(http.MethodPost, "/api/delegations", withBody(h.in, h.give))
	to.Deciders(http.MethodDelete, "/api/delegations/:id", revokes(h.approvals.Delegations.Revoke))
}

// delegationJSON is one delegation: From may decide what Tool, Kind and Agent select, and To may do so as well until ExpiresAt.
type delegationJSON struct {
	DelegationID string     `json:"delegation_id"`
	From         string     `json:"from"`
	To           string     `json:"to"`
	Tool         string     `json:"tool,omitempty"`
	Kind         string     `json:"kind,omitempty"` // ACP's, of a tool
	Agent        string     `json:"agent,omitempty"`
	Tenantwide   bool       `json:"tenantwide"` // the giver is an approver
	Note         string     `json:"note,omitempty"`
	CreatedAt    time.Time  `json:"created_at"`
	ExpiresAt    time.Time  `json:"expires_at"`
	RevokedAt    *time.Time `json:"revoked_at,omitempty"`
	RevokedBy    string     `json:"revoked_by,omitempty"`
}

// delegationOut is the JSON of a stored Delegation.
func delegationOut(d store.Delegation) delegationJSON {
	return delegationJSON{
		DelegationID: d.ID, From: d.User, To: d.To, Tool: d.Tool, Kind: d.ToolKind, Agent: d.AgentID, Tenantwide: d.Wide, Note: d.Note,
		CreatedAt: d.CreatedAt.UTC(), ExpiresAt: d.ExpiresAt.UTC(), RevokedAt: answer.TimeOrNil(d.RevokedAt), RevokedBy: d.RevokedBy,
	}
}

// delegationsJSON is one page; Next goes into ?after=. The page is shaped by hand and not by listPage, because its
// members are named after what they hold.
type delegationsJSON struct {
	Delegations []delegationJSON `json:"delegations"`
	Next        string           `json:"next,omitempty"`
}

// list includes those that have ended. What has ended stays listed with its end, since a decision made under it
// refers to it.
func (h *delegations) list(c echo.Context) error {
	rows, next, err := listPage(c, h.in, h.store.Delegations, delegationOut, func(d store.Delegation) string { return d.ID })
	return reply(c, http.StatusOK, delegationsJSON{Delegations: rows, Next: next}, err)
}

// delegationBody is to whom, until when, and what is delegated. The caller is the one who delegates. tool, kind and
// agent narrow it; without them it is everything that the giver may decide.
type delegationBody struct {
	To         string     `json:"to" validate:"required,max=128"`
	Tool       string     `json:"tool" validate:"max=200"`
	Kind       string     `json:"kind" validate:"max=64"`
	Agent      string     `json:"agent" validate:"max=128"`
	Until      *time.Time `json:"until" validate:"excluded_with=TTLSeconds"`
	TTLSeconds int64      `json:"ttl_seconds" validate:"gte=0,lte=31536000"`
	Note       string     `json:"note" validate:"max=1000"`
}

// give adds a delegation. Its end is a time or a span from now; a request with both is refused by the rules of the body,
// one with neither gets the default span: a delegation without an end would be forgotten and stay.
func (h *delegations) give(c echo.Context, b delegationBody) error {
	req := approval.DelegationRequest{To: b.To, Tool: b.Tool, ToolKind: b.Kind, AgentID: b.Agent, Note: b.Note}
	// Without either the time stays zero, and approval takes the default.
	switch {
	case b.Until != nil:
		req.Until = *b.Until
	case b.TTLSeconds > 0:
		req.Until = time.Now().Add(time.Duration(b.TTLSeconds) * time.Second)
	}
	ctx := c.Request().Context()
	d, err := h.approvals.Delegations.Give(ctx, auth.From(ctx).Principal, req)
	return reply(c, http.StatusOK, delegationOut(d), err)
}
