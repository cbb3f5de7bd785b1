package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/audit"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// threadControl is /api/threads/{id}/control: what a thread's agent can be set to, and
// setting it.
type threadControl struct {
	threads *threads
	store   store.Store
	control bridge.Controller // nil when this server has no gateway
	in      *intake
	audit   *audit.Log
}

func (h *threadControl) mount(to *routes) {
	to.callers(http.MethodGet, "/api/threads/:id/control", h.get)
	to.callers(http.MethodPost, "/api/threads/:id/control", h.act)
}

// controlsJSON is what the agent told, from the thread's state, and where it runs.
type controlsJSON struct {
	ModeID        string        `json:"mode_id,omitempty"`
	ModelID       string        `json:"model_id,omitempty"`
	Modes         rawJSON       `json:"modes,omitempty"`
	Models        rawJSON       `json:"models,omitempty"`
	ConfigOptions rawJSON       `json:"config_options,omitempty"`
	Commands      rawJSON       `json:"commands,omitempty"`
	Instance      *instanceJSON `json:"instance,omitempty"`
}

type instanceJSON struct {
	ProxyID      string     `json:"proxy_id"`
	Linked       bool       `json:"linked"` // its proxy, to this replica, now
	InstanceName string     `json:"instance_name"`
	Status       string     `json:"status"`
	Transport    rawJSON    `json:"transport,omitempty"`
	Init         rawJSON    `json:"init,omitempty"`
	LastSeen     *time.Time `json:"last_seen,omitempty"`
	LastError    string     `json:"last_error,omitempty"`
}

func (h *threadControl) get(c echo.Context) error {
	s, err := h.threads.find(c)
	if err != nil {
		return err
	}
	out := controlsOf(s.State)
	if h.control != nil {
		out.overlay(h.control.Settings(s.ID))
	}
	ctx := c.Request().Context()
	switch i, err := h.store.SandboxInstance(ctx, auth.From(ctx).Scope(), s.ID); {
	case err == nil:
		out.Instance = h.instanceOut(i)
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	return c.JSON(http.StatusOK, out)
}

// controlsOf reads what the translator keeps under /acp of a thread's state.
func controlsOf(state []byte) controlsJSON {
	var s struct {
		ACP struct {
			ModeID, ModelID                        string
			Modes, Models, ConfigOptions, Commands rawJSON
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

// overlay puts what was told since in place of what the state has.
func (out *controlsJSON) overlay(told bridge.Settings) {
	out.ModeID, out.ModelID = cmp.Or(told.ModeID, out.ModeID), cmp.Or(told.ModelID, out.ModelID)
	if told.ConfigOptions != nil {
		out.ConfigOptions = rawJSON(told.ConfigOptions)
	}
}

func (h *threadControl) instanceOut(i store.SandboxInstance) *instanceJSON {
	out := &instanceJSON{
		ProxyID: i.ProxyID, InstanceName: i.InstanceName, Status: i.Status, Transport: i.Transport, Init: i.Init,
		LastSeen: moment(i.LastSeen), LastError: i.LastError,
	}
	if h.control != nil {
		out.Linked, _ = h.control.Linked(i.ProxyID)
	}
	return out
}

type controlBody struct {
	Action   string  `json:"action" validate:"required,oneof=cancel set_mode set_model set_config_option close"`
	ModeID   string  `json:"mode_id" validate:"required_if=Action set_mode,max=1000"`
	ModelID  string  `json:"model_id" validate:"required_if=Action set_model,max=1000"`
	ConfigID string  `json:"config_id" validate:"required_if=Action set_config_option,max=1000"`
	Value    rawJSON `json:"value" validate:"required_if=Action set_config_option,max=10000"`
}

func (h *threadControl) act(c echo.Context) error {
	s, err := h.threads.find(c)
	if err != nil {
		return err
	}
	var body controlBody
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	control, err := body.control()
	if err != nil {
		return err
	}
	if err := mayWrite(c, h.store, s); err != nil {
		return err
	}
	if h.control == nil {
		return &bridge.ControlError{Code: bridge.ControlUnsupported}
	}
	h.in.awaits(c, 0)
	err = h.control.Control(c.Request().Context(), s.ID, control)
	auditControl(c, h.audit, s.ID, control, err)
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

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
			err = refuse(codeInvalidBody, "At /value: must be a string or a boolean.")
		}
	}
	return out, err
}
