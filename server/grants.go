package server

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// grants is /api/grants: standing answers, until they end or are taken back.
type grants struct {
	sessions *bridge.Sessions
	store    store.Store
	in       *intake
}

func (h *grants) mount(to *routes) {
	to.deciders(http.MethodGet, "/api/grants", h.list)
	to.deciders(http.MethodPost, "/api/grants", h.give)
	to.deciders(http.MethodDelete, "/api/grants/:id", h.revoke)
	to.deciders(http.MethodGet, "/api/grants/templates", h.templates)
}

type grantJSON struct {
	GrantID   string     `json:"grant_id"`
	User      string     `json:"user,omitempty"` // none: every user of the tenant
	Agent     string     `json:"agent,omitempty"`
	SessionID string     `json:"session_id,omitempty"`
	Tool      string     `json:"tool"`
	Kind      string     `json:"kind,omitempty"`
	Match     rawJSON    `json:"match"`
	Template  string     `json:"template,omitempty"`
	Note      string     `json:"note,omitempty"`
	CreatedBy string     `json:"created_by"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	MaxUses   int64      `json:"max_uses,omitempty"`
	Uses      int64      `json:"uses"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	RevokedBy string     `json:"revoked_by,omitempty"`
}

func grantOut(g store.Grant) grantJSON {
	return grantJSON{
		GrantID: g.ID, User: g.User, Agent: g.AgentID, SessionID: g.SessionID, Tool: g.Tool, Kind: g.Kind, Match: g.Match,
		Template: g.Template, Note: g.Note, CreatedBy: g.CreatedBy, CreatedAt: g.CreatedAt.UTC(), ExpiresAt: moment(g.ExpiresAt),
		MaxUses: g.MaxUses, Uses: g.Uses, RevokedAt: moment(g.RevokedAt), RevokedBy: g.RevokedBy,
	}
}

func grantsOut(rows []store.Grant) []grantJSON {
	out := make([]grantJSON, 0, len(rows))
	for _, g := range rows {
		out = append(out, grantOut(g))
	}
	return out
}

type grantsJSON struct {
	Grants []grantJSON `json:"grants"`
	Next   string      `json:"next,omitempty"`
}

func (h *grants) list(c echo.Context) error {
	var q struct {
		Limit int    `query:"limit" validate:"gte=0,lte=1000"`
		After string `query:"after" validate:"omitempty,uuid"`
	}
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	ctx := c.Request().Context()
	page := store.Page{Limit: q.Limit, After: q.After}
	rows, err := h.store.Grants(ctx, auth.From(ctx).ReviewInbox(), page)
	if err != nil {
		return err
	}
	out := grantsJSON{Grants: grantsOut(rows)}
	if len(rows) == page.Size() {
		out.Next = rows[len(rows)-1].ID
	}
	return c.JSON(http.StatusOK, out)
}

// grantBody names a template of the policy's, or a tool and what its arguments must be.
type grantBody struct {
	Template   string  `json:"template" validate:"max=128"`
	Tool       string  `json:"tool" validate:"required_without=Template,max=200"`
	Kind       string  `json:"kind" validate:"max=64"`
	Agent      string  `json:"agent" validate:"max=128"`
	ThreadID   string  `json:"thread_id" validate:"max=128"`
	User       string  `json:"user" validate:"max=128"`
	Everyone   bool    `json:"everyone"`
	Match      rawJSON `json:"match"`
	TTLSeconds int64   `json:"ttl_seconds" validate:"gte=0,lte=31536000"`
	MaxUses    int     `json:"max_uses" validate:"gte=0,lte=1000000"`
	Note       string  `json:"note" validate:"max=1000"`
}

func (h *grants) give(c echo.Context) error {
	var b grantBody
	if err := h.in.json(c, &b); err != nil {
		return err
	}
	ctx := c.Request().Context()
	rows, err := h.sessions.Grant(ctx, auth.From(ctx).Principal, bridge.GrantRequest{
		Template: b.Template, Tool: b.Tool, Kind: b.Kind, AgentID: b.Agent, Session: b.ThreadID, User: b.User, Everyone: b.Everyone, Match: b.Match,
		TTL: time.Duration(b.TTLSeconds) * time.Second, MaxUses: b.MaxUses, Note: b.Note,
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, grantsJSON{Grants: grantsOut(rows)})
}

func (h *grants) revoke(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := h.sessions.RevokeGrant(ctx, auth.From(ctx).Principal, id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
