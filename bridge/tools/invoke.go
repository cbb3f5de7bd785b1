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
	SessionID, TurnID string
	Name              string
	Args              json.RawMessage
	Key               string // idempotency key; "" for none
	Timeout           time.Duration
	// Declared reads the tools that the user's client has, with their JSON Schemas.
	Declared func(context.Context, store.Reader) (map[string]json.RawMessage, error)
}

// Invoke takes a call: it waits for one that is run at once; any other waits for somebody, or
// has failed. The error is an *Error when nothing was kept.
func (s *Service) Invoke(ctx context.Context, req Request) (store.ToolCall, error) {
	call, tool, taken, err := s.take(ctx, req)
	if err != nil || !taken {
		return call, err
	}
	switch call.Status {
	case store.ToolRunning:
		return s.runNow(ctx, tool, call)
	case store.ToolWaitingApproval, store.ToolWaitingClient:
		s.deadline(call)
		s.cfg.Ring(call.SessionID)
		s.cfg.Notices.Kept()
	}
	return call, nil
}

// runNow runs a call that is RUNNING here, and waits for its end.
func (s *Service) runNow(ctx context.Context, tool store.Tool, call store.ToolCall) (store.ToolCall, error) {
	var ended store.ToolCall
	known := false
	done, ok := s.spawn(call.ID, func(ctx context.Context) { ended, known = s.run(ctx, tool, call) })
	if !ok { // it is nobody's: it has not begun
		return call, s.giveBack(ctx, call)
	}
	select {
	case <-done:
	case <-ctx.Done():
		return call, ctx.Err()
	}
	if known {
		return ended, nil
	}
	return s.cfg.Store.ToolCall(ctx, store.System(), call.ID)
}

// find is the registered tool of a name, else one that the client has.
func (s *Service) find(ctx context.Context, r store.Reader, tenant string, req Request) (store.Tool, error) {
	tool, err := r.ToolOf(ctx, store.System(), tenant, req.Name)
	if !errors.Is(err, store.ErrNotFound) {
		return tool, err
	}
	declared, err := req.Declared(ctx, r)
	if err != nil {
		return tool, err
	}
	if schema, ok := declared[req.Name]; ok && req.Name != inbox.PermissionTool {
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
		ID: uuid.Must(uuid.NewV7()).String(), SessionID: req.SessionID, TurnID: req.TurnID, Name: tool.Name, Kind: tool.Kind,
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

// take judges the call and keeps it in the state the verdict gives it, in one transaction: what
// was judged is what is kept. It is false when the call was taken before, under the same key.
func (s *Service) take(ctx context.Context, req Request) (call store.ToolCall, tool store.Tool, taken bool, err error) {
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		taken = false
		session, err := tx.LockSession(ctx, store.System(), req.SessionID)
		if err != nil {
			return err
		}
		turn, err := tx.Turn(ctx, store.System(), req.TurnID)
		if err != nil {
			return err
		}
		if turn.Status.Terminal() {
			return &Error{CodeRunOver, "The run this call belongs to has ended."}
		}
		if tool, err = s.find(ctx, tx, session.Tenant, req); err != nil {
			return err
		}
		args, err := checkArgs(tool, req.Args)
		if err != nil {
			return err
		}
		fresh := s.newCall(tool, req, args)
		if call, err = earlier(ctx, tx, fresh); !errors.Is(err, store.ErrNotFound) {
			return err
		}
		verdict, err := s.judge(ctx, tx, session, tool, fresh)
		if err != nil {
			return err
		}
		taken = true
		call, err = s.insert(ctx, tx, fresh, verdict, session)
		return err
	})
	return call, tool, taken && err == nil, err
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
func (s *Service) insert(ctx context.Context, tx store.Tx, call store.ToolCall, v judged, session store.Session) (store.ToolCall, error) {
	v, err := s.useGrant(ctx, tx, v)
	if err != nil {
		return call, err
	}
	s.apply(&call, v.Verdict)
	if err := tx.InsertToolCall(ctx, call); err != nil {
		return call, err
	}
	if call.Status == store.ToolWaitingApproval {
		a := approvalOf(call, v.Verdict, session.User)
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
