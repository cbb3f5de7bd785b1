package acpgateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"aqueduct/acpgateway/acp"
	"aqueduct/bridge"
	"aqueduct/store"
)

// Control implements bridge.Controller.
func (g *Gateway) Control(ctx context.Context, sessionID string, c bridge.Control) error {
	t, err := g.tunnel(ctx, sessionID)
	if errors.Is(err, store.ErrNotFound) {
		return &bridge.ControlError{Code: bridge.ControlNoAgent, Message: "This thread has no agent running."}
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Limits.Control)
	defer cancel()
	switch c.Action {
	case bridge.ControlClose:
		if !t.p.online() {
			return offline()
		}
		t.stop(ctx)
		t.close()
		return nil
	case bridge.ControlCancel:
		if t.p.online() && t.stop(ctx) {
			return nil
		}
	case bridge.ControlSetModel:
		return t.setModel(ctx, c)
	}
	return t.control(ctx, c)
}

// stop cancels what a Turn has under way, as the user's own cancel does; false when none has.
func (t *tunnel) stop(ctx context.Context) bool {
	t.mu.Lock()
	r := t.turn
	t.mu.Unlock()
	return r != nil && r.Cancel(ctx) == nil
}

func offline() error {
	return &bridge.ControlError{Code: bridge.ControlOffline, Message: "The agent's proxy is not connected."}
}

// control does one thing, by its own message.
func (t *tunnel) control(ctx context.Context, c bridge.Control) error {
	t.mu.Lock()
	session, id := t.session, newID()
	t.mu.Unlock()
	f, err := controlFrame(t.id, id, session, c)
	if err != nil {
		return err
	}
	if c.Action == bridge.ControlSetMode {
		if err := t.offers(text(c.Value)); err != nil {
			return err
		}
	}
	if session == "" {
		return &bridge.ControlError{Code: bridge.ControlNoAgent, Message: "The agent has no session yet: send it a message first."}
	}
	answer, err := t.p.ask(ctx, t.id, id, f)
	if err != nil {
		return controlError(err)
	}
	result, ok := answer.(*acp.SessionControlResult)
	switch {
	case !ok:
		return &bridge.ControlError{Code: bridge.ControlFailed, Message: "The proxy answered with something else."}
	case result.OK:
		t.isSet(ctx, session, c)
		return nil
	}
	return refusal(result.Error)
}

// offers refuses a mode that the agent did not offer, where it is known what it offers: some agents
// take any name and go on as they were.
func (t *tunnel) offers(mode string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.modes == nil || slices.Contains(t.modes, mode) {
		return nil
	}
	return notOffered("The agent does not offer this mode. It offers: " + strings.Join(t.modes, ", ") + ".")
}

func notOffered(message string) error {
	return &bridge.ControlError{Code: bridge.ControlNotOffered, Message: message}
}

// isSet tells the Session what an agent need not say of itself: whoever sets its mode or its
// model knows.
func (t *tunnel) isSet(ctx context.Context, session string, c bridge.Control) {
	name := ""
	switch c.Action {
	case bridge.ControlSetMode:
		name = "currentModeId"
	case bridge.ControlSetModel:
		name = "currentModelId"
	default:
		return
	}
	if c.Action == bridge.ControlSetMode {
		t.mu.Lock()
		t.told.ModeID = text(c.Value) // so that it is no news, for which a Run would begin
		t.mu.Unlock()
	}
	t.push(ctx, frame{run: t.id, Frame: &acp.ACPUpdate{RunID: t.id, SessionID: &session, Update: mustJSON(map[string]string{
		"sessionUpdate": acp.CurrentMode, name: text(c.Value),
	})}})
}

func controlFrame(run, id, session string, c bridge.Control) (acp.Frame, error) {
	switch c.Action {
	case bridge.ControlCancel:
		return &acp.SessionCancel{RunID: run, ControlID: id, SessionID: session}, nil
	case bridge.ControlSetMode:
		return &acp.SessionSetMode{RunID: run, ControlID: id, SessionID: session, ModeID: text(c.Value)}, nil
	case bridge.ControlSetModel:
		return &acp.SessionSetModel{RunID: run, ControlID: id, SessionID: session, ModelID: text(c.Value)}, nil
	case bridge.ControlSetOption:
		return &acp.SessionSetConfigOption{RunID: run, ControlID: id, SessionID: session, ConfigID: c.Option, Value: c.Value}, nil
	}
	return nil, &bridge.ControlError{Code: bridge.ControlUnsupported, Message: "There is no such action."}
}

func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // what is no text is none
	return s
}

// setModel falls back to the config option that chooses the model: the method is gone from
// the protocol, and some agents only have the one, some only the other.
func (t *tunnel) setModel(ctx context.Context, c bridge.Control) error {
	err := t.control(ctx, c)
	var failed *bridge.ControlError
	if !errors.As(err, &failed) || failed.Code != bridge.ControlUnsupported {
		return err
	}
	t.mu.Lock()
	option := t.models
	t.mu.Unlock()
	if option == "" {
		return err
	}
	return t.control(ctx, bridge.Control{Action: bridge.ControlSetOption, Option: option, Value: c.Value})
}

// refusal is a proxy's error in our words. The agent's own are shown: they say what is wrong.
func refusal(said string) error {
	lower := strings.ToLower(said)
	switch {
	case strings.Contains(lower, "-32601"), strings.Contains(lower, "method not found"):
		return &bridge.ControlError{Code: bridge.ControlUnsupported, Message: "The agent does not support this. It said: " + said}
	case strings.Contains(lower, acp.NotOffered):
		return notOffered("The agent does not offer it. Its proxy said: " + said)
	case strings.Contains(lower, "no agent is running"):
		return &bridge.ControlError{Code: bridge.ControlNoAgent, Message: "This thread has no agent running."}
	}
	return &bridge.ControlError{Code: bridge.ControlFailed, Message: "The agent did not do it. It said: " + said}
}

func controlError(err error) error {
	switch {
	case errors.Is(err, errOffline):
		return offline()
	case errors.Is(err, context.DeadlineExceeded):
		return &bridge.ControlError{Code: bridge.ControlTimeout, Message: "The agent did not answer in time."}
	}
	return err
}

// Settings implements bridge.Controller.
func (g *Gateway) Settings(sessionID string) bridge.Settings {
	t := g.known(sessionID)
	if t == nil {
		return bridge.Settings{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.told
}

// Linked implements bridge.Controller.
func (g *Gateway) Linked(proxyID string) (linked bool, busy int) {
	p := g.knownProxy(proxyID)
	if p == nil {
		return false, 0
	}
	for _, t := range g.allTunnels() {
		if t.p == p && t.busy() {
			busy++
		}
	}
	return p.online(), busy
}
