package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// ClientAgent is the id of the Agent that stands for programs of a user which call tools without a prompt (ClientCalls).
// Its Turns have no upstream: one is open for as long as calls are made in it.
const ClientAgent = "mcp"

// ReservedAgent reports whether an id is that of an Agent of this program's own which is not talked to, called or registered.
func ReservedAgent(id string) bool { return id == ClientAgent }

// RefusedThreadsAgent is the code of a client's call in a thread that belongs to another Agent.
const RefusedThreadsAgent = "thread_of_an_agent"

// ClientCalls takes the tool calls of programs that act for a user without a prompt: MCP clients. Such a call has a thread
// and a Turn like any other, so that it is judged, asked for, shown and recovered like any other.
type ClientCalls struct {
	sessions *Sessions
	store    store.Store
	tools    *tools.Service
}

// ClientRequest is one such call.
type ClientRequest struct {
	ThreadID    string
	Client      string // how the program names itself; shown
	Name        string
	Args        []byte
	Traceparent string
	Tracestate  string
}

// clientTries is how often a call looks for its Turn: the one that it found may end before the call is kept, or another call
// may begin one first.
const clientTries = 4

// Invoke takes a call of a user's program. It waits for a call that is executed at once; any other is returned pending, or
// failed. The error is a *fault.Error when nothing was kept.
func (c *ClientCalls) Invoke(ctx context.Context, who store.Principal, req ClientRequest) (call store.ToolCall, err error) {
	if err := callable(req.Name); err != nil {
		return call, err
	}
	if c.sessions.Draining().Begun() {
		return call, ShuttingDown()
	}
	for range clientTries {
		var session store.Session
		var turn store.Turn
		if session, turn, err = c.turn(ctx, who, req); err != nil {
			return call, err
		}
		if turn.ID == "" {
			continue // it has ended since it was begun
		}
		call, err = c.tools.Invoke(ctx, tools.Request{
			Caller: tools.CallerOf(session, turn), Name: req.Name, Args: req.Args,
			Declared: func(context.Context, store.Reader) (map[string]json.RawMessage, error) { return nil, nil },
		})
		if fault.CodeOf(err) != tools.CodeRunOver {
			return call, err
		}
	}
	if err == nil {
		err = fault.New(tools.CodeRunOver, "The thread is ending. Try again.")
	}
	return call, err
}

// Wait returns a call of the user's as soon as it has ended, or as it is after timeout.
func (c *ClientCalls) Wait(ctx context.Context, who store.Principal, id string, timeout time.Duration) (store.ToolCall, error) {
	return c.tools.Wait(store.WithOriginals(ctx), store.As(who), id, timeout)
}

// Call is a call of the user's.
func (c *ClientCalls) Call(ctx context.Context, who store.Principal, id string) (store.ToolCall, error) {
	return c.store.ToolCall(store.WithOriginals(ctx), store.As(who), id)
}

// LastTurn is the id of the Turn that the last calls in a thread of the user's are in; "" where there are none.
func (c *ClientCalls) LastTurn(ctx context.Context, who store.Principal, thread string) (id string, err error) {
	session, err := c.store.SessionByExternalID(ctx, store.As(who), thread)
	if err == nil && session.AgentID == ClientAgent {
		var run store.Run
		if run, err = c.store.LastRun(ctx, store.As(who), session.ID); err == nil {
			var turn store.Turn
			if turn, err = c.store.Turn(ctx, store.As(who), run.TurnID); err == nil && turn.AgentID == ClientAgent {
				return turn.ID, nil
			}
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return "", err
}

// turn is the Turn under way in the thread; one is begun where there is none.
func (c *ClientCalls) turn(ctx context.Context, who store.Principal, req ClientRequest) (session store.Session, turn store.Turn, err error) {
	session, turn, err = c.active(ctx, who, req.ThreadID)
	if err != nil || turn.ID != "" {
		return session, turn, err
	}
	_, err = c.sessions.Chat(ctx, ChatRequest{
		Principal: who, Dialect: DialectV1, ThreadID: req.ThreadID, RunID: newID(), AgentID: ClientAgent, Channel: true, OnBusy: OnBusyRefuse, Unnamed: true,
		Repeat: RepeatNever, ofProgram: true, Messages: []agui.Message{{ID: newID(), Role: agui.RoleUser, Content: agui.Content{Text: req.Client + " calls tools."}}},
		Traceparent: req.Traceparent, Tracestate: req.Tracestate,
	})
	if err != nil && fault.CodeOf(err) != RefusedRunInProgress { // then another call has begun one
		return session, turn, err
	}
	return c.active(ctx, who, req.ThreadID)
}

// active is the Turn under way in a thread of the user's; the zero Turn where there is none.
func (c *ClientCalls) active(ctx context.Context, who store.Principal, thread string) (session store.Session, turn store.Turn, err error) {
	session, err = c.store.SessionByExternalID(ctx, store.As(who), thread)
	if errors.Is(err, store.ErrNotFound) {
		return session, turn, nil
	}
	if err != nil {
		return session, turn, err
	}
	if session.AgentID != ClientAgent {
		return session, turn, fault.New(RefusedThreadsAgent, "The thread belongs to the agent "+session.AgentID+".")
	}
	turn, err = c.activeIn(ctx, session)
	// A message may be for another Agent than the thread's own. A call in its Turn would be judged as that Agent's, by the rules
	// and grants for it, and that Agent could read the result.
	if err == nil && turn.ID != "" && turn.AgentID != ClientAgent {
		err = fault.New(RefusedThreadsAgent, "The agent "+turn.AgentID+" is at work in the thread.")
	}
	return session, turn, err
}

// activeIn returns the Turn under way in a Session, or the zero Turn.
func (c *ClientCalls) activeIn(ctx context.Context, session store.Session) (store.Turn, error) {
	turn, err := c.store.ActiveTurn(ctx, store.System(), session.ID)
	if errors.Is(err, store.ErrNotFound) {
		return store.Turn{}, nil
	}
	return turn, err
}

// under returns the Turn under way in a user's thread, of any Agent, or the zero Turn.
func (c *ClientCalls) under(ctx context.Context, who store.Principal, thread string) (session store.Session, turn store.Turn, err error) {
	session, err = c.store.SessionByExternalID(ctx, store.As(who), thread)
	if errors.Is(err, store.ErrNotFound) {
		return session, turn, nil
	}
	if err == nil {
		turn, err = c.activeIn(ctx, session)
	}
	return session, turn, err
}
