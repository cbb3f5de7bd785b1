package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"aqueduct/acpgateway/acp"
)

// session finds the session of a prompt: one the agent has, one it loads, or a new one.
func (a *agent) session(ctx context.Context, f *acp.PromptSend, result *acp.PromptResult) (string, error) {
	id := f.SessionID
	if id == "" {
		return a.create(ctx, result)
	}
	a.mu.Lock()
	_, known := a.sessions[id]
	a.mu.Unlock()
	result.SessionID = id
	if known {
		return id, nil
	}
	for _, way := range a.waysBack() {
		err := a.authenticated(ctx, func() error { return way.take(ctx, id) })
		if err == nil {
			return id, nil
		}
		if ctx.Err() != nil || errors.Is(err, errAgentClosed) {
			return "", err
		}
		a.run.text(acp.PrefixError + way.method + ": " + err.Error())
	}
	return a.recreate(ctx, id, result)
}

// wayBack is a method that takes up a session of an earlier process.
type wayBack struct {
	method string
	take   func(ctx context.Context, id string) error
}

// waysBack are those the agent offers. session/resume comes first: it repeats no history.
func (a *agent) waysBack() (ways []wayBack) {
	caps := a.info.AgentCapabilities
	if caps.SessionCapabilities.Resume.Offered() {
		ways = append(ways, wayBack{acp.MethodResume, a.resume})
	}
	if caps.LoadSession {
		ways = append(ways, wayBack{acp.MethodLoad, a.load})
	}
	return ways
}

// recreate begins a session in place of one the agent does not have.
func (a *agent) recreate(ctx context.Context, old string, result *acp.PromptResult) (string, error) {
	result.SessionRecreatedFrom = &old
	return a.create(ctx, result)
}

// resume takes up a session without its history.
func (a *agent) resume(ctx context.Context, id string) error {
	return a.reenter(ctx, acp.MethodResume, id, func(context.Context, *history) error { return nil })
}

// load takes up a session. What the agent says until it has fallen silent is history: it may
// answer before it has repeated anything. The prompt waits for that.
func (a *agent) load(ctx context.Context, id string) error {
	return a.reenter(ctx, acp.MethodLoad, id, func(ctx context.Context, h *history) error { return h.wait(ctx) })
}

func (a *agent) reenter(ctx context.Context, method, id string, then func(context.Context, *history) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, errors.New("the agent did not take up the session in time"))
	defer cancel()
	h := a.enter(id)
	defer a.live()
	var entered acp.SessionResult
	params := acp.LoadSessionParams{SessionID: id, Cwd: a.dir, MCPServers: []json.RawMessage{}}
	if err := a.peer.call(ctx, method, params, &entered, nil); err != nil {
		return err
	}
	if err := then(ctx, h); err != nil {
		return err
	}
	a.live()
	a.entered(id, entered)
	return nil
}

// create begins a session.
func (a *agent) create(ctx context.Context, result *acp.PromptResult) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var created acp.SessionResult
	err := a.authenticated(ctx, func() error {
		return a.peer.call(ctx, acp.MethodNew, acp.NewSessionParams{Cwd: a.dir, MCPServers: []json.RawMessage{}}, &created, nil)
	})
	if err != nil {
		return "", fmt.Errorf("session/new: %w", err)
	}
	if created.SessionID == "" {
		return "", errors.New("session/new: the agent gave no session id")
	}
	result.SessionID, result.SessionCreated = created.SessionID, true
	a.run.update(created.SessionID, json.RawMessage(`{"sessionUpdate":"session_created","content":{"type":"session_created"}}`), false)
	a.entered(created.SessionID, created)
	return created.SessionID, nil
}

// entered notes a session and tells what its answer held: agents send no notification of it.
func (a *agent) entered(id string, s acp.SessionResult) {
	a.mu.Lock()
	a.sessions[id] = s.ConfigOptions
	a.modes[id] = s.Modes
	a.mu.Unlock()
	if isList(s.ConfigOptions) {
		a.options(id, s.ConfigOptions)
	}
	if len(s.Modes) > 0 || len(s.Models) > 0 {
		a.state(id, s)
	}
}

func isList(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '[' }

// options tells a session's config options.
func (a *agent) options(id string, options json.RawMessage) {
	a.mu.Lock()
	a.sessions[id] = options
	a.mu.Unlock()
	update, err := json.Marshal(struct {
		Update  string          `json:"sessionUpdate"`
		Options json.RawMessage `json:"configOptions"`
	}{"config_option_update", options})
	if err == nil { // it was read from JSON
		a.run.update(id, update, false)
	}
}

// state tells the modes and models that only the answer of session/new holds.
func (a *agent) state(id string, s acp.SessionResult) {
	var now struct{ CurrentModeID, CurrentModelID string }
	for _, raw := range []json.RawMessage{s.Modes, s.Models} {
		_ = json.Unmarshal(raw, &now) // absent or of another form: they go as they are
	}
	type content struct {
		Type    string          `json:"type"`
		ModeID  string          `json:"currentModeId,omitempty"`
		ModelID string          `json:"currentModelId,omitempty"`
		Modes   json.RawMessage `json:"modes,omitempty"`
		Models  json.RawMessage `json:"models,omitempty"`
	}
	update, err := json.Marshal(struct {
		Update  string  `json:"sessionUpdate"`
		Content content `json:"content"`
	}{"session_state", content{"session_state", now.CurrentModeID, now.CurrentModelID, s.Modes, s.Models}})
	if err == nil {
		a.run.update(id, update, false)
	}
}

// authenticated does something, and once more after logging in when the agent asks for it.
func (a *agent) authenticated(ctx context.Context, do func() error) error {
	err := do()
	if acp.CodeOf(err) != acp.CodeAuthRequired {
		return err
	}
	if failed := a.authenticate(ctx); failed != nil {
		return loginFailed(err, failed)
	}
	return do()
}

// loginFailed is why something did not work: what the agent said to it, and not only what became
// of the login that we tried.
func loginFailed(why, failed error) error { return fmt.Errorf("%w; then %w", why, failed) }

// authenticate uses the first way that needs no terminal.
func (a *agent) authenticate(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, authTimeout, errors.New("the agent did not log in in time"))
	defer cancel()
	for _, m := range a.info.AuthMethods {
		if m.Type == "terminal" {
			continue
		}
		if err := a.peer.call(ctx, acp.MethodAuthenticate, acp.AuthenticateParams{MethodID: m.ID}, nil, nil); err != nil {
			return fmt.Errorf("authenticate (%s): %w", m.ID, err)
		}
		return nil
	}
	return errors.New("the agent asks for a login, and has no way that works without a terminal: log in where it runs")
}
