// This file is the second link of the platform contract (§3.2): messages that wait in the queue (bridge/queue) until their
// agent has room. They come as agent_invoke with mode async, or to POST /v1/runs, and are answered with task_enqueued.

package channel

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/channelfeed"
	"aqueduct/internal/retry"
	"aqueduct/policy"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/route"
	"aqueduct/store"
)

// Queue keeps prompts that can wait until their agent has room. It is an interface so that this room stands beside bridge/queue, which
// has it, and not above.
type Queue interface {
	// Waits reports whether the policy puts a prompt into the queue.
	Waits(ctx context.Context, p policy.Prompted, threadID string) (bool, error)
	// Add keeps a prompt as a Task. channel is the one whose callback gets what comes of it; "" is none.
	Add(ctx context.Context, chat bridge.ChatRequest, priority int64, channel string) (store.Task, error)
	// Cancel ends a Task that has no Turn yet; false where there is none, or it has one.
	Cancel(ctx context.Context, in store.Scope, id string) (bool, error)
	// OnBegun has f called in the transaction that makes a Task a Turn.
	OnBegun(f func(ctx context.Context, tx store.Tx, t store.Task, channel string, reply bridge.Reply) error)
	// OnEnded has f called in the transaction that ends a Task which never became a Turn.
	OnEnded(f func(ctx context.Context, tx store.Tx, t store.Task, channel string) error)
}

// The links that an invoke may name. Without one the policy decides.
const (
	modeSync  = "sync"
	modeAsync = "async"
)

// linkFrame is what an invoke has about how it is answered.
type linkFrame struct {
	Mode     string `json:"mode" validate:"omitempty,oneof=sync async"`
	Priority int64  `json:"priority" validate:"gte=-10,lte=10"`
	// Labels and ExpectedCost, in the currency of the price table, are for the rules of the policy.
	Labels       []string `json:"labels" validate:"max=16,dive,max=64"`
	ExpectedCost float64  `json:"expected_cost" validate:"gte=0"`
}

// waits reports whether an invoke goes into the queue.
func (d *dispatcher) waits(ctx context.Context, raw []byte) (bool, error) {
	var body struct {
		linkFrame
		AgentID   string `json:"agent_id"`
		SessionID string `json:"session_id"`
	}
	if err := d.h.In.Message(raw, &body); err != nil {
		return false, err
	}
	switch body.Mode {
	case modeAsync:
		return true, nil
	case modeSync:
		return false, nil
	}
	return d.h.Queue.Waits(ctx, policy.Prompted{
		By: policy.Principal(d.caller.Principal), AgentID: body.AgentID, Labels: body.Labels, ExpectedCost: body.ExpectedCost,
	}, body.SessionID)
}

// enqueue puts an invoke into the queue. channel is the one whose callback gets the results; "" is none.
func (d *dispatcher) enqueue(ctx context.Context, frame *Envelope, raw []byte, channel string) (store.Task, error) {
	var body struct {
		invokeFrame
		linkFrame
	}
	if err := d.h.In.Message(raw, &body); err != nil {
		return store.Task{}, err
	}
	if frame.RequestID == "" {
		frame.RequestID = uuid.NewString()
	}
	if frame.SessionID == "" {
		frame.SessionID = frame.RequestID // a session of its own, the same for the same request
	}
	chat, err := d.chatRequest(*frame, body.invokeFrame)
	if err != nil {
		return store.Task{}, err
	}
	if err := d.allow(d.h.In.Brakes.Runs); err != nil {
		return store.Task{}, err
	}
	task, err := d.h.Queue.Add(ctx, chat, body.Priority, channel)
	frame.RunID = task.ID
	return task, err
}

// Enqueued is the answer to a message that waits in the queue.
type Enqueued struct {
	Type      string `json:"type"` // task_enqueued
	RequestID string `json:"request_id"`
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id"`
}

const typeTaskEnqueued = "task_enqueued"

// enqueuedOf answers with the thread that the Task is for, which for a request that is repeated is the first one's.
func enqueuedOf(frame Envelope, t store.Task) Enqueued {
	return Enqueued{typeTaskEnqueued, frame.RequestID, t.ThreadID, t.ID}
}

const (
	// maxFollowed bounds the Tasks of one connection whose Turns it follows when they begin. A client that sends more asks for
	// the others by their run_id.
	maxFollowed = 256
	// taskLook is how often a Task that waits is looked at for a connection.
	taskLook = time.Second
)

// follower sends what comes of a Task to the connection, once its Turn has begun.
type follower struct {
	*connection
	frame Envelope
	task  store.Task
}

