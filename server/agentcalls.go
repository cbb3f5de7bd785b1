// Agents that call agents: POST /v1/agents/{id}:invoke, and GET /v1/runs/{id}/tree. Who may call whom, what the child is and
// how it ends are the engine's (bridge.AgentCalls); this file reads the body, streams the child's log, and notices a caller
// that leaves.

package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/fault"
	"aqueduct/internal/ids"
	"aqueduct/server/auth"
	"aqueduct/server/channel"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// agentCalls is what agents call to have other agents work for them (platform contract §7.3). It keeps nothing between
// requests.
type agentCalls struct {
	sessions *bridge.Sessions
	store    store.Store
	in       *decode.Decoder
	out      *streams
	agents   agentCallers
	audit    *audit.Log
}

// Mount adds the routes. The call is open because a run token is no credential of a caller; the handler checks it first.
func (h *agentCalls) Mount(to *route.Routes) {
	to.Open(http.MethodPost, "/v1/agents/:id", h.invoke)
	own := to.Beside(http.MethodGet, "/v1/runs/:id/tree", withID("id", h.tree))
	to.Open(http.MethodGet, "/v1/runs/:id/tree", func(c echo.Context) error {
		if token, err := runToken(c); err == nil {
			return h.ownTree(c, token)
		}
		return own(c)
	})
}

// callBody is the contract's request (§6.1), as the platform sends it to an agent, with the key.
type callBody struct {
	AgentID        string                     `json:"agent_id" validate:"max=128"`
	SessionID      string                     `json:"session_id" validate:"max=128"`
	RunID          string                     `json:"run_id" validate:"required,max=128"`
	InputMessage   json.RawMessage            `json:"input_message" validate:"required"`
	Messages       []json.RawMessage          `json:"messages" validate:"max=1000"`
	Context        map[string]json.RawMessage `json:"context" validate:"max=100"`
	IdempotencyKey string                     `json:"idempotency_key" validate:"max=200"`
}

// callQuery is what becomes of the called agent when the caller leaves.
type callQuery struct {
	OnLeave string `query:"on_leave" validate:"omitempty,oneof=cancel continue"`
}

