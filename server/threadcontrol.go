// What an agent can be set to while it works: its mode, its model, its options, and cancelling or closing it. The
// values come from ACP agents behind proxies (session/set_mode and the like); HTTP agents have none.

package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/fault"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// threadControl is /api/threads/{id}/control: what a thread's agent can be set to, and setting it. It keeps nothing
// between requests.
type threadControl struct {
	threads  *threads
	sessions *bridge.Sessions
	store    store.Store
	control  bridge.Controller // nil when this server has no gateway
	in       *decode.Decoder
	audit    *audit.Log
}

// Mount adds the routes, for users; whether a caller with a share may act is checked in act.
func (h *threadControl) Mount(to *route.Routes) {
	to.Callers(http.MethodGet, "/api/threads/:id/control", h.get)
	to.Callers(http.MethodPost, "/api/threads/:id/control", h.act)
}

// controlsJSON is what the agent declared, from the thread's state, and where it runs. Modes, models and options are
// in ACP's own form, so that a page for ACP agents can use them as they are.
type controlsJSON struct {
	ModeID        string          `json:"mode_id,omitempty"`
	ModelID       string          `json:"model_id,omitempty"`
	Modes         json.RawMessage `json:"modes,omitempty"`
	Models        json.RawMessage `json:"models,omitempty"`
	ConfigOptions json.RawMessage `json:"config_options,omitempty"`
	Commands      json.RawMessage `json:"commands,omitempty"`
	Instance      *instanceJSON   `json:"instance,omitempty"`
}

// instanceJSON is where a thread's agent runs. It is absent for agents that are not behind a proxy.
type instanceJSON struct {
	ProxyID      string          `json:"proxy_id"`
	Linked       bool            `json:"linked"` // its proxy, to this replica, now
	InstanceName string          `json:"instance_name"`
	Status       string          `json:"status"`
	Transport    json.RawMessage `json:"transport,omitempty"`
	Init         json.RawMessage `json:"init,omitempty"`
	LastSeen     *time.Time      `json:"last_seen,omitempty"`
	LastError    string          `json:"last_error,omitempty"`
}

