package acpgateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// controls steers proxies and the agents behind them for people and the platform (bridge.Controller).
// It holds no state of its own. The engine asks it on the replica that has the link; routing there is not its concern.
type controls struct {
	cfg    *Config
	fleet  *fleet
	keeper *keeper
}

// Control implements bridge.Controller.
//
// A close cancels first, so that the chat shows a cancelled Run and not a failed one.
func (ct *controls) Control(ctx context.Context, sessionID string, control bridge.Control) error {
	c, err := ct.channel(ctx, sessionID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ct.cfg.Limits.Control)
	defer cancel()
	switch control.Action {
	case bridge.ControlClose:
		if !c.p.online() {
			return offline()
		}
		cancelTurn(ctx, c)
		c.close()
		return nil
	case bridge.ControlCancel:
		if c.p.online() && cancelTurn(ctx, c) {
			return nil
		}
	case bridge.ControlSetModel:
		return setModel(ctx, c, control)
	default:
	}
	return controlAgent(ctx, c, control)
}

// channel returns the channel of a Session whose agent runs at a proxy.
func (ct *controls) channel(ctx context.Context, sessionID string) (*channel, error) {
	c, err := ct.fleet.channel(ctx, sessionID)
	if errors.Is(err, store.ErrNotFound) {
		err = fault.New(bridge.ControlNoAgent, "This thread has no agent running.")
	}
	return c, err
}

// Ready implements bridge.Controller.
func (ct *controls) Ready(ctx context.Context, sessionID string, control bridge.Control) error {
	c, err := ct.channel(ctx, sessionID)
	if err != nil {
		return err
	}
	if !c.p.online() {
		return offline()
	}
	return offered(c, control)
}

// offered rejects a control that the agent does not offer, and any change before the agent has a session.
func offered(c *channel, control bridge.Control) error {
	if control.Action == bridge.ControlSetMode {
		if err := c.agent.checkMode(text(control.Value)); err != nil {
			return err
		}
	}
	if c.agent.sessionID() == "" {
		return fault.New(bridge.ControlNoAgent, "The agent has no session yet: send it a message first.")
	}
	return nil
}

// cancelTurn cancels the Turn under way, as the user's own cancel does; false when there is none.
func cancelTurn(ctx context.Context, c *channel) bool {
	t := c.queue.turn()
	return t != nil && t.Cancel(ctx) == nil
}

func offline() error {
	return fault.New(bridge.ControlOffline, "The agent's proxy is not connected.")
}

// control does one thing, by its own message.
// Everything is checked that can be before the frame is sent: some agents answer an unknown mode with success and
// ignore it.
func controlAgent(ctx context.Context, c *channel, control bridge.Control) error {
	session, id := c.agent.sessionID(), newID()
	f, err := controlFrame(c.id, id, session, control)
	if err != nil {
		return err
	}
	if err := offered(c, control); err != nil {
		return err
	}
	answer, err := c.p.ask(ctx, c.id, id, f)
	if err != nil {
		return controlError(err)
	}
	result, ok := answer.(*wire.SessionControlResult)
	switch {
	case !ok:
		return fault.New(bridge.ControlFailed, "The proxy answered with something else.")
	case result.OK:
		noteSetting(ctx, c, session, control)
		return nil
	}
	return refusal(result.Error)
}

func notOffered(message string) error {
	return fault.New(bridge.ControlNotOffered, message)
}

// noteSetting applies a mode or a model that was set from here as if the agent had reported it: it need not.
// The frame is made here and pushed as if it had come from the agent, so the chat's state, the record and the pages
// learn of it in the one usual way. An agent that reports it as well changes nothing by that.
func noteSetting(ctx context.Context, c *channel, session string, control bridge.Control) {
	var name string
	switch control.Action {
	case bridge.ControlSetMode:
		name = "currentModeId"
	case bridge.ControlSetModel:
		name = "currentModelId"
	default:
		return
	}
	if control.Action == bridge.ControlSetMode {
		c.agent.setMode(text(control.Value))
	}
	c.push(ctx, newFrame(&wire.ACPUpdate{RunID: c.id, SessionID: &session, Update: mustJSON(map[string]string{
		"sessionUpdate": wire.CurrentMode, name: text(control.Value),
	})}, c.id))
}

func controlFrame(run, id, session string, control bridge.Control) (wire.Frame, error) {
	switch control.Action {
	case bridge.ControlCancel:
		return &wire.SessionCancel{RunID: run, ControlID: id, SessionID: session}, nil
	case bridge.ControlSetMode:
		return &wire.SessionSetMode{RunID: run, ControlID: id, SessionID: session, ModeID: text(control.Value)}, nil
	case bridge.ControlSetModel:
		return &wire.SessionSetModel{RunID: run, ControlID: id, SessionID: session, ModelID: text(control.Value)}, nil
	case bridge.ControlSetOption:
		return &wire.SessionSetConfigOption{RunID: run, ControlID: id, SessionID: session, ConfigID: control.Option, Value: control.Value}, nil
	default:
	}
	return nil, fault.New(bridge.ControlUnsupported, "There is no such action.")
}

func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // what is no text is none
	return s
}

// setModel falls back to the config option that chooses the model: the method is gone from
// the protocol, and some agents only have the one, some only the other.
func setModel(ctx context.Context, c *channel, control bridge.Control) error {
	err := controlAgent(ctx, c, control)
	var failed *fault.Error
	if !errors.As(err, &failed) || failed.Code != bridge.ControlUnsupported {
		return err
	}
	_, option := c.agent.current()
	if option == "" {
		return err
	}
	return controlAgent(ctx, c, bridge.Control{Action: bridge.ControlSetOption, Option: option, Value: control.Value})
}

// refusal is a proxy's error in our words. The agent's own are shown: they say what is wrong.
// Agents report errors as text. JSON-RPC's -32601 is looked for by number, since each implementation words it
// differently.
func refusal(said string) error {
	lower := strings.ToLower(said)
	switch {
	case strings.Contains(lower, "-32601"), strings.Contains(lower, "method not found"):
		return fault.New(bridge.ControlUnsupported, "The agent does not support this. It said: "+said)
	case strings.Contains(lower, wire.NotOffered):
		return notOffered("The agent does not offer it. Its proxy said: " + said)
	case strings.Contains(lower, "no agent is running"):
		return fault.New(bridge.ControlNoAgent, "This thread has no agent running.")
	}
	return fault.New(bridge.ControlFailed, "The agent did not do it. It said: "+said)
}

func controlError(err error) error {
	switch {
	case errors.Is(err, errOffline):
		return offline()
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(bridge.ControlTimeout, "The agent did not answer in time.")
	}
	return err
}

// Settings implements bridge.Controller.
func (ct *controls) Settings(sessionID string) bridge.Settings {
	c := ct.fleet.known(sessionID)
	if c == nil {
		return bridge.Settings{}
	}
	settings, _ := c.agent.current()
	return settings
}

// Linked implements bridge.Controller.
func (ct *controls) Linked(proxyID string) (linked bool, busy int) {
	p := ct.fleet.knownProxy(proxyID)
	if p == nil {
		return false, 0
	}
	for _, c := range ct.fleet.allChannels() {
		if c.p == p && c.isBusy() {
			busy++
		}
	}
	return p.online(), busy
}