// invoke is POST /v1/agents/{id}:invoke. The called agent's work is in the log before it is sent, so a caller whose
// connection breaks repeats the call with its key, and Last-Event-ID, and misses nothing.
func (h *agentCalls) invoke(c echo.Context) error {
	if _, err := runToken(c); err != nil { // before anything that the path could reveal
		return err
	}
	name, ok := action(c.Param("id"), "invoke")
	if !ok {
		return store.ErrNotFound
	}
	token, who, err := h.agents.counted(c)
	if err != nil {
		return err
	}
	var q callQuery
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	call, err := h.read(c, token, name)
	if err != nil {
		return err
	}
	after, err := sentBefore(c)
	if err != nil {
		return err
	}
	if err := h.out.admit(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	reply, err := h.sessions.AgentCalls().Begin(ctx, token, call)
	if err != nil {
		h.auditForbidden(c, token, who, call, err)
		return agentProblem(err)
	}
	defer h.sessions.AgentCalls().Reads()()
	decode.ReleaseBody(c)
	in := store.As(who)
	feed, err := h.sessions.Feeds().Thread(ctx, in, reply.Session, reply.After)
	if err != nil {
		return err
	}
	defer feed.Close()
	setID(c.Response().Header(), headerRun, reply.Run.TurnID)
	reader := channel.NewInvocation(h.store, in, reply.Session)
	how := h.out.run(c, ctx, false, 0, func(ctx context.Context, w *stream) error {
		items, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		events, over, err := reader.Read(ctx, items)
		if err != nil {
			return err
		}
		if over {
			h.sessions.AgentCalls().ShowEnd(ctx, reply.Session)
		}
		if err := w.send(invokedFrames(events, after)); err != nil || !over {
			return err
		}
		return io.EOF
	})
	if (how == outcomeLeft || how == outcomeSlow) && q.OnLeave != "continue" {
		h.left(c, reply, call.Key != "")
	}
	return cut(how)
}

// auditForbidden writes down that the policy refused a call, for the agent or for its user. The error handler knows neither:
// a run token is no credential of a caller.
func (h *agentCalls) auditForbidden(c echo.Context, token string, who store.Principal, call bridge.AgentCall, err error) {
	code := fault.CodeOf(err)
	if code != bridge.RefusedCallForbidden && code != bridge.RefusedForbiddenAgent {
		return
	}
	ctx := c.Request().Context()
	from, err := h.sessions.AgentRequests().Caller(ctx, token)
	if err != nil {
		return // its run ended a moment ago; the error handler writes an entry
	}
	c.Set(audited, true)
	called := call.AgentID
	if !ids.ValidName(called) {
		called = "" // the path may hold anything, and an entry stays for ever
	}
	h.audit.Refused(ctx, who, audit.AgentCallRefused, audit.OfAgent(called), map[string]any{"from": from.Session.AgentID, "run_id": from.TurnID, "code": code})
}

// leaveTime bounds how long a caller's end keeps its handler.
const leaveTime = 5 * time.Second

// left cancels the called agent. The request's context is over by now.
func (h *agentCalls) left(c echo.Context, reply bridge.Reply, grace bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), leaveTime)
	defer cancel()
	child, err := h.store.Turn(ctx, store.System(), reply.Run.TurnID)
	if err == nil && !child.Status.Terminal() {
		err = h.sessions.AgentCalls().Left(ctx, child, grace)
	}
	if err != nil {
		h.out.log.Error("a called agent goes on although its caller has left", "turn_id", reply.Run.TurnID, "error", err)
	}
}

// read reads the body. Its hash is that of the bytes: a key that is used for another body is refused.
func (h *agentCalls) read(c echo.Context, token, agentID string) (call bridge.AgentCall, err error) {
	var body callBody
	if err := h.in.JSON(c, &body); err != nil {
		return call, err
	}
	if body.AgentID != "" && body.AgentID != agentID {
		return call, problem.Refuse(problem.InvalidBody, "agent_id is another than that of the path.")
	}
	body.RunID = bridge.OwnRun(token, body.RunID) // one Turn is one caller, whichever of its calls repeats this one
	call = bridge.AgentCall{RunID: body.RunID, SessionID: body.SessionID, AgentID: agentID, Key: body.IdempotencyKey}
	raw, _ := json.Marshal(body) // it was read a moment ago
	sum := sha256.Sum256(raw)
	call.BodyHash = sum[:]
	for i, message := range append(slices.Clone(body.Messages), body.InputMessage) {
		m, err := callMessage(message, i == len(body.Messages))
		if err != nil {
			return call, err
		}
		call.Messages = append(call.Messages, m)
	}
	for _, key := range slices.Sorted(maps.Keys(body.Context)) {
		call.Context = append(call.Context, agui.Context{Description: key, Value: textOrJSON(body.Context[key])})
	}
	return call, nil
}

// callMessage reads a message of a call. The input is a user's: it is what the called agent answers.
func callMessage(raw json.RawMessage, input bool) (m agui.Message, err error) {
	no := problem.Refuse(problem.InvalidBody, "A message is not in AG-UI's form: {role, content}.")
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return m, no
	}
	_, named := members["id"] // which AG-UI demands, and the contract does not have
	if !named {
		members["id"] = json.RawMessage(`"-"`)
	}
	if raw, err = json.Marshal(members); err != nil || json.Unmarshal(raw, &m) != nil {
		return m, no
	}
	if !named {
		m.ID = ""
	}
	switch {
	case input && m.Role != agui.RoleUser:
		return m, problem.Refuse(problem.InvalidBody, "input_message: its role has to be user.")
	case !slices.Contains([]string{agui.RoleUser, agui.RoleAssistant, agui.RoleSystem, agui.RoleDeveloper}, m.Role):
		return m, problem.Refuse(problem.InvalidBody, "messages: roles are user, assistant, system and developer.")
	}
	return m, nil
}