// run looks at the Task until it is over or the connection ends.
func (s follower) run() {
	if s.followed.Add(1) > maxFollowed {
		s.followed.Add(-1)
		return
	}
	s.Tasks.Go(func() {
		defer s.followed.Add(-1)
		for s.Ctx.Err() == nil {
			over, err := s.look()
			if err != nil && !errors.Is(err, store.ErrNotFound) && s.Ctx.Err() == nil {
				s.fail(s.frame, err)
			}
			if over || retry.Sleep(s.Ctx, taskLook) != nil {
				return
			}
		}
	})
}

// look subscribes to the Turn of the Task, if there is one by now. over: there is, or there will be none.
// The end of the log is read before the Run: where that has no event then, all of its events lie behind that end.
func (s follower) look() (over bool, err error) {
	turn, err := s.h.Store.Turn(s.Ctx, s.in, s.task.ID)
	if errors.Is(err, store.ErrNotFound) {
		return s.withoutTurn()
	}
	if err != nil {
		return false, err
	}
	session, err := s.h.Store.Session(s.Ctx, s.in, turn.SessionID)
	if err != nil {
		return false, err
	}
	last, err := s.h.Store.LastSeq(s.Ctx, s.in, session.ID)
	if err != nil {
		return false, err
	}
	run, err := s.h.Store.Run(s.Ctx, s.in, s.task.ID)
	if err != nil {
		return false, err
	}
	return true, s.answerTo(s.frame, bridge.Reply{Session: session, Run: run, After: afterOf(run, last)})
}

// afterOf is the position before a Run's first event.
func afterOf(run store.Run, last int64) int64 {
	if run.FirstSeq > 0 {
		return run.FirstSeq - 1
	}
	return last
}

// withoutTurn ends, for the client, a Task that will not become a Turn, by the two messages that end every Turn. One that
// is neither in the queue nor a Turn is gone with its thread.
func (s follower) withoutTurn() (over bool, err error) {
	now, err := s.h.Store.Task(s.Ctx, s.in, s.task.ID)
	if errors.Is(err, store.ErrNotFound) {
		_, err = s.h.Store.Turn(s.Ctx, s.in, s.task.ID) // it may have begun between the two
		return errors.Is(err, store.ErrNotFound), err
	}
	if err != nil || now.Status != store.TaskFailed && now.Status != store.TaskCancelled {
		return false, err
	}
	for _, m := range endOf(now) {
		s.sendAbout(s.frame, m)
	}
	return true, nil
}

// endOf is the end of a Task that never became a Turn, as a Turn would have it.
func endOf(t store.Task) []Message {
	if t.Status == store.TaskCancelled {
		return []Message{{Type: typeState, State: string(store.TurnCancelled)}, {Type: typeDone, Usage: &usageSum{}}}
	}
	return []Message{{Type: typeState, State: string(store.TurnFailed)}, {Type: typeError, Code: t.Code, Message: t.Message}}
}

// begun has the callback of a channel get what comes of a Task, from the commit on that makes it a Turn.
func (h *WebhookHandler) begun(ctx context.Context, tx store.Tx, t store.Task, channel string, reply bridge.Reply) error {
	if channel == "" {
		return nil
	}
	return h.relay.AddIn(ctx, tx, t.ID, channelfeed.Cursor{
		Channel: channel, Tenant: t.Tenant, User: t.User, SessionID: reply.Session.ID, TurnID: t.ID, Seq: seqOf(reply.After+1, -1),
	})
}

