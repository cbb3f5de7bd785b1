// The directory of agents over HTTP. Users and agents see which agents they may talk to; who has the role agent registers
// some, and an administrator may change those of its tenant. How the directory is kept is in bridge/registry.

package server

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/registry"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/route"
	"aqueduct/store"
)

// agents is /v1/agents. It keeps nothing between requests.
type agents struct {
	registry *registry.Registry
	sessions agentCallers
	in       *decode.Decoder
	shared   []string // server.Config.SharedWorkspaces
}

// Mount adds the routes. Reading is for agents with a run token and for callers of any role.
func (h *agents) Mount(to *route.Routes) {
	h.readable(to, "/v1/agents", h.list)
	h.readable(to, "/v1/agents/:id", h.get)
	to.Callers(http.MethodPost, "/v1/agents/register", withBody(h.in, h.register))
	to.Callers(http.MethodPost, "/v1/agents/:id/heartbeat", withID("id", h.beat))
	to.Callers(http.MethodDelete, "/v1/agents/:id", withID("id", h.remove))
}

// readable mounts a GET for callers with a role and for agents, which see what their user sees. The form of the credential
// decides: a run token is never taken for a user's, nor the reverse. An agent that finds another one here cannot call it by
// its address, which it does not see; its calls go through this server, where they are judged and kept.
func (h *agents) readable(to *route.Routes, path string, handle func(c echo.Context, who store.Principal) error) {
	asCaller := to.Beside(http.MethodGet, path, func(c echo.Context) error {
		return handle(c, auth.From(c.Request().Context()).Principal)
	})
	to.Open(http.MethodGet, path, func(c echo.Context) error {
		token, err := runToken(c)
		if err != nil {
			return asCaller(c)
		}
		who, err := h.sessions.known(c, token)
		if err != nil {
			return err
		}
		return handle(c, store.Principal{Tenant: who.Tenant, User: who.User}) // an agent has none of its user's roles here
	})
}

// agentJSON is an agent of the directory. Its first six members are the contract's.
type agentJSON struct {
	AgentID         string          `json:"agent_id"`
	Name            string          `json:"name"`
	Endpoint        string          `json:"endpoint,omitempty"`
	Capabilities    json.RawMessage `json:"capabilities,omitempty"`
	Status          registry.Status `json:"status"`
	LastHeartbeatAt *time.Time      `json:"last_heartbeat_at,omitempty"`
	Protocol        string          `json:"protocol"`
	Source          string          `json:"source"`
	Owner           string          `json:"owner,omitempty"`
	Reason          string          `json:"reason,omitempty"`
	Unconfined      bool            `json:"unconfined,omitempty"`
	CheckedAt       *time.Time      `json:"checked_at,omitempty"`
	RegisteredAt    time.Time       `json:"registered_at"`
	Warnings        []string        `json:"warnings,omitempty"`
}

// warnSharedWorkspaces is the warning of an agent that can reach the folders of other threads than its own.
const warnSharedWorkspaces = "shared_workspaces"

func (h *agents) out(e registry.Entry) agentJSON {
	out := agentJSON{
		AgentID: e.ID, Name: e.Name, Endpoint: e.Endpoint, Capabilities: e.Capabilities, Status: e.Status, LastHeartbeatAt: answer.TimeOrNil(e.LastHeartbeatAt),
		Protocol: e.Protocol, Source: string(e.Source), Owner: e.Owner, Reason: e.Reason, Unconfined: e.Unconfined, CheckedAt: answer.TimeOrNil(e.CheckedAt),
		RegisteredAt: e.RegisteredAt.UTC(),
	}
	if slices.Contains(h.shared, e.ID) {
		out.Warnings = append(out.Warnings, warnSharedWorkspaces)
	}
	return out
}

// list sends one page, by id. All readers of a tenant see the same agents; who may change one sees its endpoint and owner as well.
func (h *agents) list(c echo.Context, who store.Principal) error {
	var q struct {
		Limit int    `query:"limit" validate:"gte=0,lte=1000"`
		After string `query:"after" validate:"max=128"`
	}
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	list, next, err := h.registry.Entries(c.Request().Context(), who, store.Page{Limit: q.Limit, After: q.After})
	return reply(c, http.StatusOK, struct {
		Agents []agentJSON `json:"agents"`
		Next   string      `json:"next,omitempty"`
	}{eachOut(list, h.out), next}, err)
}

func (h *agents) get(c echo.Context, who store.Principal) error {
	id, err := decode.PathID(c, "id")
	if err != nil {
		return err
	}
	e, err := h.registry.Entry(c.Request().Context(), who, id)
	return reply(c, http.StatusOK, h.out(e), err)
}

// okJSON is the contract's answer to a registration.
type okJSON struct {
	OK bool `json:"ok"`
}

func (h *agents) register(c echo.Context, body registry.Registration) error {
	ctx := c.Request().Context()
	return reply(c, http.StatusOK, okJSON{true}, h.registry.Register(ctx, auth.From(ctx).Principal, body))
}

func (h *agents) beat(c echo.Context, id string) error {
	return reply(c, http.StatusOK, okJSON{true}, h.changed(c, id, h.registry.Beat))
}

func (h *agents) remove(c echo.Context, id string) error {
	return done(c, h.changed(c, id, h.registry.Remove))
}

func (h *agents) changed(c echo.Context, id string, change func(context.Context, store.Principal, string) error) error {
	ctx := c.Request().Context()
	return change(ctx, auth.From(ctx).Principal, id)
}
