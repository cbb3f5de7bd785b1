package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"aqueduct/acpgateway/wire"
)

// sessions are the ACP sessions of one agent: it takes them up, begins them and sets them. The run's goroutine opens
// them and controls set them on goroutines of their own, while the agent's reader marks what is history; mu is for that.
//
// An agent's session is its memory of a conversation. It is lost with the process, and taken up again by the best way
// that the agent offers: session/resume, which repeats nothing; session/load, which sends the whole history again; or
// a new one, which gets the conversation as text (prompt_send.context).
type sessions struct {
	peer         *peer
	dir          string // where the agent works
	report       *reporter
	capabilities wire.AgentCapabilities // set by initialize, before the first is opened
	login        login
	offered      []wire.MCPServer // by the gateway

	mu      sync.Mutex
	configs map[string]json.RawMessage // config options of those that the agent knows
	modes   map[string]json.RawMessage // of those that named them when they were entered
	history *history                   // of the one that is being taken up
}

// login is how an agent logs in when it asks for it.
type login struct {
	peer    *peer
	methods []wire.AuthMethod
}

// open finds the session of a prompt: one the agent has, one it loads, or a new one.
// A way back that fails is reported in the chat and the next is tried: the agent may have deleted the session.
func (ss *sessions) open(ctx context.Context, f *wire.PromptSend, result *wire.PromptResult) (string, error) {
	id := f.SessionID
	if id == "" {
		return ss.create(ctx, result)
	}
	ss.mu.Lock()
	_, known := ss.configs[id]
	ss.mu.Unlock()
	result.SessionID = id
	if known {
		return id, nil
	}
	for _, way := range ss.waysBack() {
		err := ss.login.authenticated(ctx, func() error { return way.take(ctx, id) })
		if err == nil {
			return id, nil
		}
		// Any other way would fail by the same.
		if ctx.Err() != nil || errors.Is(err, errAgentClosed) {
			return "", err
		}
		ss.report.text(wire.PrefixError + way.method + ": " + err.Error())
	}
	return ss.recreate(ctx, id, result)
}

// wayBack is a method that takes up a session of an earlier process.
type wayBack struct {
	method string
	take   func(ctx context.Context, id string) error
}

// waysBack are those the agent offers. session/resume comes first: it repeats no history.
func (ss *sessions) waysBack() (ways []wayBack) {
	caps := ss.capabilities
	if caps.SessionCapabilities.Resume.Offered() {
		ways = append(ways, wayBack{wire.MethodResume, ss.resume})
	}
	if caps.LoadSession {
		ways = append(ways, wayBack{wire.MethodLoad, ss.load})
	}
	return ways
}

// recreate begins a session in place of one the agent does not have.
func (ss *sessions) recreate(ctx context.Context, old string, result *wire.PromptResult) (string, error) {
	result.SessionRecreatedFrom = &old
	return ss.create(ctx, result)
}

// resume takes up a session without its history.
func (ss *sessions) resume(ctx context.Context, id string) error {
	return ss.reenter(ctx, wire.MethodResume, id, func(context.Context, *history) error { return nil })
}

// load takes up a session. What the agent sends until it has fallen silent is history: it may
// answer before it has repeated anything. The prompt waits for that.
func (ss *sessions) load(ctx context.Context, id string) error {
	return ss.reenter(ctx, wire.MethodLoad, id, func(ctx context.Context, h *history) error { return h.wait(ctx) })
}

// The marking of history begins before the call, because the first repeated update may come before its response.
func (ss *sessions) reenter(ctx context.Context, method, id string, then func(context.Context, *history) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, errors.New("the agent did not take up the session in time"))
	defer cancel()
	h := ss.enter(id)
	// For the ways out by an error, or later updates of the session would count as history for good.
	defer ss.live()
	var entered wire.SessionResult
	params := wire.LoadSessionParams{SessionID: id, Cwd: ss.dir, MCPServers: ss.mcpServers()}
	if err := ss.peer.call(ctx, method, params, &entered, nil); err != nil {
		return err
	}
	if err := then(ctx, h); err != nil {
		return err
	}
	ss.live()
	ss.entered(id, entered)
	return nil
}

