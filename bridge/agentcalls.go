package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/tools"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/policy"
	"aqueduct/store"
)

// Codes of refused calls of agents by agents.
const (
	RefusedCallLoop     = "agent_call_loop"
	RefusedCallDepth    = "agent_call_depth"
	RefusedCallBreadth  = "agent_call_breadth"
	RefusedChildsThread = "child_thread"
	// RefusedCallForbidden: the policy does not let the one agent call the other.
	RefusedCallForbidden = "agent_call_forbidden"
)

const (
	// maxCallers bounds how many agents may stand between a person and an agent that is called. Each holds a connection
	// and a Turn for as long as those below it work.
	maxCallers = 5
	// maxChildrenAtOnce bounds how many agents the Agent of one Turn may have at work. What else it calls has to wait for
	// one of them, as a program waits for a worker.
	maxChildrenAtOnce = 8
)

// ChildsThread refuses, with RefusedChildsThread, what a user would put into a thread that is an agent's answer to another.
func ChildsThread() error {
	return fault.New(RefusedChildsThread, "This thread belongs to the call of an agent by another, and takes no messages.")
}

// AgentCalls takes the calls of agents by agents (platform contract §7.3).
//
// A called agent gets a Session of its own, with the caller's user, so that what it writes, asks and keeps is as durable as
// any other. It is driven like any other Session, and the response to the caller only reads it.
type AgentCalls struct {
	sessions *Sessions
	store    store.Store
	agents   *AgentRequests
}

// AgentCall is one call as an Agent makes it.
type AgentCall struct {
	RunID     string         // the caller's Turn, as the caller names it
	SessionID string         // the caller's Session, likewise; "" where it names none
	AgentID   string         // who is called
	Messages  []agui.Message // what the called agent gets; the last is the input
	Context   []agui.Context
	Key       string // idempotency key; "" for none: a call that is repeated with it is the same call
	BodyHash  []byte
}

// parentCall is what the intake has to know of the caller.
type parentCall struct {
	turn    store.Turn
	session store.Session
	agentID string // who is called
	// transcript is how many messages the caller was called with, at most.
	transcript int
}

// Begin starts a call, or finds the one that was begun with the same key.
func (a *AgentCalls) Begin(ctx context.Context, token string, call AgentCall) (Reply, error) {
	turn, err := a.agents.Turn(ctx, token)
	if err != nil {
		return Reply{}, err
	}
	session, err := a.store.Session(ctx, store.System(), turn.SessionID)
	if err != nil {
		return Reply{}, err
	}
	named := []string{turn.ID, InstanceID(session, turn.AgentID), session.ID, session.ExternalID}
	if call.RunID != turn.ID && call.RunID != named[1] || call.SessionID != "" && !slices.Contains(named[1:], call.SessionID) {
		return Reply{}, ErrForeignRun
	}
	by := approval.Prompter(session, turn)
	id := newID()
	if call.Key != "" {
		id = tools.CallID(turn.ID, "agent\x00"+call.Key)
	}
	for i := range call.Messages {
		call.Messages[i].ID = cmp.Or(call.Messages[i].ID, messageID(id, i))
	}
	span, _ := trace.Parse(turn.Traceparent, turn.Tracestate)
	return a.sessions.Chat(ctx, ChatRequest{
		Principal: store.Principal{Tenant: session.Tenant, User: session.User, Roles: by.Roles}, Dialect: DialectV1, ThreadID: id, RunID: id,
		AgentID: call.AgentID, Messages: call.Messages, Context: call.Context, BodyHash: call.BodyHash, Channel: true,
		Traceparent: span.Traceparent(), Tracestate: span.State,
		parent: &parentCall{turn: turn, session: approval.Answering(session, turn), agentID: call.AgentID, transcript: a.agents.transcript},
	})
}

// ShowEnd has the end of a called agent shown in its caller's chat, where that is driven here. It is called before the caller learns
// of the end, whose next words then stand behind it.
func (a *AgentCalls) ShowEnd(ctx context.Context, child store.Session) {
	if callers := child.CallerList(); len(callers) > 0 {
		by := callers[len(callers)-1]
		a.agents.show(ctx, store.ToolCall{SessionID: by.SessionID, TurnID: by.TurnID})
	}
}

// messageID names a message of a caller that gave it no id. It is derived, so that a repeated call has the same.
func messageID(callID string, i int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", callID, i))
	return fmt.Sprintf("in-%x", sum[:8])
}

// Reads notes that a caller reads the response to a call, until done is called. What it called may wait for a person, and is
// then driven by no replica; its end must be found here as quickly.
func (a *AgentCalls) Reads() (done func()) {
	a.read(1)
	return func() { a.read(-1) }
}

func (a *AgentCalls) read(more int) {
	a.sessions.mu.Lock()
	defer a.sessions.mu.Unlock()
	a.sessions.reading += more
}

// Left is called when a caller's response has ended before the call had. The child is cancelled at once; with grace it is
// given the time of a client that comes back, for a caller that can repeat the call by its key.
func (a *AgentCalls) Left(ctx context.Context, child store.Turn, grace bool) error {
	if grace {
		a.sessions.cancels.Left(store.Session{ID: child.SessionID}, child.ID, true)
		return nil
	}
	return a.sessions.cancels.request(ctx, child, "")
}

