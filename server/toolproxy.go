// Tools for agents: POST /v1/tools/{name}:invoke and the calls it made. Whether a call may run, needs a person or was
// made before is decided by the engine and bridge/tools; this file checks the token and words the answers.

package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/eventlog"
	"aqueduct/internal/fault"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/limit"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// toolProxy is what agents call to have tools run (platform contract §7.2). They show the run token that came with
// their prompt, which is good for their own Turn's calls, or the session token of their environment, which is good
// for the calls of their Session. It keeps nothing between requests.
type toolProxy struct {
	sessions *bridge.Sessions
	store    store.Store
	in       *decode.Decoder
	agents   agentCallers
	draining context.Context // a wait ends with it: the client asks this server's successor
}

// Mount adds the routes as open ones, because a run token is no credential of a caller; each handler checks it first.
func (h *toolProxy) Mount(to *route.Routes) {
	// The router has no pattern for {name}:invoke, so a parameter takes all of it and the handler splits it (action).
	to.Open(http.MethodPost, "/v1/tools/:call", h.invoke)
	// The same path serves agents and users: a run token has a form that no user's token has.
	own := to.Beside(http.MethodGet, "/v1/tool_calls/:id", withID("id", h.own))
	to.Open(http.MethodGet, "/v1/tool_calls/:id", func(c echo.Context) error {
		if token, err := runToken(c); err == nil {
			return h.get(c, token)
		}
		return own(c)
	})
	to.Open(http.MethodPost, "/v1/tool_calls/:id", h.wait)
}

// invokeBody is the contract's request. A call with a key that was used before is not made again; the answer is that
// of the first.
type invokeBody struct {
	RunID          string          `json:"run_id" validate:"max=128"` // needed with a run token
	Args           json.RawMessage `json:"args"`
	IdempotencyKey string          `json:"idempotency_key" validate:"max=200"`
	CallID         string          `json:"call_id" validate:"max=200"` // the agent's own, as in its tool_call frames; "": the key
	TimeoutMS      int64           `json:"timeout_ms" validate:"gte=0,lte=3600000"`
}

// proxiedJSON is a call as the contract answers it, and where it is. pending means that a person has to answer first,
// or that the tool still runs; the agent then waits by tool_call_id.
type proxiedJSON struct {
	Status     string          `json:"status"` // succeeded, pending, failed
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"` // of one that succeeded, and of no other
	Error      json.RawMessage `json:"error,omitempty"`
	State      string          `json:"state,omitempty"`
	Timestamps *timestamps     `json:"timestamps,omitempty"`
}

// timestamps are Unix milliseconds; what has not happened is left out. Agents measure with them how long a person
// took, and when a call ends by itself.
type timestamps struct {
	CreatedAt int64 `json:"created_at"`
	RunningAt int64 `json:"running_at,omitempty"`
	ExpiresAt int64 `json:"expires_at,omitempty"`
	EndedAt   int64 `json:"ended_at,omitempty"`
}

// invoke is POST /v1/tools/{name}:invoke. A refusal that is part of the contract is a failed call with status 200,
// because the agent's model should read it as the result of its tool.
func (h *toolProxy) invoke(c echo.Context) error {
	token, err := runToken(c)
	if err != nil {
		return err
	}
	name, ok := action(c.Param("call"), "invoke")
	if !ok {
		return store.ErrNotFound
	}
	who, err := h.agents.known(c, token)
	if err != nil {
		return err
	}
	// It is counted by the user whose agent calls, so that one agent in a loop cannot use up what others have.
	if err := h.in.MayInvoke(c, who); err != nil {
		return err
	}
	var body invokeBody
	if err := h.in.JSON(c, &body); err != nil {
		return err
	}
	if strings.IndexByte(body.IdempotencyKey, 0) >= 0 || strings.IndexByte(body.CallID, 0) >= 0 {
		return problem.Refuse(problem.InvalidBody, "idempotency_key and call_id take no NUL.")
	}
	if body.RunID == "" { // a session token's own calls name the Session
		if body.RunID, ok = bridge.SessionOfToken(token); !ok {
			return problem.Refuse(problem.InvalidBody, "run_id: required.")
		}
	}
	call, err := h.sessions.AgentRequests().Invoke(c.Request().Context(), token, bridge.ToolRequest{
		RunID: body.RunID, Name: name, Args: []byte(body.Args), Key: body.IdempotencyKey, CallID: body.CallID, Timeout: time.Duration(body.TimeoutMS) * time.Millisecond,
	})
	// The deadline of the answer may have passed while the tool ran. That ends only a write, and none was made yet.
	h.in.Awaits(c, 0) // from now on: how long the tool might run only its registration knew
	var failed *fault.Error
	if errors.As(err, &failed) {
		return c.JSON(http.StatusOK, proxiedJSON{Status: "failed", Error: errorJSON(failed.Code, failed.Message)})
	}
	if err != nil {
		return h.leaving(err)
	}
	return c.JSON(http.StatusOK, proxiedOut(call))
}

