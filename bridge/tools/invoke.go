package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/inbox"
	"aqueduct/policy"
	"aqueduct/store"
)

// Request is one call of a tool, as an agent makes it.
type Request struct {
	Session store.Session
	TurnID  string
	Name    string
	Args    json.RawMessage
	Key     string // idempotency key; "" for none
	Timeout time.Duration
	// Declared are the tools that the user's client has, with their JSON Schemas.
	Declared map[string]json.RawMessage
}

// Invoke takes a call. It is run, or waits, or has failed: its state tells. The error is an
// *Error when nothing was kept. The channel, unless nil, is closed when the call, which runs
// on this replica, has ended.
func (s *Service) Invoke(ctx context.Context, req Request) (store.ToolCall, <-chan struct{}, error) {
	tool, err := s.find(ctx, req)
	if err != nil {
		return store.ToolCall{}, nil, err
	}
	args, err := checkArgs(tool, req.Args)
	if err != nil {
		return store.ToolCall{}, nil, err
	}
	call := s.newCall(tool, req, args)
	verdict, err := s.judge(ctx, s.cfg.Store, tool, req, call)
	if err != nil {
		return store.ToolCall{}, nil, err
	}
	call, taken, err := s.take(ctx, call, verdict)
	if err != nil || !taken {
		return call, nil, err
	}
	switch call.Status {
	case store.ToolRunning:
		done, ok := s.spawn(call.ID, func(ctx context.Context) { s.run(ctx, tool, call) })
		if !ok { // it is nobody's: it has not begun
			return call, nil, s.giveBack(ctx, call)
		}
		return call, done, nil
	case store.ToolWaitingApproval, store.ToolWaitingClient:
		s.deadline(call)
		s.cfg.Ring(call.SessionID)
		s.cfg.Notices.Kept()
	}
	return call, nil, nil
}

// find is the registered tool of a name, else one that the client has.
func (s *Service) find(ctx context.Context, req Request) (store.Tool, error) {
	tool, err := s.cfg.Store.ToolOf(ctx, store.System(), req.Session.Tenant, req.Name)
	if err == nil {
		return tool, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return tool, err
	}
	if schema, ok := req.Declared[req.Name]; ok && req.Name != inbox.PermissionTool {
		// What the client offers it may do, and asks its user itself if it likes.
		return store.Tool{Name: req.Name, Kind: store.KindClient, Schema: schema, Policy: mustJSON(own{Risk: policy.Low})}, nil
	}
	return tool, &Error{CodeUnknownTool, "There is no tool of that name: neither registered nor declared by the client."}
}

// newCall is the row of a call before it is judged.
func (s *Service) newCall(tool store.Tool, req Request, args json.RawMessage) store.ToolCall {
	timeout := s.cfg.Limits.Timeout
	if tool.Timeout > 0 {
		timeout = tool.Timeout
	}
	if req.Timeout > 0 {
		timeout = req.Timeout
	}
	return store.ToolCall{
		ID: uuid.Must(uuid.NewV7()).String(), SessionID: req.Session.ID, TurnID: req.TurnID, Name: tool.Name, Kind: tool.Kind,
		Status: store.ToolCreated, Args: args, ArgsSHA256: hashOf(args), IdempotencyKey: req.Key,
		OnFailure: tool.OnFailure, Timeout: min(timeout, longestTimeout), CreatedAt: time.Now(),
	}
}

func hashOf(args []byte) string {
	sum := sha256.Sum256(args)
	return hex.EncodeToString(sum[:])
}

// checkArgs is the arguments in one line, if they are what the tool takes.
func checkArgs(tool store.Tool, raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return nil, &Error{CodeInvalidArgs, "The arguments are no JSON."}
	}
	if line.Len() > maxArgs {
		return nil, &Error{CodeInvalidArgs, "The arguments are too large."}
	}
	if err := inbox.CheckSchema(tool.Schema, line.Bytes()); err != nil {
		return nil, &Error{CodeInvalidArgs, err.Error()}
	}
	return line.Bytes(), nil
}

