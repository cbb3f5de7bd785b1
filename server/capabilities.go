// What a client may expect of this server, in AG-UI's own shape, so that a client can switch features on without
// trying them. The values are constants of what the server does; only the agents and the version come from outside.

package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/registry"
	"aqueduct/server/auth"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// capabilities is GET /api/agui/capabilities: AG-UI's AgentCapabilities of what a client
// gets through Aqueduct. What depends on the agent alone is as the agent was registered, or left undeclared, which is not
// the same as absent.
type capabilities struct {
	agents   *bridge.Directory
	registry *registry.Registry
	version  string
}

// Mount adds the route, for users, as the names of agents are not public.
func (h *capabilities) Mount(to *route.Routes) {
	to.Callers(http.MethodGet, "/api/agui/capabilities", h.get)
}

// capabilitiesJSON is AG-UI's AgentCapabilities, as far as this server fills it. The order of the members is that of
// AG-UI's own type.
type capabilitiesJSON struct {
	Identity struct {
		Name        string         `json:"name"`
		Type        string         `json:"type"`
		Description string         `json:"description,omitempty"`
		Provider    string         `json:"provider"`
		Version     string         `json:"version,omitempty"`
		Metadata    map[string]any `json:"metadata"`
	} `json:"identity"`
	Transport struct {
		Streaming         bool `json:"streaming"`
		Websocket         bool `json:"websocket"`
		HTTPBinary        bool `json:"httpBinary"`
		PushNotifications bool `json:"pushNotifications"`
		Resumable         bool `json:"resumable"`
	} `json:"transport"`
	Tools struct {
		Supported      bool `json:"supported"`
		ParallelCalls  bool `json:"parallelCalls"`
		ClientProvided bool `json:"clientProvided"`
	} `json:"tools"`
	State struct {
		Snapshots       bool `json:"snapshots"`
		Deltas          bool `json:"deltas"`
		Memory          bool `json:"memory"`
		PersistentState bool `json:"persistentState"`
	} `json:"state"`
	HumanInTheLoop struct {
		Supported  bool `json:"supported"`
		Approvals  bool `json:"approvals"`
		Feedback   bool `json:"feedback"`
		Interrupts bool `json:"interrupts"`
	} `json:"humanInTheLoop"`
	declaredJSON
	Custom map[string]any `json:"custom"`
}

// declaredJSON is what only an agent can tell of itself, as it was registered.
type declaredJSON struct {
	Output     json.RawMessage `json:"output,omitempty"`
	MultiAgent json.RawMessage `json:"multiAgent,omitempty"`
	Reasoning  json.RawMessage `json:"reasoning,omitempty"`
	Multimodal json.RawMessage `json:"multimodal,omitempty"`
	Execution  json.RawMessage `json:"execution,omitempty"`
}

// declared are the capabilities that an agent was registered with; none for one that was not, or registered something else
// than AG-UI's object.
func (h *capabilities) declared(c echo.Context, id string) (d declaredJSON, description string, err error) {
	e, err := h.registry.Entry(c.Request().Context(), auth.From(c.Request().Context()).Principal, id)
	if errors.Is(err, store.ErrNotFound) {
		return d, "", nil
	}
	var own struct {
		declaredJSON
		Identity struct{ Description string } `json:"identity"`
	}
	if err == nil && json.Unmarshal(e.Capabilities, &own) == nil {
		d, description = own.declaredJSON, own.Identity.Description
	}
	return d, description, err
}

// get describes the agent that is named, or else the default one. An unknown agent is refused like in the chat, so a
// page finds out about a misspelled name before its first prompt.
func (h *capabilities) get(c echo.Context) error {
	tenant := auth.From(c.Request().Context()).Principal.Tenant
	ids := h.agents.IDsFor(tenant)
	name := cmp.Or(c.QueryParam("agent"), h.agents.Default(tenant))
	if name != "" && !slices.Contains(ids, name) {
		return problem.Refuse(bridge.RefusedUnknownAgent, "")
	}
	var caps capabilitiesJSON
	var err error
	if caps.declaredJSON, caps.Identity.Description, err = h.declared(c, name); err != nil {
		return err
	}
	caps.Identity.Name, caps.Identity.Type, caps.Identity.Provider = name, "aqueduct", "aqueduct"
	caps.Identity.Version, caps.Identity.Metadata = h.version, map[string]any{"agents": ids}
	caps.Transport.Streaming, caps.Transport.Resumable = true, true
	caps.Tools.Supported, caps.Tools.ParallelCalls, caps.Tools.ClientProvided = true, true, true
	caps.State.Snapshots, caps.State.Deltas, caps.State.Memory, caps.State.PersistentState = true, true, true, true
	caps.HumanInTheLoop.Supported, caps.HumanInTheLoop.Approvals = true, true
	caps.HumanInTheLoop.Feedback, caps.HumanInTheLoop.Interrupts = true, true
	caps.Custom = map[string]any{
		"dialects": []string{bridge.DialectV1, bridge.DialectV0, bridge.DialectTDesign},
		"resume":   "the same POST, or GET /api/runs/{runId}/events, with Last-Event-ID; or POST /api/agui/connect",
	}
	return c.JSON(http.StatusOK, caps)
}
