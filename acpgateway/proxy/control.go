package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"aqueduct/acpgateway/acp"
)

// errUnsupported is a control that the agent does not have.
var errUnsupported = errors.New("the agent does not support this (method not found, -32601)")

func (r *run) living() (*agent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agent == nil {
		return nil, errNoAgent
	}
	return r.agent, nil
}

// cancel stops what a session does. A prompt that the agent does not have yet ends before it
// gets it.
func (r *run) cancel(session string) error {
	r.mu.Lock()
	a, one := r.agent, r.active
	if one != nil && (session == "" || one.session == "" || one.session == session) {
		one.cancelled = true
		if session == "" {
			session = one.session
		}
	} else {
		one = nil
	}
	tell := a != nil && session != "" && (one == nil || one.sent)
	r.mu.Unlock()
	switch {
	case tell:
		a.cancelSession(session)
	case one == nil:
		return errNoAgent
	}
	return nil
}

func (r *run) setMode(ctx context.Context, f *acp.SessionSetMode) error {
	a, err := r.living()
	if err != nil {
		return err
	}
	if !a.offersMode(f.SessionID, f.ModeID) {
		return fmt.Errorf("the mode %q %s", f.ModeID, acp.NotOffered)
	}
	err = a.peer.call(ctx, acp.MethodSetMode, acp.SetModeParams{SessionID: f.SessionID, ModeID: f.ModeID}, nil, nil)
	return a.orOption(ctx, err, f.SessionID, "mode", f.ModeID)
}

// offersMode says whether an agent may be set to a mode: one that it offers, or any if it does not
// say which. qwen takes any name and goes on as it was.
func (a *agent) offersMode(session, mode string) bool {
	a.mu.Lock()
	v := acp.SessionView{Modes: a.modes[session], Settings: acp.ReadSettings(a.sessions[session])}
	a.mu.Unlock()
	offered := v.OfferedModes()
	return offered == nil || slices.Contains(offered, mode)
}

func (r *run) setModel(ctx context.Context, f *acp.SessionSetModel) error {
	a, err := r.living()
	if err != nil {
		return err
	}
	err = a.peer.call(ctx, acp.MethodSetModel, acp.SetModelParams{SessionID: f.SessionID, ModelID: f.ModelID}, nil, nil)
	return a.orOption(ctx, err, f.SessionID, "model", f.ModelID)
}

// orOption sets the config option of a category instead, where the method is gone.
func (a *agent) orOption(ctx context.Context, err error, session, category, value string) error {
	if acp.CodeOf(err) != acp.CodeMethodNotFound {
		return err
	}
	a.mu.Lock()
	options := a.sessions[session]
	a.mu.Unlock()
	id := optionOf(options, category)
	if id == "" {
		return fmt.Errorf("%s: %w", category, errUnsupported)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return a.setOption(ctx, acp.SetConfigOptionParams{SessionID: session, ConfigID: id, Value: raw})
}

// optionOf finds the option of a category, or the one named so.
func optionOf(options json.RawMessage, category string) string {
	var list []struct{ ID, Category string }
	if json.Unmarshal(options, &list) != nil {
		return ""
	}
	for _, o := range list {
		if o.Category == category {
			return o.ID
		}
	}
	for _, o := range list {
		if o.ID == category {
			return o.ID
		}
	}
	return ""
}

func (r *run) setOption(ctx context.Context, f *acp.SessionSetConfigOption) error {
	a, err := r.living()
	if err != nil {
		return err
	}
	params := acp.SetConfigOptionParams{SessionID: f.SessionID, ConfigID: f.ConfigID, Value: f.Value}
	if string(f.Value) == "true" || string(f.Value) == "false" {
		params.Type = "boolean"
	}
	return a.setOption(ctx, params)
}

func (a *agent) setOption(ctx context.Context, params acp.SetConfigOptionParams) error {
	var result acp.SetConfigOptionResult
	err := a.peer.call(ctx, acp.MethodSetConfigOption, params, &result, nil)
	if acp.CodeOf(err) == acp.CodeMethodNotFound {
		return fmt.Errorf("%s: %w", params.ConfigID, errUnsupported)
	}
	if err == nil && isList(result.ConfigOptions) {
		a.options(params.SessionID, result.ConfigOptions)
	}
	return err
}