// take keeps the call in the state the verdict gives it. It is false when the call was taken
// before, under the same key.
func (s *Service) take(ctx context.Context, call store.ToolCall, v policy.Verdict) (store.ToolCall, bool, error) {
	var kept store.ToolCall
	taken := false
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		taken = false
		session, err := tx.LockSession(ctx, store.System(), call.SessionID)
		if err != nil {
			return err
		}
		turn, err := tx.Turn(ctx, store.System(), call.TurnID)
		if err != nil {
			return err
		}
		if turn.Status.Terminal() {
			return &Error{CodeRunOver, "The run this call belongs to has ended."}
		}
		if kept, err = earlier(ctx, tx, call); err == nil || !errors.Is(err, store.ErrNotFound) {
			return err
		}
		taken = true
		kept, err = s.insert(ctx, tx, call, v, session)
		return err
	})
	return kept, taken && err == nil, err
}

// earlier finds the call that was made with the same key.
func earlier(ctx context.Context, tx store.Tx, call store.ToolCall) (store.ToolCall, error) {
	if call.IdempotencyKey == "" {
		return call, store.ErrNotFound
	}
	before, err := tx.ToolCallByKey(ctx, store.System(), call.TurnID, call.IdempotencyKey)
	if err == nil && (before.Name != call.Name || before.ArgsSHA256 != call.ArgsSHA256) {
		return before, &Error{CodeKeyConflict, "The idempotency key was used for another call."}
	}
	return before, err
}

// insert writes the call, judged, with what is on record of it.
func (s *Service) insert(ctx context.Context, tx store.Tx, call store.ToolCall, v policy.Verdict, session store.Session) (store.ToolCall, error) {
	v, err := s.useGrant(ctx, tx, v)
	if err != nil {
		return call, err
	}
	s.apply(&call, v)
	if err := tx.InsertToolCall(ctx, call); err != nil {
		return call, err
	}
	if call.Status == store.ToolWaitingApproval {
		a := approvalOf(call, v, session.User)
		if err := tx.InsertApproval(ctx, a); err != nil {
			return call, err
		}
		if err := s.cfg.Notices.Insert(ctx, tx, inbox.Question{Call: call, Approval: a}, session); err != nil {
			return call, err
		}
	}
	for _, r := range recordsOf(call, v) {
		if err := tx.InsertRecord(ctx, r); err != nil {
			return call, err
		}
	}
	return call, nil
}

// apply puts the call where the verdict sends it.
func (s *Service) apply(call *store.ToolCall, v policy.Verdict) {
	now := time.Now()
	call.Risk, call.GrantID = string(v.Risk), v.Grant
	switch v.Action {
	case policy.Block:
		s.fail(call, store.ToolBlocked, &Error{CodeBlocked, blockedBecause(v)}, now)
	case policy.Allow:
		s.dispatched(call, now)
	default:
		ttl := s.cfg.Limits.ApprovalTTL
		if v.TTL > 0 {
			ttl = v.TTL
		}
		call.Status, call.ExpiresAt = store.ToolWaitingApproval, now.Add(ttl)
	}
}

func blockedBecause(v policy.Verdict) string {
	if v.Reason != "" {
		return v.Reason
	}
	return "The policy does not allow this call."
}

// dispatched is a call that may run: by us at once, or by the user's client if it is there.
func (s *Service) dispatched(call *store.ToolCall, now time.Time) {
	switch {
	case call.Kind == store.KindServer:
		call.Status, call.Replica, call.RunningAt = store.ToolRunning, s.cfg.Replica, now
	case s.cfg.Listeners(call.SessionID) == 0:
		s.fail(call, store.ToolFailed, &Error{CodeClientOffline, "Nobody is there who could run this tool."}, now)
	default:
		call.Status, call.ExpiresAt = store.ToolWaitingClient, now.Add(call.Timeout)
	}
}

func (s *Service) fail(call *store.ToolCall, to store.ToolCallStatus, e *Error, now time.Time) {
	call.Status, call.ErrorCode, call.Error, call.EndedAt = to, e.Code, e.json(), now
}