// get shows what the agent offers and what is chosen. The log's state is what all replicas know; over it comes what
// the gateway has received since, which a Turn has not written into the state yet. A page so shows a mode that the
// agent switched to by itself, before the next Turn writes it down.
func (h *threadControl) get(c echo.Context) error {
	s, err := h.threads.find(c)
	if err != nil {
		return err
	}
	out := controlsOf(s.State)
	if h.control != nil {
		// Only the replica that the proxy is connected to has these; any other shows what the log has.
		out.overlay(h.control.Settings(s.ID))
	}
	ctx := c.Request().Context()
	// An agent that never ran, or is called by HTTP, has no instance.
	switch i, err := h.store.SandboxInstance(ctx, auth.From(ctx).Scope(), s.ID); {
	case err == nil:
		out.Instance = h.instanceOut(i)
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	return c.JSON(http.StatusOK, out)
}

// controlsOf reads what the translator keeps under /acp of a thread's state. The names in the state are in camel
// case, and json matches them regardless of case.
func controlsOf(state []byte) controlsJSON {
	var s struct {
		ACP struct {
			ModeID, ModelID                        string
			Modes, Models, ConfigOptions, Commands json.RawMessage
		} `json:"acp"`
	}
	// A state whose /acp is something else, an HTTP agent's say, has no controls.
	if len(state) == 0 || json.Unmarshal(state, &s) != nil {
		return controlsJSON{}
	}
	return controlsJSON{
		ModeID: s.ACP.ModeID, ModelID: s.ACP.ModelID, Modes: s.ACP.Modes, Models: s.ACP.Models,
		ConfigOptions: s.ACP.ConfigOptions, Commands: s.ACP.Commands,
	}
}

// overlay replaces members of the state by what the gateway has received since. Modes and models themselves do not
// change while an agent runs; which one is chosen does.
func (out *controlsJSON) overlay(told bridge.Settings) {
	out.ModeID, out.ModelID = cmp.Or(told.ModeID, out.ModeID), cmp.Or(told.ModelID, out.ModelID)
	if told.ConfigOptions != nil {
		out.ConfigOptions = told.ConfigOptions
	}
}

// instanceOut is the JSON of the stored instance, with whether its proxy is connected now. linked is this replica's
// knowledge, the rest is in the database.
func (h *threadControl) instanceOut(i store.SandboxInstance) *instanceJSON {
	out := &instanceJSON{
		ProxyID: i.ProxyID, InstanceName: i.InstanceName, Status: i.Status, Transport: i.Transport, Init: i.Init,
		LastSeen: answer.TimeOrNil(i.LastSeen), LastError: i.LastError,
	}
	if h.control != nil {
		out.Linked, _ = h.control.Linked(i.ProxyID)
	}
	return out
}

// controlBody is one change; each action has its own member. For example {"action":"set_mode","mode_id":"plan"} or
// {"action":"set_config_option","config_id":"sandbox","value":true}.
type controlBody struct {
	Action   string          `json:"action" validate:"required,oneof=cancel set_mode set_model set_config_option close"`
	ModeID   string          `json:"mode_id" validate:"required_if=Action set_mode,max=1000"`
	ModelID  string          `json:"model_id" validate:"required_if=Action set_model,max=1000"`
	ConfigID string          `json:"config_id" validate:"required_if=Action set_config_option,max=1000"`
	Value    json.RawMessage `json:"value" validate:"required_if=Action set_config_option,max=10000"`
}

// act changes how the thread's agent works, or cancels or closes it. A change of how freely it acts is judged by the
// policy first. Refusals and failures are audited like successes: an attempt to loosen an agent is worth an entry by
// itself. The thread is found before the body is read, so an unknown thread is 404 whatever was sent.
func (h *threadControl) act(c echo.Context) error {
	s, err := h.threads.find(c)
	if err != nil {
		return err
	}
	var body controlBody
	if err := h.in.JSON(c, &body); err != nil {
		return err
	}
	control, err := body.control()
	if err != nil {
		return err
	}
	// A share for reading shows what the agent can be set to and changes nothing.
	if err := mayWrite(c, h.store, s); err != nil {
		return err
	}
	if h.control == nil {
		return &fault.Error{Code: bridge.ControlUnsupported}
	}
	if err := h.may(c, s, control); err != nil {
		auditControl(c, h.audit, s.ID, control, err)
		return err
	}
	h.in.Awaits(c, 0)
	err = h.control.Control(c.Request().Context(), s.ID, control)
	auditControl(c, h.audit, s.ID, control, err)
	return done(c, err)
}

// may has the policy judge what changes how freely the agent acts. That may take until a person has answered. A model
// does not change the agent's rights, so it passes; a mode such as "accept all edits" does. A change that is impossible now,
// because the proxy is not linked or the agent does not offer it, is refused before a person is asked. The write deadline is
// moved first, since the answer may come after minutes.
func (h *threadControl) may(c echo.Context, s store.Session, control bridge.Control) error {
	if control.Action != bridge.ControlSetMode && control.Action != bridge.ControlSetOption {
		return nil
	}
	if err := h.control.Ready(c.Request().Context(), s.ID, control); err != nil {
		return err
	}
	h.in.Awaits(c, bridge.SteerWait)
	// The names are what a person is asked by, and what a rule may look at: the id of a mode may show nothing of what
	// it permits.
	offers := controlsOf(s.State)
	offers.overlay(h.control.Settings(s.ID))
	steering := bridge.Steering{Control: control}
	steering.Names = steering.NamesOf(offers.Modes, offers.ConfigOptions)
	ctx := c.Request().Context()
	return h.sessions.Steering().Allow(ctx, auth.From(ctx).Principal, s, steering)
}

// control is the body as the gateway takes it. An option is a text or a switch in ACP; any other JSON would be
// refused by the agent with words that mean nothing to a person.
func (b controlBody) control() (bridge.Control, error) {
	out := bridge.Control{Action: bridge.ControlAction(b.Action)}
	var err error
	switch out.Action {
	case bridge.ControlSetMode:
		out.Value, err = json.Marshal(b.ModeID)
	case bridge.ControlSetModel:
		out.Value, err = json.Marshal(b.ModelID)
	case bridge.ControlSetOption:
		out.Option, out.Value = b.ConfigID, b.Value
		if first := b.Value[0]; first != '"' && first != 't' && first != 'f' {
			err = problem.Refuse(problem.InvalidBody, "At /value: must be a string or a boolean.")
		}
	default:
	}
	return out, err
}
