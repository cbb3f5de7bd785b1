// This file has the two sorts of callers. What they differ in stands here and nowhere else: whose tools are seen, in
// which Turn a call is made, and who may decide.

package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// caller is who sends a request, and what it may do. One is made for each request; it holds no state of its own.
type caller interface {
	// key distinguishes callers: a call that is repeated is one of the same key.
	key() string
	// user is the same for all callers of a user, or for a user, whose calls are bounded together.
	user() string
	// scope sees the tools that the caller may call.
	scope(ctx context.Context) (store.Scope, error)
	invoke(ctx context.Context, name string, args json.RawMessage) (store.ToolCall, error)
	// call is one of the caller's calls.
	call(ctx context.Context, id string) (store.ToolCall, error)
	// wait returns a call as soon as it has ended, or as it is after timeout.
	wait(ctx context.Context, id string, timeout time.Duration) (store.ToolCall, error)
	// decide settles the question about a call; false where the caller is no person, who alone may.
	decide(ctx context.Context, id string, approve bool, reason string) (may bool, err error)
	// turn is the id of the Turn that the caller's last calls are in; "" without any.
	turn(ctx context.Context) (id string, err error)
	// isPerson reports whether the person at the client is whose token it is.
	isPerson() bool
}

// userOf names a user among those of all tenants.
func userOf(who store.Principal) string { return who.Tenant + "\x00" + who.User }

// agent is a caller with a run or session token. Its calls are those of its Turn, and it decides nothing.
type agent struct {
	requests *bridge.AgentRequests
	token    string
	who      store.Principal
}

// key is made of the token's hash, so that no token is held in memory longer than its request.
func (a *agent) key() string {
	sum := sha256.Sum256([]byte(a.token))
	return "agent\x00" + base64.RawStdEncoding.EncodeToString(sum[:])
}

func (a *agent) user() string { return userOf(a.who) }

func (a *agent) scope(context.Context) (store.Scope, error) { return store.As(a.who), nil }

// invoke makes a call in the Turn that the token is of now: the token of an ACP agent is good for all Turns of its
// Session.
func (a *agent) invoke(ctx context.Context, name string, args json.RawMessage) (store.ToolCall, error) {
	turn, err := a.requests.Turn(ctx, a.token)
	if err != nil {
		return store.ToolCall{}, err
	}
	return a.requests.Invoke(ctx, a.token, bridge.ToolRequest{RunID: turn.ID, Name: name, Args: args})
}

func (a *agent) call(ctx context.Context, id string) (store.ToolCall, error) {
	return a.requests.Call(ctx, a.token, id)
}

func (a *agent) wait(ctx context.Context, id string, timeout time.Duration) (store.ToolCall, error) {
	return a.requests.Wait(ctx, a.token, id, timeout)
}

func (a *agent) decide(context.Context, string, bool, string) (bool, error) { return false, nil }

func (a *agent) turn(ctx context.Context) (string, error) {
	turn, err := a.requests.Turn(ctx, a.token)
	return turn.ID, err
}

func (a *agent) isPerson() bool { return false }

// program is a caller with a user's token. Its calls are those of a thread of the user's, and what it is answered by the
// person at it counts as the user's decision: the same token decides over the API.
type program struct {
	calls     *bridge.ClientCalls
	approvals *approval.Service
	who       store.Principal
	decides   bool                 // false with a credential for MCP clients: its questions are answered elsewhere
	request   bridge.ClientRequest // without the tool
}

// key holds the thread: the same call in two threads of a user is two calls.
func (p *program) key() string {
	return "program\x00" + p.user() + "\x00" + p.request.ThreadID
}

func (p *program) user() string { return userOf(p.who) }

func (p *program) scope(context.Context) (store.Scope, error) { return store.As(p.who), nil }

func (p *program) invoke(ctx context.Context, name string, args json.RawMessage) (store.ToolCall, error) {
	req := p.request
	req.Name, req.Args = name, args
	return p.calls.Invoke(ctx, p.who, req)
}

func (p *program) call(ctx context.Context, id string) (store.ToolCall, error) {
	return p.calls.Call(ctx, p.who, id)
}

func (p *program) wait(ctx context.Context, id string, timeout time.Duration) (store.ToolCall, error) {
	return p.calls.Wait(ctx, p.who, id, timeout)
}

// decide is the user's own decision, by the way that is named mcp on record (approval.ViaMCP).
func (p *program) decide(ctx context.Context, id string, approve bool, reason string) (bool, error) {
	if !p.decides {
		return false, nil
	}
	_, err := p.approvals.DecideInWords(ctx, p.who, id, approval.Words{Approved: &approve, Reason: reason}, approval.ViaMCP)
	return true, err
}

func (p *program) turn(ctx context.Context) (string, error) {
	return p.calls.LastTurn(ctx, p.who, p.request.ThreadID)
}

func (p *program) isPerson() bool { return p.decides }
