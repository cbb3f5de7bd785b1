package bridge

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/tools"
	"aqueduct/bridge/trace"
	"aqueduct/policy"
	"aqueduct/store"
)

// ErrRunToken is a run token that is not good, or not for what is asked.
var ErrRunToken = errors.New("bridge: the run token is not good for this")

// AgentTurn is the Turn whose Agent calls with a run token, or with a session token.
func (s *Sessions) AgentTurn(ctx context.Context, token string) (store.Turn, error) {
	if session, ok := sessionOfToken(token); ok {
		return s.sessionTurn(ctx, session, token)
	}
	id, ok := turnOfToken(token)
	if !ok {
		return store.Turn{}, ErrRunToken
	}
	turn, err := s.cfg.Store.Turn(ctx, store.System(), id)
	if err = fits(token, turn.TokenHash, err); err != nil {
		return store.Turn{}, err
	}
	return turn, nil
}

// fits checks a run token against what was kept of it, or what came of reading that.
func fits(token string, kept []byte, err error) error {
	if errors.Is(err, store.ErrNotFound) || err == nil && subtle.ConstantTimeCompare(kept, runTokenHash(token)) != 1 {
		return ErrRunToken
	}
	return err
}

// ToolRequest is what an Agent asks to be run.
type ToolRequest struct {
	RunID   string // the Turn that the Agent says it works on; with a session token the Session will do
	Name    string
	Args    json.RawMessage
	Key     string // idempotency key; "" for none
	CallID  string // the agent's own id of the call; "" for none
	Timeout time.Duration
}

// InvokeTool takes a ToolCall of the Agent that shows the token. It waits for one that is run
// at once; any other is pending, or has failed. The error is a *tools.Error when nothing was
// kept.
func (s *Sessions) InvokeTool(ctx context.Context, token string, req ToolRequest) (store.ToolCall, error) {
	turnID, from, err := s.callSite(ctx, token)
	if err != nil {
		return store.ToolCall{}, err
	}
	if instance, wide := sessionOfToken(token); req.RunID != turnID && (!wide || req.RunID != instance) {
		return store.ToolCall{}, ErrForeignRun
	}
	return s.cfg.Tools.Invoke(ctx, tools.Request{
		TurnID: turnID, Session: from.session, Trace: from.trace, By: from.by, Name: req.Name, Args: req.Args, Key: req.Key, CallID: req.CallID, Timeout: req.Timeout,
		Declared: func(ctx context.Context, r store.Reader) (map[string]json.RawMessage, error) {
			return declared(ctx, r, turnID)
		},
	})
}

// ToolCallID is the id in the log of a tool call that its agent names so; also of one that it has us run under that name.
func ToolCallID(turnID, agentsID string) string { return tools.CallID(turnID, agentsID) }

// callSite is the Turn that the token is of, and who calls. Of a Turn that is driven here both
// are known.
func (s *Sessions) callSite(ctx context.Context, token string) (turnID string, from caller, err error) {
	if turnID, from, ok := s.callers.find(token); ok {
		return turnID, from, nil
	}
	turn, err := s.AgentTurn(ctx, token)
	if err != nil {
		return "", from, err
	}
	session, err := s.cfg.Store.Session(ctx, store.System(), turn.SessionID)
	of, _ := trace.Parse(turn.Traceparent, turn.Tracestate)
	return turn.ID, caller{session: answering(session, turn), by: inbox.Prompter(session, turn), trace: of}, err
}

// AgentOf is the principal whose Agent shows the token: a run token, or a session token.
func (s *Sessions) AgentOf(ctx context.Context, token string) (store.Principal, error) {
	_, from, err := s.callSite(ctx, token)
	return store.Principal{Tenant: from.session.Tenant, User: from.session.User}, err
}

// ErrForeignRun is a good run token shown for another run than the one named.
var ErrForeignRun = errors.New("bridge: the run token is for another run")

// callers are the Turns whose Agents were called from here and may call tools: who they are
// need not be read for each call. That a Turn is over is found where a call is kept.
type callers struct {
	mu     sync.Mutex
	byTurn map[string]caller
}

type caller struct {
	session store.Session
	by      policy.Principal // who prompted
	hash    []byte           // of the run token
	trace   trace.Context
}

func (c *callers) add(t *turn, token string) {
	session := answering(t.s.row, t.row)
	session.State = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byTurn == nil {
		c.byTurn = make(map[string]caller)
	}
	c.byTurn[t.row.ID] = caller{session, inbox.Prompter(t.s.row, t.row), runTokenHash(token), t.span()}
}

func (c *callers) remove(turnID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byTurn, turnID)
}

func (c *callers) find(token string) (turnID string, from caller, ok bool) {
	turnID, ok = turnOfToken(token)
	c.mu.Lock()
	from, found := c.byTurn[turnID]
	c.mu.Unlock()
	return turnID, from, ok && found && fits(token, from.hash, nil) == nil
}

// declared are the tools that the client of a Turn's newest Run has.
func declared(ctx context.Context, r store.Reader, turnID string) (map[string]json.RawMessage, error) {
	runs, err := r.RunsOfTurn(ctx, store.System(), turnID)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	var p Profile
	if json.Unmarshal(runs[len(runs)-1].Profile, &p) != nil {
		return nil, nil
	}
	byName := make(map[string]json.RawMessage, len(p.Tools))
	for _, t := range p.Tools {
		byName[t.Name] = t.Parameters
	}
	return byName, nil
}

// ToolCallOf is one of the ToolCalls that a token is good for: those of its Turn, or of its Session. To its holder others
// do not exist.
func (s *Sessions) ToolCallOf(ctx context.Context, token, id string) (store.ToolCall, error) {
	turn, err := s.AgentTurn(ctx, token)
	if err != nil {
		return store.ToolCall{}, err
	}
	call, err := s.cfg.Store.ToolCall(ctx, store.System(), id)
	_, wide := sessionOfToken(token)
	if err == nil && call.TurnID != turn.ID && (!wide || call.SessionID != turn.SessionID) {
		return store.ToolCall{}, store.ErrNotFound
	}
	return call, err
}

// WaitTool is ToolCallOf, as soon as the call has ended or when the time is over.
func (s *Sessions) WaitTool(ctx context.Context, token, id string, timeout time.Duration) (store.ToolCall, error) {
	if call, err := s.ToolCallOf(ctx, token, id); err != nil || call.Status.Terminal() {
		return call, err
	}
	return s.cfg.Tools.Wait(ctx, store.System(), id, timeout)
}
