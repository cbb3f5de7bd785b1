package server

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// delegations is /api/delegations: who may decide, for a while, what another may decide.
type delegations struct {
	sessions *bridge.Sessions
	store    store.Store
	in       *intake
}

func (h *delegations) mount(to *routes) {
	to.deciders(http.MethodGet, "/api/delegations", h.list)
	to.deciders(http.MethodPost, "/api/delegations", h.give)
	to.deciders(http.MethodDelete, "/api/delegations/:id", h.revoke)
}

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

func delegationOut(d store.Delegation) delegationJSON {
	return delegationJSON{
		DelegationID: d.ID, From: d.User, To: d.To, Tool: d.Tool, Kind: d.ToolKind, Agent: d.AgentID, Tenantwide: d.Wide, Note: d.Note,
		CreatedAt: d.CreatedAt.UTC(), ExpiresAt: d.ExpiresAt.UTC(), RevokedAt: moment(d.RevokedAt), RevokedBy: d.RevokedBy,
	}
}

// list gives the newest first, those that have ended too; next goes into ?after= for more.
func (h *delegations) list(c echo.Context) error {
	var q struct {
		Limit int    `query:"limit" validate:"gte=0,lte=1000"`
		After string `query:"after" validate:"omitempty,uuid"`
	}
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	ctx := c.Request().Context()
	page := store.Page{Limit: q.Limit, After: q.After}
	rows, err := h.store.Delegations(ctx, auth.From(ctx).ReviewInbox(), page)
	if err != nil {
		return err
	}
	out := struct {
		Delegations []delegationJSON `json:"delegations"`
		Next        string           `json:"next,omitempty"`
	}{Delegations: make([]delegationJSON, 0, len(rows))}
	for _, d := range rows {
		out.Delegations = append(out.Delegations, delegationOut(d))
	}
	if len(rows) == page.Size() {
		out.Next = rows[len(rows)-1].ID
	}
	return c.JSON(http.StatusOK, out)
}

// delegationBody says to whom, until when, and of what. Who gives is the caller.
type delegationBody struct {
	To         string     `json:"to" validate:"required,max=128"`
	Tool       string     `json:"tool" validate:"max=200"`
	Kind       string     `json:"kind" validate:"max=64"`
	Agent      string     `json:"agent" validate:"max=128"`
	Until      *time.Time `json:"until" validate:"excluded_with=TTLSeconds"`
	TTLSeconds int64      `json:"ttl_seconds" validate:"gte=0,lte=31536000"`
	Note       string     `json:"note" validate:"max=1000"`
}

func (h *delegations) give(c echo.Context) error {
	var b delegationBody
	if err := h.in.json(c, &b); err != nil {
		return err
	}
	req := bridge.DelegationRequest{To: b.To, Tool: b.Tool, ToolKind: b.Kind, AgentID: b.Agent, Note: b.Note}
	switch {
	case b.Until != nil:
		req.Until = *b.Until
	case b.TTLSeconds > 0:
		req.Until = time.Now().Add(time.Duration(b.TTLSeconds) * time.Second)
	}
	ctx := c.Request().Context()
	d, err := h.sessions.GiveDelegation(ctx, auth.From(ctx).Principal, req)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, delegationOut(d))
}

// revoke ends one at once. One that is revoked already, or not the caller's to end, is not found.
func (h *delegations) revoke(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := h.sessions.RevokeDelegation(ctx, auth.From(ctx).Principal, id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
