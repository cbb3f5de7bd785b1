// The registry of tools over HTTP. Users see the tools of their tenant, administrators add and remove them, and
// agents get a list without addresses and policies. How a tool is called is in bridge/tools.

package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/tools"
	"aqueduct/internal/schema"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// toolRegistry is /v1/tools: which tools there are. It keeps nothing between requests.
type toolRegistry struct {
	tools *tools.Service
	store store.Store
	// checkURL refuses endpoints at addresses that tools may not be called at.
	checkURL func(string) error
	in       *decode.Decoder
	agents   agentCallers
}

// Mount adds the routes. The list is for agents with a run token and for callers of any role; changes are for
// administrators.
func (h *toolRegistry) Mount(to *route.Routes) {
	// The form of the token decides which of the two lists the caller gets.
	listed := to.Beside(http.MethodGet, "/v1/tools", h.list)
	to.Open(http.MethodGet, "/v1/tools", func(c echo.Context) error {
		if token, err := runToken(c); err == nil {
			return h.listForAgent(c, token)
		}
		return listed(c)
	})
	to.Callers(http.MethodPost, "/v1/tools", withBody(h.in, h.register))
	to.Callers(http.MethodDelete, "/v1/tools/:name", h.remove)
}

// toolJSON is a tool and where its definition comes from: the tools file or this API.
type toolJSON struct {
	tools.Definition
	Source string `json:"source"`
}

// list shows the tools of the caller's tenant whole, with endpoint and policy.
func (h *toolRegistry) list(c echo.Context) error {
	return h.page(c, auth.From(c.Request().Context()).Scope(), toolOut)
}

// listForAgent is what an agent may know of the tools of its user's tenant: not where they are, nor what is thought
// of them. The address would let an agent call the tool past the policy, and the policy would teach it what passes
// without a person.
func (h *toolRegistry) listForAgent(c echo.Context, token string) error {
	turn, err := h.agents.turn(c, token)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
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

// page sends one page, by name. shown decides how much of a tool the caller may know.
func (h *toolRegistry) page(c echo.Context, in store.Scope, shown func(store.Tool) toolJSON) error {
	var q struct {
		Limit int    `query:"limit" validate:"gte=0,lte=1000"`
		After string `query:"after" validate:"max=128"`
	}
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	page := store.Page{Limit: q.Limit, After: q.After}
	rows, err := h.store.Tools(c.Request().Context(), in, page)
	next := nextOf(rows, page.Size(), func(t store.Tool) string { return t.Name })
	rows = slices.DeleteFunc(rows, func(t store.Tool) bool { return t.Source == store.ToolFromServer }) // which no agent calls
	return reply(c, http.StatusOK, struct {
		Tools []toolJSON `json:"tools"`
		Next  string     `json:"next,omitempty"`
	}{eachOut(rows, shown), next}, err)
}

// toolOut is the stored tool in the words of its definition. It has the members of the tools file, and where the tool
// comes from.
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

// register adds a tool or replaces the one of its name. The endpoint is checked now, when an administrator can mend
// it, and again at every call: what its name resolves to may change. What is wrong with a schema has a code of its
// own, so that a form can point at it.
func (h *toolRegistry) register(c echo.Context, d tools.Definition) error {
	ctx := c.Request().Context()
	t, err := d.Tool(auth.From(ctx).Principal.Tenant, store.ToolFromAPI, h.checkURL)
	if err == nil {
		err = h.tools.Register(ctx, auth.From(ctx).Principal, t)
	}
	var bad *schema.Error
	if errors.As(err, &bad) {
		return problem.Refuse(bad.Code, bad.Message)
	}
	if errors.Is(err, tools.ErrDefinition) {
		return problem.Refuse(problem.InvalidBody, err.Error())
	}
	return reply(c, http.StatusOK, toolOut(t), err)
}

// remove takes a tool of the caller's tenant out of the registry. A call that still waits for a person then ends as
// failed when it is approved.
func (h *toolRegistry) remove(c echo.Context) error {
	ctx := c.Request().Context()
	return done(c, h.tools.Unregister(ctx, auth.From(ctx).Principal, c.Param("name")))
}