// leaving reports the shutdown, where that is why a call was given up. The agent should ask again, and gets to this
// server's successor; a plain cancellation would look like the end of the call.
func (h *toolProxy) leaving(err error) error {
	if h.draining.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, eventlog.ErrStopped)) {
		return problem.Refuse(limit.ShuttingDown, "")
	}
	return agentProblem(err)
}

// own is GET /v1/tool_calls/{id} for the user of the thread that the call belongs to. For everybody else there is
// none of that id. It needs no token of the agent, because the call is part of the user's thread.
func (h *toolProxy) own(c echo.Context, id string) error {
	ctx := c.Request().Context()
	call, err := h.store.ToolCall(ctx, auth.From(ctx).Scope(), id)
	return reply(c, http.StatusOK, proxiedOut(call), err)
}

// get is GET /v1/tool_calls/{id} for the agent. A call of another Session is not found.
func (h *toolProxy) get(c echo.Context, token string) error {
	id, err := decode.PathID(c, "id")
	if err != nil {
		return err
	}
	if _, err := h.agents.known(c, token); err != nil {
		return err
	}
	call, err := h.sessions.AgentRequests().Call(c.Request().Context(), token, id)
	return reply(c, http.StatusOK, proxiedOut(call), agentProblem(err))
}

// defaultToolWait and longestToolWait bound how long one request waits for a call. A client that waits longer asks
// again. The second is also the bound in the query's rule.
const (
	defaultToolWait = 60 * time.Second
	longestToolWait = 5 * time.Minute
)

// waitQuery is how long the agent wants to wait at most.
type waitQuery struct {
	TimeoutMS int64 `query:"timeout_ms" validate:"gte=0,lte=300000"`
}

// wait is POST /v1/tool_calls/{id}:wait. It answers as soon as the call has ended, or with the pending call when the
// time is over. The wait holds no database connection, only the request.
func (h *toolProxy) wait(c echo.Context) error {
	token, err := runToken(c)
	if err != nil {
		return err
	}
	id, ok := action(c.Param("id"), "wait")
	if !ok {
		return store.ErrNotFound
	}
	var q waitQuery
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	if _, err := h.agents.known(c, token); err != nil {
		return err
	}
	timeout := defaultToolWait
	if q.TimeoutMS > 0 {
		timeout = min(time.Duration(q.TimeoutMS)*time.Millisecond, longestToolWait)
	}
	h.in.Awaits(c, timeout)
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	defer context.AfterFunc(h.draining, cancel)()
	call, err := h.sessions.AgentRequests().Wait(ctx, token, id, timeout)
	if err != nil {
		return h.leaving(err)
	}
	return c.JSON(http.StatusOK, proxiedOut(call))
}

// action splits {name}:{verb} at the last colon, which some clients encode. Tool names may contain colons themselves,
// hence the last one.
func action(param, verb string) (name string, ok bool) {
	path, err := url.PathUnescape(param)
	i := strings.LastIndexByte(path, ':')
	if err != nil || i <= 0 || path[i+1:] != verb {
		return "", false
	}
	return path[:i], true
}

// agentWaits reports whether the request is a wait without a body, which the contract has none for. No page of a
// stranger can send it: a run token is never in a cookie. Every other write must be JSON, even without a body.
func agentWaits(c echo.Context) bool {
	r := c.Request()
	_, err := runToken(c)
	return err == nil && r.ContentLength == 0 && strings.HasSuffix(r.URL.Path, ":wait")
}

// proxiedOut is a call in the contract's words: every state that is no end is pending. A failure without an error of
// its own gets one made of its code.
func proxiedOut(call store.ToolCall) proxiedJSON {
	out := proxiedJSON{Status: "pending", ToolCallID: call.ID, State: string(call.Status), Timestamps: &timestamps{
		CreatedAt: call.CreatedAt.UnixMilli(), RunningAt: milliOr0(call.RunningAt), ExpiresAt: milliOr0(call.ExpiresAt), EndedAt: milliOr0(call.EndedAt),
	}}
	switch {
	case call.Status == store.ToolSucceeded:
		out.Status, out.Result = "succeeded", orNull(call.Result)
	case call.Status.Terminal():
		out.Status, out.Error = "failed", json.RawMessage(call.Error)
		if len(call.Error) == 0 {
			out.Error = errorJSON(call.ErrorCode, "The call failed.")
		}
	}
	return out
}

// milliOr0 is a time in Unix milliseconds; 0, which is left out of the JSON, for one that has not come.
func milliOr0(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// errorJSON is an error as the contract has it: {"code":…,"message":…}.
func errorJSON(code, message string) json.RawMessage {
	raw, _ := json.Marshal(fault.Error{Code: code, Message: message}) // two texts always can be written
	return raw
}
