// Grants: answers given ahead of the question. A page gives one from the card of a question ("always allow this"), an
// administrator for a whole tenant. What a grant matches is judged by policy; this file only lists, gives and
// revokes.

package server

import (
	"encoding/json"
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

// grants is /api/grants: standing answers, until they end or are taken back. It keeps nothing between requests.
type grants struct {
	approvals *approval.Service
	store     store.Store
	in        *decode.Decoder
}

// Mount adds the routes. Giving one needs the role user, approver or admin; approval decides for whom each may give
// it.
func (h *grants) Mount(to *route.Routes) {
	to.Deciders(http.MethodGet, "/api/grants", h.list)
	to.Deciders(http.MethodPost, "/api/grants", withBody(h.in, h.give))
	to.Deciders(http.MethodDelete, "/api/grants/:id", revokes(h.approvals.Grants.Revoke))
	to.Deciders(http.MethodGet, "/api/grants/templates", h.templates)
}

// grantJSON is one standing answer: calls of Tool whose arguments are as Match has them need no person. Match has the
// form {"member": condition}, as the policy file has it; a grant without a Session holds for all of the user's
// threads.
type grantJSON struct {
	GrantID   string          `json:"grant_id"`
	User      string          `json:"user,omitempty"` // none: every user of the tenant
	Agent     string          `json:"agent,omitempty"`
	SessionID string          `json:"session_id,omitempty"`
	Tool      string          `json:"tool"`
	Kind      string          `json:"kind,omitempty"`
	Match     json.RawMessage `json:"match"`
	Template  string          `json:"template,omitempty"`
	Note      string          `json:"note,omitempty"`
	CreatedBy string          `json:"created_by"`
	CreatedAt time.Time       `json:"created_at"`
	ExpiresAt *time.Time      `json:"expires_at,omitempty"`
	// 0 is any number; Uses counts those that were made.
	MaxUses   int64      `json:"max_uses,omitempty"`
	Uses      int64      `json:"uses"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	RevokedBy string     `json:"revoked_by,omitempty"`
}

// grantOut is the JSON of a stored Grant.
func grantOut(g store.Grant) grantJSON {
	return grantJSON{
		GrantID: g.ID, User: g.User, Agent: g.AgentID, SessionID: g.SessionID, Tool: g.Tool, Kind: g.Kind, Match: g.Match,
		Template: g.Template, Note: g.Note, CreatedBy: g.CreatedBy, CreatedAt: g.CreatedAt.UTC(), ExpiresAt: answer.TimeOrNil(g.ExpiresAt),
		MaxUses: g.MaxUses, Uses: g.Uses, RevokedAt: answer.TimeOrNil(g.RevokedAt), RevokedBy: g.RevokedBy,
	}
}

// grantsJSON is one page, or what one request made: a template makes several. Only a list has next.
type grantsJSON struct {
	Grants []grantJSON `json:"grants"`
	Next   string      `json:"next,omitempty"`
}

// list includes grants that have ended, with their end: who gave what is asked after the fact. The same rows are what
// the audit refers to, so a grant that was revoked is never deleted.
func (h *grants) list(c echo.Context) error {
	rows, next, err := listPage(c, h.in, h.store.Grants, grantOut, func(g store.Grant) string { return g.ID })
	return reply(c, http.StatusOK, grantsJSON{Grants: rows, Next: next}, err)
}

// grantBody names a template of the policy's, or a tool and what its arguments must be. A template and a tool at once
// are refused by approval, because the request would have two meanings. Without ttl_seconds the template's span
// counts, or else the default of grants: none is given for ever by oversight.
type grantBody struct {
	Template   string          `json:"template" validate:"max=128"`
	Tool       string          `json:"tool" validate:"required_without=Template,max=200"`
	Kind       string          `json:"kind" validate:"max=64"`
	Agent      string          `json:"agent" validate:"max=128"`
	ThreadID   string          `json:"thread_id" validate:"max=128"`
	User       string          `json:"user" validate:"max=128"`
	Everyone   bool            `json:"everyone"`
	Match      json.RawMessage `json:"match"`
	TTLSeconds int64           `json:"ttl_seconds" validate:"gte=0,lte=31536000"`
	MaxUses    int             `json:"max_uses" validate:"gte=0,lte=1000000"`
	Note       string          `json:"note" validate:"max=1000"`
}

// give makes the grants of a request. Whether the caller may give them, and for whom, is decided by approval.
func (h *grants) give(c echo.Context, b grantBody) error {
	ctx := c.Request().Context()
	rows, err := h.approvals.Grants.Give(ctx, auth.From(ctx).Principal, approval.GrantRequest{
		Template: b.Template, Tool: b.Tool, Kind: b.Kind, AgentID: b.Agent, Session: b.ThreadID, User: b.User, Everyone: b.Everyone, Match: b.Match,
		TTL: time.Duration(b.TTLSeconds) * time.Second, MaxUses: b.MaxUses, Note: b.Note,
	})
	return reply(c, http.StatusOK, grantsJSON{Grants: eachOut(rows, grantOut)}, err)
}
