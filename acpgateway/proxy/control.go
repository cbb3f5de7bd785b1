package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"aqueduct/acpgateway/wire"
)

// errUnsupported is a control that the agent does not have.
var errUnsupported = errors.New("the agent does not support this (method not found, -32601)")

// setMode sets the mode, by its method or as a config option. An agent that only has the option answers that the
// method is gone.
func (ss *sessions) setMode(ctx context.Context, f *wire.SessionSetMode) error {
	if !ss.offersMode(f.SessionID, f.ModeID) {
		return fmt.Errorf("the mode %q %s", f.ModeID, wire.NotOffered)
	}
	err := ss.peer.call(ctx, wire.MethodSetMode, wire.SetModeParams{SessionID: f.SessionID, ModeID: f.ModeID}, nil, nil)
	return ss.orOption(ctx, err, f.SessionID, "mode", f.ModeID)
}

// offersMode reports whether an agent may be set to a mode: one that it offers, or any if it does not
// say which. qwen takes any name and goes on as it was.
func (ss *sessions) offersMode(session, mode string) bool {
	ss.mu.Lock()
	v := wire.SessionView{Modes: ss.modes[session], Settings: wire.ReadSettings(ss.configs[session])}
	ss.mu.Unlock()
	offered := v.OfferedModes()
	return offered == nil || slices.Contains(offered, mode)
}

// setModel sets the model by the method of older agents first. Newer ones have it as a config option and answer that
// the method is gone.
func (ss *sessions) setModel(ctx context.Context, f *wire.SessionSetModel) error {
	err := ss.peer.call(ctx, wire.MethodSetModel, wire.SetModelParams{SessionID: f.SessionID, ModelID: f.ModelID}, nil, nil)
	return ss.orOption(ctx, err, f.SessionID, "model", f.ModelID)
}

// orOption sets the config option of a category instead, where the method is gone.
func (ss *sessions) orOption(ctx context.Context, err error, session, category, value string) error {
	if wire.CodeOf(err) != wire.CodeMethodNotFound {
		return err
	}
	ss.mu.Lock()
	// The options as the agent answered them last, when the session began or one was set.
	options := ss.configs[session]
	ss.mu.Unlock()
	id := optionOf(options, category)
	if id == "" {
		return fmt.Errorf("%s: %w", category, errUnsupported)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return ss.applyOption(ctx, wire.SetConfigOptionParams{SessionID: session, ConfigID: id, Value: raw})
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

// setOption sets a config option. A boolean's type is named beside it: ACP reads a value without a type as the id of a
// choice.
func (ss *sessions) setOption(ctx context.Context, f *wire.SessionSetConfigOption) error {
	params := wire.SetConfigOptionParams{SessionID: f.SessionID, ConfigID: f.ConfigID, Value: f.Value}
	if string(f.Value) == "true" || string(f.Value) == "false" {
		params.Type = "boolean"
	}
	return ss.applyOption(ctx, params)
}

// applyOption sets an option and tells the gateway all options as they are afterwards, since setting one may change
// which others there are: another model has other reasoning efforts.
func (ss *sessions) applyOption(ctx context.Context, params wire.SetConfigOptionParams) error {
	var result wire.SetConfigOptionResult
	err := ss.peer.call(ctx, wire.MethodSetConfigOption, params, &result, nil)
	if wire.CodeOf(err) == wire.CodeMethodNotFound {
		return fmt.Errorf("%s: %w", params.ConfigID, errUnsupported)
	}
	if err == nil && isList(result.ConfigOptions) {
		ss.options(params.SessionID, result.ConfigOptions)
	}
	return err
}
