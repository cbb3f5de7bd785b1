package bridge

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// ErrRunToken is the error of a run token that is unknown, expired, or not for what is asked.
var ErrRunToken = errors.New("bridge: the run token is not good for this")

// AgentRequests takes what Agents ask for with their tokens: tool calls, and what became of them. A run token belongs to
// one Turn; a session token belongs to an Agent whose process serves many Turns, and stands for the one under way.
//
// An Agent is not trusted with more than its Turn: the token decides whose call it is, and what a request names beside
// it must agree.
type AgentRequests struct {
	store   store.Store
	tools   *tools.Service // nil without any
	callers callers
	lender  *lender
	// transcript is how many messages an Agent is called with, at most.
	transcript int
	show       func(context.Context, store.ToolCall) // handOver.show
}

// Turn is the Turn that a token belongs to. The error is ErrRunToken for a token that is not good.
func (a *AgentRequests) Turn(ctx context.Context, token string) (store.Turn, error) {
	if session, ok := SessionOfToken(token); ok {
		return a.sessionTurn(ctx, session, token)
	}
	id, ok := turnOfToken(token)
	if !ok {
		return store.Turn{}, ErrRunToken
	}
	turn, err := a.store.Turn(ctx, store.System(), id)
	if err = fits(token, turn.TokenHash, err); err != nil {
		return store.Turn{}, err
	}
	return turn, nil
}

// fits compares a run token with the kept hash. err is the result of reading that hash; a missing row is a bad token.
// In constant time: the hash must not be found byte by byte.
func fits(token string, kept []byte, err error) error {
	if errors.Is(err, store.ErrNotFound) || err == nil && subtle.ConstantTimeCompare(kept, runTokenHash(token)) != 1 {
		return ErrRunToken
	}
	return err
}

// ToolRequest is a tool call as an Agent sends it.
type ToolRequest struct {
	RunID   string // the Turn that the Agent names, or a call of it; with a session token it may name the Session instead
	Name    string
	Args    json.RawMessage
	Key     string // idempotency key; "" for none
	CallID  string // the agent's own id of the call; "" for none
	Timeout time.Duration
}

// Invoke takes a ToolCall of the Agent that sends the token. It waits for a call that is executed at once; any other is
// returned pending, or failed. The error is a *fault.Error when nothing was kept.
func (a *AgentRequests) Invoke(ctx context.Context, token string, req ToolRequest) (store.ToolCall, error) {
	from, err := a.Caller(ctx, token)
	if err != nil {
		return store.ToolCall{}, err
	}
	if err := callable(req.Name); err != nil {
		return store.ToolCall{}, err
	}
	if instance, wide := SessionOfToken(token); OwnRun(token, req.RunID) != from.TurnID && (!wide || req.RunID != instance) {
		return store.ToolCall{}, ErrForeignRun
	}
	call, err := a.tools.Invoke(ctx, tools.Request{
		Caller: from, Name: req.Name, Args: req.Args, Key: req.Key, CallID: req.CallID, Timeout: req.Timeout,
		Declared: func(ctx context.Context, r store.Reader) (map[string]json.RawMessage, error) {
			return declared(ctx, r, from.TurnID)
		},
	})
	return a.shown(ctx, call, err)
}

// shown returns what an Agent learns of a call, once the chat has it too. The end of a call that was executed is mostly there
// already: its events are in the commit of its row.
func (a *AgentRequests) shown(ctx context.Context, call store.ToolCall, err error) (store.ToolCall, error) {
	if err == nil && call.Status.Terminal() && !call.InTranscript {
		a.show(ctx, call)
	}
	return call, err
}

// callable refuses the tool that is this server's own. The question about it says how a budget stands: one who could choose its
// arguments could have a person read anything there.
func callable(name string) error {
	if name == tools.BudgetTool {
		return fault.New(tools.CodeUnknownTool, "That tool is not called: a call of a model asks for more budget by itself.")
	}
	return nil
}

// ToolCallID is the id in the log of a tool call that its Agent gives an id of its own, also when it is executed here.
func ToolCallID(turnID, agentsID string) string { return tools.CallID(turnID, agentsID) }

