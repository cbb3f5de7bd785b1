package server

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/tools"
	"aqueduct/internal/schema"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// toolRegistry is /v1/tools: which tools there are.
type toolRegistry struct {
	tools    *tools.Service
	sessions *bridge.Sessions
	store    store.Store
	checkURL func(string) error
	in       *intake
}

func (h *toolRegistry) mount(to *routes) {
	listed := to.beside(http.MethodGet, "/v1/tools", h.list)
	to.open(http.MethodGet, "/v1/tools", func(c echo.Context) error {
		if token, err := runToken(c); err == nil {
			return h.listForAgent(c, token)
		}
		return listed(c)
	})
	to.callers(http.MethodPost, "/v1/tools", h.register)
	to.callers(http.MethodDelete, "/v1/tools/:name", h.remove)
}

type toolJSON struct {
	tools.Definition
	Source string `json:"source"`
}

func (h *toolRegistry) list(c echo.Context) error {
	return h.page(c, auth.From(c.Request().Context()).Scope(), toolOut)
}

// listForAgent is what an agent may know of the tools of its user's tenant: not where they are,
// nor what is thought of them.
func (h *toolRegistry) listForAgent(c echo.Context, token string) error {
	ctx := c.Request().Context()
	turn, err := h.sessions.AgentTurn(ctx, token)
	if err != nil {
		return h.in.refused(c, err)
	}
	if err := h.in.known(c); err != nil {
		return err
	}
	session, err := h.store.Session(ctx, store.System(), turn.SessionID)
	if err != nil {
		return err
	}
	in := store.As(store.Principal{Tenant: session.Tenant, User: session.User})
	return h.page(c, in, func(t store.Tool) toolJSON {
		t.Endpoint, t.Policy = "", nil
		return toolOut(t)
	})
}

func (h *toolRegistry) page(c echo.Context, in store.Scope, shown func(store.Tool) toolJSON) error {
	var q struct {
		Limit int    `query:"limit" validate:"gte=0,lte=1000"`
		After string `query:"after" validate:"max=128"`
	}
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	page := store.Page{Limit: q.Limit, After: q.After}
	rows, err := h.store.Tools(c.Request().Context(), in, page)
	if err != nil {
		return err
	}
	out := struct {
		Tools []toolJSON `json:"tools"`
		Next  string     `json:"next,omitempty"`
	}{Tools: make([]toolJSON, 0, len(rows))}
	for _, row := range rows {
		out.Tools = append(out.Tools, shown(row))
	}
	if len(rows) == page.Size() {
		out.Next = rows[len(rows)-1].Name
	}
	return c.JSON(http.StatusOK, out)
}

func toolOut(t store.Tool) toolJSON {
	var meta struct{ Description string }
	_ = json.Unmarshal(t.Metadata, &meta) // of our own writing
	d := tools.Definition{
		Name: t.Name, Kind: tools.WireServer, Description: meta.Description, Endpoint: t.Endpoint, Schema: t.Schema, Policy: t.Policy,
		TimeoutMS: t.Timeout.Milliseconds(), OnFailure: t.OnFailure,
	}
	if t.Kind == store.KindClient {
		d.Kind = tools.WireClient
	}
	return toolJSON{d, t.Source}
}

func (h *toolRegistry) register(c echo.Context) error {
	var d tools.Definition
	if err := h.in.json(c, &d); err != nil {
		return err
	}
	ctx := c.Request().Context()
	t, err := d.Tool(auth.From(ctx).Principal.Tenant, store.ToolFromAPI, h.checkURL)
	var bad *schema.Error
	if errors.As(err, &bad) {
		return refuse(bad.Code, bad.Message)
	}
	if errors.Is(err, tools.ErrDefinition) {
		return refuse(codeInvalidBody, err.Error())
	}
	if err == nil {
		err = h.tools.Register(ctx, auth.From(ctx).Principal, t)
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, toolOut(t))
}

func (h *toolRegistry) remove(c echo.Context) error {
	ctx := c.Request().Context()
	if err := h.tools.Unregister(ctx, auth.From(ctx).Principal, c.Param("name")); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
