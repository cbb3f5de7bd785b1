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
	"aqueduct/bridge/tools"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// toolProxy is what agents call to have tools run (platform contract §7.2). They show the run
// token that came with their prompt, which is good for their own Turn's calls, or the session
// token of their environment, which is good for the calls of their Session.
type toolProxy struct {
	sessions *bridge.Sessions
	store    store.Store
	in       *intake
	draining context.Context // a wait ends with it: whoever waits asks our successor
}

func (h *toolProxy) mount(to *routes) {
	to.open(http.MethodPost, "/v1/tools/:call", h.invoke)
	own := to.beside(http.MethodGet, "/v1/tool_calls/:id", h.own)
	to.open(http.MethodGet, "/v1/tool_calls/:id", func(c echo.Context) error {
		if token, err := runToken(c); err == nil {
			return h.get(c, token)
		}
		return own(c)
	})
	to.open(http.MethodPost, "/v1/tool_calls/:id", h.wait)
}

// invokeBody is the contract's request.
type invokeBody struct {
	RunID          string  `json:"run_id" validate:"required,max=128"`
	Args           rawJSON `json:"args"`
	IdempotencyKey string  `json:"idempotency_key" validate:"max=200"`
	CallID         string  `json:"call_id" validate:"max=200"` // the agent's own, as in its tool_call frames; "": the key
	TimeoutMS      int64   `json:"timeout_ms" validate:"gte=0,lte=3600000"`
}

// proxiedJSON is a call as the contract answers it, and where it is.
type proxiedJSON struct {
	Status     string      `json:"status"` // succeeded, pending, failed
	ToolCallID string      `json:"tool_call_id,omitempty"`
	Result     rawJSON     `json:"result,omitempty"` // of one that succeeded, and of no other
	Error      rawJSON     `json:"error,omitempty"`
	State      string      `json:"state,omitempty"`
	Timestamps *timestamps `json:"timestamps,omitempty"`
}

// timestamps are Unix milliseconds; what has not happened is left out.
type timestamps struct {
	CreatedAt int64 `json:"created_at"`
	RunningAt int64 `json:"running_at,omitempty"`
	ExpiresAt int64 `json:"expires_at,omitempty"`
	EndedAt   int64 `json:"ended_at,omitempty"`
}

// invoke is POST /v1/tools/{name}:invoke.
func (h *toolProxy) invoke(c echo.Context) error {
	token, err := runToken(c)
	if err != nil {
		return err
	}
	name, ok := action(c.Param("call"), "invoke")
	if !ok {
		return store.ErrNotFound
	}
	if err := h.in.mayInvoke(c, h.sessions, token); err != nil { // before the body
		return err
	}
	var body invokeBody
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	call, err := h.sessions.InvokeTool(c.Request().Context(), token, bridge.ToolRequest{
		RunID: body.RunID, Name: name, Args: []byte(body.Args), Key: body.IdempotencyKey, CallID: body.CallID, Timeout: time.Duration(body.TimeoutMS) * time.Millisecond,
	})
	h.in.awaits(c, 0) // from now on: how long the tool might run only its registration knew
	var failed *tools.Error
	if errors.As(err, &failed) {
		return c.JSON(http.StatusOK, proxiedJSON{Status: "failed", Error: errorJSON(failed.Code, failed.Message)})
	}
	if err != nil {
		return h.leaving(err)
	}
	return c.JSON(http.StatusOK, proxiedOut(call))
}

// leaving says that the server goes away, where that is why a call was given up.
func (h *toolProxy) leaving(err error) error {
	if h.draining.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, eventlog.ErrStopped)) {
		return refuse(codeShuttingDown, "")
	}
	return err
}

// own is GET /v1/tool_calls/{id} for the user of the thread that the call belongs to. For everybody else there is none of
// that id.
func (h *toolProxy) own(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	call, err := h.store.ToolCall(ctx, auth.From(ctx).Scope(), id)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, proxiedOut(call))
}

// get is GET /v1/tool_calls/{id} for the agent.
func (h *toolProxy) get(c echo.Context, token string) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	if _, err := h.in.agent(c, h.sessions, token); err != nil {
		return err
	}
	call, err := h.sessions.ToolCallOf(c.Request().Context(), token, id)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, proxiedOut(call))
}

// defaultToolWait and longestToolWait bound how long one request waits for a call. Whoever
// waits longer asks again.
const (
	defaultToolWait = 60 * time.Second
	longestToolWait = 5 * time.Minute
)

type waitQuery struct {
	TimeoutMS int64 `query:"timeout_ms" validate:"gte=0,lte=300000"`
}

// wait is POST /v1/tool_calls/{id}:wait.
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
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	if _, err := h.in.agent(c, h.sessions, token); err != nil {
		return err
	}
	timeout := defaultToolWait
	if q.TimeoutMS > 0 {
		timeout = min(time.Duration(q.TimeoutMS)*time.Millisecond, longestToolWait)
	}
	h.in.awaits(c, timeout)
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	defer context.AfterFunc(h.draining, cancel)()
	call, err := h.sessions.WaitTool(ctx, token, id, timeout)
	if err != nil {
		return h.leaving(err)
	}
	return c.JSON(http.StatusOK, proxiedOut(call))
}

// action splits {name}:{verb} at the last colon, which some clients encode.
func action(param, verb string) (name string, ok bool) {
	path, err := url.PathUnescape(param)
	i := strings.LastIndexByte(path, ':')
	if err != nil || i <= 0 || path[i+1:] != verb {
		return "", false
	}
	return path[:i], true
}

// agentWaits reports whether the request is a wait without a body, which the contract has none
// for. No page of a stranger can send it: a run token is never in a cookie.
func agentWaits(c echo.Context) bool {
	r := c.Request()
	_, err := runToken(c)
	return err == nil && r.ContentLength == 0 && strings.HasSuffix(r.URL.Path, ":wait")
}

// runToken is what has the form of one.
func runToken(c echo.Context) (string, error) {
	given := c.Request().Header.Values("Authorization")
	if len(given) != 1 {
		return "", bridge.ErrRunToken
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || !bridge.IsRunToken(token) {
		return "", bridge.ErrRunToken
	}
	return token, nil
}

func proxiedOut(call store.ToolCall) proxiedJSON {
	out := proxiedJSON{Status: "pending", ToolCallID: call.ID, State: string(call.Status), Timestamps: &timestamps{
		CreatedAt: call.CreatedAt.UnixMilli(), RunningAt: milliOr0(call.RunningAt), ExpiresAt: milliOr0(call.ExpiresAt), EndedAt: milliOr0(call.EndedAt),
	}}
	switch {
	case call.Status == store.ToolSucceeded:
		out.Status, out.Result = "succeeded", orNull(call.Result)
	case call.Status.Terminal():
		out.Status, out.Error = "failed", rawJSON(call.Error)
		if len(call.Error) == 0 {
			out.Error = errorJSON(call.ErrorCode, "The call failed.")
		}
	}
	return out
}

func milliOr0(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func errorJSON(code, message string) rawJSON {
	raw, _ := json.Marshal(tools.Error{Code: code, Message: message}) // two texts always can be written
	return raw
}