// Caller is the Turn that the token belongs to, as those see it that its Agent calls. The error is ErrRunToken for a token that is
// not good. For a Turn that is driven on this replica it is in memory, which saves two reads for each call.
// The entry in memory is compared with the token as the row would be, so a token that was replaced is refused here
// too.
func (a *AgentRequests) Caller(ctx context.Context, token string) (tools.Caller, error) {
	if from, ok := a.callers.find(token); ok {
		return from, nil
	}
	turn, err := a.Turn(ctx, token)
	if err != nil {
		return tools.Caller{}, err
	}
	session, err := a.store.Session(ctx, store.System(), turn.SessionID)
	return tools.CallerOf(session, turn), err
}

// Principal is the user for whom the Agent with the token works: who prompted its Turn. In a shared thread that is not always the
// thread's owner.
func (a *AgentRequests) Principal(ctx context.Context, token string) (store.Principal, error) {
	from, err := a.Caller(ctx, token)
	return store.Principal{Tenant: from.Session.Tenant, User: from.By.User}, err
}

// ErrForeignRun is the error of a good token that is sent with another run's id.
var ErrForeignRun = errors.New("bridge: the run token is for another run")

// callers are the Turns whose Agents were called from this replica and may call tools, so that a call need not read them.
// A Turn that has ended meanwhile is found where the call is kept.
type callers struct {
	mu     sync.Mutex
	byTurn map[string]caller
}

type caller struct {
	tools.Caller
	hash []byte // of the run token
}

func (c *callers) add(turnID string, from caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byTurn == nil {
		c.byTurn = make(map[string]caller)
	}
	c.byTurn[turnID] = from
}

func (c *callers) remove(turnID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byTurn, turnID)
}

func (c *callers) find(token string) (tools.Caller, bool) {
	turnID, ok := turnOfToken(token)
	c.mu.Lock()
	from, found := c.byTurn[turnID]
	c.mu.Unlock()
	return from.Caller, ok && found && fits(token, from.hash, nil) == nil
}

// declared are the tools that the client of a Turn's newest Run has, with their schemas.
// The newest Run counts, since a later answer may have come from a page with other tools (mergeProfile). A profile
// that cannot be read declares none, and no client tool can then be called.
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

// Call is one of the ToolCalls that a token may read: those of its Turn, or of its Session. Any other is
// store.ErrNotFound.
func (a *AgentRequests) Call(ctx context.Context, token, id string) (store.ToolCall, error) {
	turn, err := a.Turn(ctx, token)
	if err != nil {
		return store.ToolCall{}, err
	}
	call, err := a.store.ToolCall(store.WithOriginals(ctx), store.System(), id)
	_, wide := SessionOfToken(token)
	if err == nil && call.TurnID != turn.ID && (!wide || call.SessionID != turn.SessionID) {
		return store.ToolCall{}, store.ErrNotFound
	}
	return a.shown(ctx, call, err)
}

// Wait returns a call as soon as it has ended, or as it is after timeout.
// The first look is what authorizes: tools.Wait reads in the System scope and would wait for any call of that id.
func (a *AgentRequests) Wait(ctx context.Context, token, id string, timeout time.Duration) (store.ToolCall, error) {
	ctx = store.WithOriginals(ctx) // the Agent gets its tool's own result
	if call, err := a.Call(ctx, token, id); err != nil || call.Status.Terminal() {
		return call, err
	}
	call, err := a.tools.Wait(ctx, store.System(), id, timeout)
	return a.shown(ctx, call, err)
}

// Part returns the part of that hash for the Agent that sends the token, if its Turn was called with a message that names it.
// thread is a name that the Agent has for its Session. Any other part is store.ErrNotFound.
func (a *AgentRequests) Part(ctx context.Context, token, thread, sum string) (store.MessagePart, error) {
	s, _, err := a.Named(ctx, token, thread)
	if err != nil {
		return store.MessagePart{}, err
	}
	turn, err := a.Turn(ctx, token)
	if err == nil {
		err = readsPart(ctx, a.store, turn, sum, a.transcript)
	}
	if err != nil {
		return store.MessagePart{}, err
	}
	return a.store.MessagePart(ctx, store.System(), s.ID, sum)
}