// lock holds the caller's Session against its end: a child is begun before that, and is then ended with its caller, or not
// at all.
//
// The root's is held before it, because calls are counted there (mayCall): of two agents that call at once each would else
// count without the other's.
func (p *parentCall) lock(ctx context.Context, tx store.Tx) (err error) {
	if p == nil {
		return nil
	}
	if callers := p.session.CallerList(); len(callers) > 0 {
		if _, err := tx.LockSession(ctx, store.System(), callers[0].SessionID); err != nil {
			return err
		}
	}
	if p.session, err = tx.LockSession(ctx, store.System(), p.session.ID); err != nil {
		return err
	}
	p.turn, err = tx.Turn(ctx, store.System(), p.turn.ID)
	p.session = approval.Answering(p.session, p.turn)
	return err
}

// callers are those of the child: the caller's own and the caller.
func (p *parentCall) callers() []store.Caller {
	return append(p.session.CallerList(), store.Caller{AgentID: p.turn.AgentID, SessionID: p.session.ID, TurnID: p.turn.ID})
}

// rootTurn is the Turn of a person's prompt that the call goes back to.
func (p *parentCall) rootTurn() string { return cmp.Or(p.session.RootTurnID, p.turn.ID) }

// mayCall refuses a call that the policy blocks, that would not end, or that is one too many.
func (p *parentCall) mayCall(ctx context.Context, r store.Reader, cfg *Config, who store.Principal) error {
	if p.turn.Status.Terminal() { // since its token was read
		return ErrRunToken
	}
	if cfg.Policy != nil {
		if v := cfg.Policy.MayCall(policy.Principal(who), p.turn.AgentID, p.agentID); v.Action == policy.Block {
			return fault.New(RefusedCallForbidden, strings.TrimSpace(fmt.Sprintf("%s may not call %s. %s", p.turn.AgentID, p.agentID, v.Reason)))
		}
	}
	callers := p.callers()
	switch {
	case slices.ContainsFunc(callers, func(c store.Caller) bool { return c.AgentID == p.agentID }):
		return fault.New(RefusedCallLoop, fmt.Sprintf("%s is on the way to this call already: %s.", p.agentID, pathText(callers, p.agentID)))
	case len(callers) > maxCallers:
		return fault.New(RefusedCallDepth, fmt.Sprintf("More than %d agents would stand before this one: %s.", maxCallers, pathText(callers, p.agentID)))
	}
	all, err := r.ChildTurns(ctx, store.System(), p.rootTurn())
	if err != nil {
		return err
	}
	working := 0
	for _, t := range all {
		if t.ParentTurnID == p.turn.ID && !t.Status.Terminal() {
			working++
		}
	}
	switch {
	case working >= maxChildrenAtOnce:
		return fault.New(RefusedCallBreadth, fmt.Sprintf("This run has %d agents at work. Wait for one of them.", working))
	case len(all) >= store.MaxChildTurns:
		return fault.New(RefusedCallBreadth, fmt.Sprintf("This prompt has led to %d calls of agents, and may lead to no more.", len(all)))
	}
	return nil
}

func pathText(callers []store.Caller, agentID string) string {
	text := ""
	for _, c := range callers {
		text += c.AgentID + " → "
	}
	return text + agentID
}

// begun keeps, on the caller's side, that the child has begun, and gives the Sessions whose owners have to look.
func (p *parentCall) begun(ctx context.Context, tx store.Tx, child store.Session, turnID string) (rings []string, err error) {
	path := make([]string, 0, maxCallers+1)
	for _, c := range child.CallerList() {
		path = append(path, c.AgentID)
	}
	err = tx.InsertRecord(ctx, trace.Record(trace.AgentCalledChild, p.session.ID, p.turn.ID, time.Now(), trace.CalledChild{
		RunID: turnID, SessionID: child.ID, AgentID: p.agentID, Path: append(path, p.agentID),
	}))
	for _, look := range callersLooks(child) {
		if err == nil {
			err = tx.InsertCommand(ctx, look)
		}
		rings = append(rings, look.SessionID)
	}
	return rings, err
}

// asChild makes the new Session the caller's child.
func (p *parentCall) asChild(s *store.Session) {
	if p == nil {
		return
	}
	s.ParentTurnID, s.RootTurnID, s.Callers = p.turn.ID, p.rootTurn(), mustJSON(p.callers())
}

// Tree is a Turn with all that its Agent led to.
type Tree struct {
	Turn     store.Turn
	Usage    json.RawMessage
	Children []Tree
}

// Tree reads the Turns below a Turn that the Scope sees.
func (a *AgentCalls) Tree(ctx context.Context, in store.Scope, turn store.Turn) (Tree, error) {
	session, err := a.store.Session(ctx, in, turn.SessionID)
	if err != nil {
		return Tree{}, err
	}
	all, err := a.store.ChildTurns(ctx, in, cmp.Or(session.RootTurnID, turn.ID))
	if err != nil {
		return Tree{}, err
	}
	return treeOf(turn, all), nil
}

func treeOf(turn store.Turn, all []store.ChildTurn) Tree {
	t := Tree{Turn: turn, Usage: turn.Usage}
	for _, child := range all {
		if child.ParentTurnID == turn.ID {
			t.Children = append(t.Children, treeOf(child.Turn, all))
		}
	}
	return t
}

// FindTurn is the Turn that an id names within a Scope: of a Turn, of a Run, or the client's of a Run.
func (a *AgentCalls) FindTurn(ctx context.Context, in store.Scope, id string) (store.Turn, error) {
	turn, err := a.store.Turn(ctx, in, id)
	if !errors.Is(err, store.ErrNotFound) {
		return turn, err
	}
	run, err := a.store.FindRun(ctx, in, id)
	if err != nil {
		return store.Turn{}, err
	}
	return a.store.Turn(ctx, in, run.TurnID)
}