// textOrJSON is a JSON string's text, or the JSON of any other value, without spaces.
func textOrJSON(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var line bytes.Buffer
	if json.Compact(&line, raw) != nil {
		return string(raw)
	}
	return line.String()
}

// sentBefore is the position that the caller has from an earlier response to the same call.
func sentBefore(c echo.Context) (int64, error) {
	given := c.Request().Header.Get("Last-Event-ID")
	if given == "" {
		return 0, nil
	}
	seq, err := strconv.ParseInt(given, 10, 64)
	if err != nil || seq < 0 {
		return 0, problem.Refuse(problem.InvalidQuery, "Last-Event-ID is no id of this stream.")
	}
	return seq, nil
}

// invokedFrames are the events that the caller does not have, as SSE.
func invokedFrames(events []channel.Invoked, after int64) (frames []byte) {
	for _, e := range events {
		if e.Seq > after || e.Seq == 0 {
			frames = appendFrame(frames, position(e.Seq), e.Event, e.Data)
		}
	}
	return frames
}

// treeJSON is a run and the runs of the agents that its agent called. Times are Unix milliseconds.
type treeJSON struct {
	RunID     string          `json:"run_id"`
	SessionID string          `json:"session_id"`
	AgentID   string          `json:"agent_id"`
	Status    string          `json:"status"`
	ErrorCode string          `json:"error_code,omitempty"`
	Usage     json.RawMessage `json:"usage,omitempty"` // AG-UI's, with that of the children
	CreatedAt int64           `json:"created_at"`
	StartedAt int64           `json:"started_at,omitempty"`
	EndedAt   int64           `json:"ended_at,omitempty"`
	Children  []treeJSON      `json:"children"`
}

func treeOut(t bridge.Tree) treeJSON {
	out := treeJSON{
		RunID: t.Turn.ID, SessionID: t.Turn.SessionID, AgentID: t.Turn.AgentID, Status: string(t.Turn.Status), ErrorCode: t.Turn.ErrorCode,
		Usage: t.Usage, CreatedAt: t.Turn.CreatedAt.UnixMilli(), StartedAt: milliOr0(t.Turn.StartedAt), EndedAt: milliOr0(t.Turn.EndedAt),
		Children: make([]treeJSON, len(t.Children)),
	}
	for i, child := range t.Children {
		out.Children[i] = treeOut(child)
	}
	return out
}

// tree is GET /v1/runs/{id}/tree for the user of the thread, and for auditors.
func (h *agentCalls) tree(c echo.Context, id string) error {
	ctx := c.Request().Context()
	in := auth.From(ctx).Review()
	turn, err := h.sessions.AgentCalls().FindTurn(ctx, in, id)
	if err != nil {
		return err
	}
	return h.writeTree(c, in, turn)
}

// ownTree is the same for an agent, of its own run.
func (h *agentCalls) ownTree(c echo.Context, token string) error {
	id, err := decode.PathID(c, "id")
	if err != nil {
		return err
	}
	turn, err := h.agents.turn(c, token)
	if err != nil {
		return err
	}
	if turn.ID != bridge.OwnRun(token, id) {
		return store.ErrNotFound
	}
	return h.writeTree(c, store.System(), turn)
}

func (h *agentCalls) writeTree(c echo.Context, in store.Scope, turn store.Turn) error {
	tree, err := h.sessions.AgentCalls().Tree(c.Request().Context(), in, turn)
	if errors.Is(err, store.ErrNotFound) {
		return store.ErrNotFound
	}
	return reply(c, http.StatusOK, treeOut(tree), err)
}