// ended has the callback of a channel get how a Task ended that never became a Turn. There is no log to read that from, and so no
// cursor: it is one delivery.
func (h *WebhookHandler) ended(ctx context.Context, tx store.Tx, t store.Task, channel string) error {
	if channel == "" {
		return nil
	}
	in := store.As(store.Principal{Tenant: t.Tenant, User: t.User})
	session, err := tx.SessionByExternalID(ctx, in, t.ThreadID) // there may be none yet
	var last int64
	if err == nil {
		last, err = tx.LastSeq(ctx, in, session.ID)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	now, messages := time.Now(), endOf(t)
	for i := range messages {
		m := &messages[i]
		m.TS, m.RequestID, m.SessionID, m.RunID, m.Seq = millis(now), t.RequestID, t.ThreadID, t.ID, seqOf(last+1, -1)
	}
	payload, err := deliveryOf(channel, t.User, messages)
	if err != nil {
		return err
	}
	return tx.InsertOutbox(ctx, store.OutboxItem{
		ID: uuid.Must(uuid.NewV7()).String(), SessionID: session.ID, Kind: OutboxKind, Target: channel, Payload: payload, CreatedAt: now, NextAt: now,
	})
}

// tasks are the routes of the queue.
type tasks struct{ *Handler }

// mount adds them.
func (h tasks) mount(to *route.Routes) {
	to.Callers(http.MethodPost, "/v1/runs", h.post)
	to.Callers(http.MethodGet, "/v1/runs/:id", h.show)
}

// TaskPrompt is the body of POST /v1/runs.
type TaskPrompt struct {
	RequestID string `json:"request_id" validate:"max=128"`
	SessionID string `json:"session_id" validate:"max=128"`
	invokeFrame
	linkFrame
}

// post is POST /v1/runs: an agent_invoke with mode async.
func (h tasks) post(c echo.Context) error {
	ctx := c.Request().Context()
	raw, err := h.In.Body(c)
	if err != nil {
		return err
	}
	caller := auth.From(ctx)
	desk := dispatcher{h: h.Handler, caller: caller, in: caller.Scope(), remote: c.Request().RemoteAddr}
	var frame TaskPrompt
	if err := h.In.Message(raw, &frame); err != nil {
		return webhookProblem(err)
	}
	about := Envelope{RequestID: frame.RequestID, SessionID: frame.SessionID}
	task, err := desk.enqueue(ctx, &about, raw, "")
	if err != nil {
		return webhookProblem(err)
	}
	return c.JSON(http.StatusAccepted, enqueuedOf(about, task))
}

// RunStatus is how far a prompt is that came by the queue, or a Turn that came otherwise.
type RunStatus struct {
	RunID     string `json:"run_id"`
	SessionID string `json:"session_id"`
	RequestID string `json:"request_id,omitempty"`
	AgentID   string `json:"agent_id"`
	// Status is WAITING in the queue, then the Turn's; FAILED and CANCELLED of either.
	Status    string `json:"status"`
	Priority  int64  `json:"priority,omitempty"`
	ErrorCode string `json:"error_code,omitempty"`
	Error     string `json:"error,omitempty"`
	CreatedAt int64  `json:"created_at"` // Unix milliseconds, as the next
	EndedAt   int64  `json:"ended_at,omitempty"`
}

// show is GET /v1/runs/{id}. The Turn goes before the Task that it was: that is deleted when the Turn has ended.
func (h tasks) show(c echo.Context) error {
	ctx := c.Request().Context()
	id, err := decode.PathID(c, "id")
	if err != nil {
		return err
	}
	caller := auth.From(ctx)
	out, err := h.run(ctx, caller, id)
	if errors.Is(err, store.ErrNotFound) {
		out, err = h.waiting(ctx, caller.Scope(), id)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && (out.Status == string(store.TaskBegun) || out.Status == string(store.TaskUnsent)) { // it may have begun between the two
		out, err = h.run(ctx, caller, id)
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, out)
}

// run is a Turn of the caller's, or one in a thread that is shared with the caller.
func (h tasks) run(ctx context.Context, caller auth.Caller, id string) (RunStatus, error) {
	in := caller.Scope()
	run, err := h.Store.FindRun(ctx, in, id)
	if errors.Is(err, store.ErrNotFound) {
		var of store.Access
		if of, err = h.Store.Access(ctx, caller.Principal, store.AccessBy{RunID: id}); err == nil {
			in = of.Scope()
			run, err = h.Store.FindRun(ctx, in, id)
		}
	}
	if err != nil {
		return RunStatus{}, err
	}
	turn, err := h.Store.Turn(ctx, in, run.TurnID)
	if err != nil {
		return RunStatus{}, err
	}
	session, err := h.Store.Session(ctx, in, turn.SessionID)
	name := session.ExternalID
	if in.Session() != "" { // by which the caller knows it
		name = session.ID
	}
	return RunStatus{
		RunID: turn.ID, SessionID: name, AgentID: turn.AgentID, Status: WireState(turn.Status), ErrorCode: turn.ErrorCode,
		Error: turn.ErrorMessage, CreatedAt: millis(turn.CreatedAt), EndedAt: millis(turn.EndedAt),
	}, err
}

func (h tasks) waiting(ctx context.Context, in store.Scope, id string) (RunStatus, error) {
	t, err := h.Store.Task(ctx, in, id)
	return RunStatus{
		RunID: t.ID, SessionID: t.ThreadID, RequestID: t.RequestID, AgentID: t.AgentID, Status: string(t.Status), Priority: t.Priority,
		ErrorCode: t.Code, Error: t.Message, CreatedAt: millis(t.CreatedAt), EndedAt: millis(t.EndedAt),
	}, err
}