// mcpServers are those that the agent can reach of what the gateway offers.
func (ss *sessions) mcpServers() []wire.MCPServer {
	if !ss.capabilities.MCPCapabilities.HTTP.Offered() || ss.offered == nil {
		return []wire.MCPServer{} // null is no list
	}
	return ss.offered
}

// create begins a session.
func (ss *sessions) create(ctx context.Context, result *wire.PromptResult) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var created wire.SessionResult
	err := ss.login.authenticated(ctx, func() error {
		return ss.peer.call(ctx, wire.MethodNew, wire.NewSessionParams{Cwd: ss.dir, MCPServers: ss.mcpServers()}, &created, nil)
	})
	if err != nil {
		return "", fmt.Errorf("session/new: %w", err)
	}
	if created.SessionID == "" {
		return "", errors.New("session/new: the agent gave no session id")
	}
	result.SessionID, result.SessionCreated = created.SessionID, true
	ss.report.update(created.SessionID, json.RawMessage(`{"sessionUpdate":"session_created","content":{"type":"session_created"}}`), false)
	ss.entered(created.SessionID, created)
	return created.SessionID, nil
}

// entered notes a session and tells what its answer held: agents send no notification of it.
func (ss *sessions) entered(id string, s wire.SessionResult) {
	ss.mu.Lock()
	ss.configs[id] = s.ConfigOptions
	ss.modes[id] = s.Modes
	ss.mu.Unlock()
	if isList(s.ConfigOptions) {
		ss.options(id, s.ConfigOptions)
	}
	if len(s.Modes) > 0 || len(s.Models) > 0 {
		ss.state(id, s)
	}
}

// isList is for config options: agents leave the member out, or write null, where they have none.
func isList(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '[' }

// options tells a session's config options.
func (ss *sessions) options(id string, options json.RawMessage) {
	ss.mu.Lock()
	ss.configs[id] = options
	ss.mu.Unlock()
	update, err := json.Marshal(struct {
		Update  string          `json:"sessionUpdate"`
		Options json.RawMessage `json:"configOptions"`
	}{"config_option_update", options})
	if err == nil { // it was read from JSON
		ss.report.update(id, update, false)
	}
}

// state tells the modes and models that only the answer of session/new holds.
func (ss *sessions) state(id string, s wire.SessionResult) {
	var now struct{ CurrentModeID, CurrentModelID string }
	// Each of the two has one of the members, and leaves the other as it is.
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
		ss.report.update(id, update, false)
	}
}

// authenticated does something, and once more after logging in when the agent asks for it.
// ACP lets any call fail with auth_required. An agent that takes its key from the environment logs in without a
// person.
func (lo login) authenticated(ctx context.Context, do func() error) error {
	err := do()
	if wire.CodeOf(err) != wire.CodeAuthRequired {
		return err
	}
	if failed := lo.authenticate(ctx); failed != nil {
		return loginFailed(err, failed)
	}
	return do()
}

// loginFailed is why something did not work: what the agent answered, and not only what became
// of the login that we tried.
func loginFailed(why, failed error) error { return fmt.Errorf("%w; then %w", why, failed) }

// authenticate uses the first way that needs no terminal.
func (lo login) authenticate(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, authTimeout, errors.New("the agent did not log in in time"))
	defer cancel()
	for _, m := range lo.methods {
		if m.Type == "terminal" {
			continue
		}
		if err := lo.peer.call(ctx, wire.MethodAuthenticate, wire.AuthenticateParams{MethodID: m.ID}, nil, nil); err != nil {
			return fmt.Errorf("authenticate (%s): %w", m.ID, err)
		}
		return nil
	}
	return errors.New("the agent asks for a login, and has no way that works without a terminal: log in where it runs")
}
