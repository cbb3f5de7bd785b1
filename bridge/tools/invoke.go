package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/trace"
	"aqueduct/internal/schema"
	"aqueduct/policy"
	"aqueduct/store"
)

// Request is one call of a tool, as an agent makes it.
type Request struct {
	TurnID  string
	Name    string
	Args    json.RawMessage
	Key     string // idempotency key; "" for none
	CallID  string // the agent's own id of the call; "" means the Key
	Timeout time.Duration
	// Trace is the span that the call is made in; the zero one when its Turn has none.
	Trace trace.Context
	// Session is where the call comes from, which has been found good.
	Session store.Session
	By      policy.Principal // who prompted
	// Declared reads the tools that the user's client has, with their JSON Schemas.
	Declared func(context.Context, store.Reader) (map[string]json.RawMessage, error)
}

// proposal is a call that is not kept yet.
type proposal struct {
	tool    ready
	call    store.ToolCall
	verdict judged
	span    trace.Context // of running it
}

// Invoke takes a call: it waits for one that is run at once; any other waits for somebody, or
// has failed. The error is an *Error when nothing was kept of the call, but that it was refused.
func (s *Service) Invoke(ctx context.Context, req Request) (store.ToolCall, error) {
	var call store.ToolCall
	err := schema.Outside(ctx, func(ctx context.Context) (err error) {
		call, err = s.invoke(ctx, req)
		return err
	})
	var refused *Error
	if errors.As(err, &refused) && refused != errGivenBack && refused.Code != CodeRunOver {
		s.keepRefused(ctx, req, refused)
	}
	return call, err
}

func (s *Service) invoke(ctx context.Context, req Request) (store.ToolCall, error) {
	p, err := s.propose(ctx, s.cfg.Store, s.shelf.tool, req)
	if err != nil {
		return p.call, err
	}
	p.verdict = s.judge(req, p.tool, p.call, nil)
	if p.verdict.Action != policy.Allow || p.tool.Kind != store.KindServer || req.named() != req.Key && req.Key != "" {
		return s.take(ctx, req) // also a call with two names: another may have its key, and its events must then not be kept
	}
	s.apply(&p.call, p.verdict.Verdict, true)
	return s.await(ctx, p.call, func(ctx context.Context) (store.ToolCall, error) { return s.keepAndRun(ctx, p) })
}

// propose makes the call, of a tool that is there with arguments that fit.
func (s *Service) propose(ctx context.Context, r store.Reader, registered lookup, req Request) (p proposal, err error) {
	if p.tool, err = s.find(ctx, r, registered, req); err != nil {
		return p, err
	}
	args, err := checkArgs(ctx, p.tool, req.Args)
	if err != nil {
		return p, err
	}
	p.call, p.span = s.newCall(p.tool.Tool, req, args), spanOf(req.Trace)
	return p, nil
}

// await has a call's work done here, and waits for its end.
func (s *Service) await(ctx context.Context, call store.ToolCall, work func(context.Context) (store.ToolCall, error)) (store.ToolCall, error) {
	var ended store.ToolCall
	var err error
	done, ok := s.spawn(call.ID, func(ctx context.Context) { ended, err = work(ctx) })
	if done == nil {
		return call, errBusy
	}
	select {
	case <-done:
		if !ok { // another request's work: the same call, by the agent's name for it
			return s.taken(ctx, call)
		}
		return ended, err
	case <-ctx.Done():
		return call, ctx.Err()
	}
}

var (
	errBusy = &Error{CodeBusy, "Too many tools are running. Try again."}
	// errGivenBack is errBusy for a call that was kept, and has failed: its end is on record.
	errGivenBack = &Error{errBusy.Code, errBusy.Message}
)

// spanOf is a span of running a tool.
func spanOf(of trace.Context) trace.Context {
	if of.TraceID == "" {
		return trace.New()
	}
	return of.Child()
}

// keepAndRun runs a call once it is kept that it runs.
func (s *Service) keepAndRun(ctx context.Context, p proposal) (store.ToolCall, error) {
	k := Keeping{Call: p.call, Move: store.TakeToolCall{ToolCall: p.call}}
	for _, r := range recordsOf(p.call, p.verdict, nil, p.span) {
		k.Trace = append(k.Trace, store.RecordOf{Record: r, ToolCallID: p.call.ID, Status: p.call.Status, At: p.call.RunningAt})
	}
	kept, err := s.keep(ctx, k)
	if err != nil {
		return p.call, err
	}
	if kept.Lost {
		if call, err := s.taken(ctx, p.call); err != nil || !sameAttempt(call, p.call) {
			return call, err
		}
	}
	return s.run(ctx, p.tool.Tool, p.call, running{shown: kept.Shown, span: p.span})
}

// sameAttempt reports whether a call that was found is the one that was sent, and so landed although its commit's answer
// was lost. The id alone does not tell: an agent that repeats its own id of a call gives it twice.
func sameAttempt(found, sent store.ToolCall) bool {
	return found.ID == sent.ID && found.Status == store.ToolRunning && found.Replica == sent.Replica &&
		found.RunningAt.Equal(sent.RunningAt.Truncate(time.Millisecond)) && found.CreatedAt.Equal(sent.CreatedAt.Truncate(time.Millisecond))
}

// taken finds what was kept in the place of a call that was lost, which is the call itself
// when only the answer to its commit was.
func (s *Service) taken(ctx context.Context, call store.ToolCall) (store.ToolCall, error) {
	kept, err := earlier(ctx, s.cfg.Store, call)
	if errors.Is(err, store.ErrNotFound) {
		err = errRunOver
	}
	return kept, err
}

// find is the registered tool of the name, else one that the client has.
func (s *Service) find(ctx context.Context, r store.Reader, registered lookup, req Request) (ready, error) {
	tool, err := registered(ctx, r, req.Session.Tenant, req.Name)
	if !errors.Is(err, store.ErrNotFound) {
		return tool, err
	}
	declared, err := req.Declared(ctx, r)
	if err != nil {
		return ready{}, err
	}
	if schema, ok := declared[req.Name]; ok && req.Name != inbox.PermissionTool {
		// What the client offers it may do, and asks its user itself if it likes.
		return prepared(store.Tool{Name: req.Name, Kind: store.KindClient, Schema: schema, Policy: mustJSON(own{Risk: policy.Low})}), nil
	}
	return ready{}, &Error{CodeUnknownTool, "There is no tool of that name: neither registered nor declared by the client."}
}

// named is the agent's own name for the call; "" when it has none.
func (r Request) named() string { return cmp.Or(r.CallID, r.Key) }

// newCall is the row of a call before it is judged.
func (s *Service) newCall(tool store.Tool, req Request, args json.RawMessage) store.ToolCall {
	timeout := s.cfg.Limits.Timeout
	if tool.Timeout > 0 {
		timeout = tool.Timeout
	}
	if req.Timeout > 0 {
		timeout = req.Timeout
	}
	id := newID()
	if named := req.named(); named != "" {
		id = CallID(req.TurnID, named)
	}
	return store.ToolCall{
		ID: id, SessionID: req.Session.ID, TurnID: req.TurnID, Name: tool.Name, Kind: tool.Kind,
		Status: store.ToolCreated, Args: args, ArgsSHA256: hashOf(args), IdempotencyKey: req.Key,
		OnFailure: tool.OnFailure, Timeout: min(timeout, longestTimeout), CreatedAt: time.Now(),
	}
}

// checkArgs is the arguments in one line, if they are what the tool takes.
func checkArgs(ctx context.Context, tool ready, raw json.RawMessage) (json.RawMessage, error) {
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
	err := tool.schema.CheckIn(ctx, line.Bytes())
	var unfit *schema.Error
	switch {
	case errors.As(err, &unfit) && (unfit.Code == schema.CodeValueMismatch || unfit.Code == schema.CodeValueInvalid):
		return nil, &Error{CodeInvalidArgs, unfit.Message}
	case errors.As(err, &unfit):
		return nil, &Error{unfit.Code, unfit.Message}
	case err != nil:
		return nil, err
	}
	return line.Bytes(), nil
}

var errRunOver = &Error{CodeRunOver, "The run this call belongs to has ended."}

// take keeps a call that is not run at once in the state its verdict gives it. The Session is
// locked, so that its Turn does not end meanwhile, and all is read again: what was judged is
// what is kept.
func (s *Service) take(ctx context.Context, req Request) (store.ToolCall, error) {
	var p proposal
	known := false
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		if req.Session, err = tx.LockSession(ctx, store.System(), req.Session.ID); err != nil {
			return err
		}
		turn, err := tx.Turn(ctx, store.System(), req.TurnID)
		if err != nil {
			return err
		}
		if turn.Status.Terminal() {
			return errRunOver
		}
		req.Session.AgentID = turn.AgentID // a prompt may be for another than the thread's own
		if p, err = s.propose(ctx, tx, readTool, req); err != nil {
			return err
		}
		if before, err := earlier(ctx, tx, p.call); !errors.Is(err, store.ErrNotFound) {
			p.call, known = before, true
			return err
		}
		grants, err := inbox.Grants(ctx, tx, req.Session, req.By.User, time.Now())
		if err != nil {
			return err
		}
		p.verdict, known = s.judge(req, p.tool, p.call, grants), false
		return s.insert(ctx, tx, &p, req.Session)
	})
	if err != nil || known {
		return p.call, err
	}
	switch p.call.Status {
	case store.ToolRunning:
		call, err := s.await(ctx, p.call, func(ctx context.Context) (store.ToolCall, error) {
			return s.run(ctx, p.tool.Tool, p.call, running{span: p.span})
		})
		if errors.Is(err, errBusy) {
			s.giveBack(ctx, p.call)
			err = errGivenBack
		}
		return call, err
	case store.ToolFailed, store.ToolBlocked:
		s.countOffline(p.call, OfflineInvoked)
		s.cfg.Ring(p.call.SessionID)
	case store.ToolWaitingApproval, store.ToolWaitingClient:
		s.deadline(p.call)
		s.cfg.Ring(p.call.SessionID)
		s.cfg.Notices.Kept()
	}
	return p.call, nil
}

// earlier finds the call that was made with the same key, or under the same id of the agent's.
func earlier(ctx context.Context, r store.Reader, call store.ToolCall) (before store.ToolCall, err error) {
	err = store.ErrNotFound
	if call.IdempotencyKey != "" {
		before, err = r.ToolCallByKey(ctx, store.System(), call.TurnID, call.IdempotencyKey)
	}
	if errors.Is(err, store.ErrNotFound) {
		before, err = r.ToolCall(ctx, store.System(), call.ID)
	}
	if err == nil && (before.TurnID != call.TurnID || before.Name != call.Name || before.ArgsSHA256 != call.ArgsSHA256) {
		return store.ToolCall{}, &Error{CodeKeyConflict, "The idempotency key, or the id of the call, was used for another call."}
	}
	return before, err
}

// insert writes the call, judged, with what is on record of it.
func (s *Service) insert(ctx context.Context, tx store.Tx, p *proposal, session store.Session) error {
	var err error
	if p.verdict, err = s.useGrant(ctx, tx, p.verdict); err != nil {
		return err
	}
	there, err := s.there(ctx, tx, p.call)
	if err != nil {
		return err
	}
	s.apply(&p.call, p.verdict.Verdict, there)
	if err := tx.InsertToolCall(ctx, p.call); err != nil {
		return err
	}
	if err := inbox.EndTurnOn(ctx, tx, p.call, newID, time.Now()); err != nil {
		return err
	}
	var asked *store.Approval
	if p.call.Status == store.ToolWaitingApproval {
		a := approvalOf(p.call, p.verdict.Verdict, p.verdict.call.By.User)
		asked = &a
		if err := tx.InsertApproval(ctx, a); err != nil {
			return err
		}
		if err := s.cfg.Notices.Insert(ctx, tx, inbox.Question{Call: p.call, Approval: a}, session); err != nil {
			return err
		}
	}
	for _, r := range recordsOf(p.call, p.verdict, asked, p.span) {
		if err := tx.InsertRecord(ctx, r); err != nil {
			return err
		}
	}
	if p.verdict.Grant == "" {
		return nil
	}
	return inbox.AuditGrantUse(ctx, tx, session, p.verdict.Grant, p.call.Name, p.call.ArgsSHA256, time.Now())
}

// there says whether somebody is, to run the call: we are.
func (s *Service) there(ctx context.Context, r store.Reader, call store.ToolCall) (bool, error) {
	if call.Kind == store.KindServer || s.cfg.Listeners(call.SessionID) > 0 {
		return true, nil
	}
	return s.cfg.Callback(ctx, r, call.TurnID)
}

// apply puts the call where the verdict sends it.
func (s *Service) apply(call *store.ToolCall, v policy.Verdict, there bool) {
	now := time.Now()
	call.Risk, call.GrantID = string(v.Risk), v.Grant
	switch v.Action {
	case policy.Block:
		s.fail(call, store.ToolBlocked, &Error{CodeBlocked, blockedBecause(v)}, now)
	case policy.Allow:
		s.dispatched(call, now, there)
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
func (s *Service) dispatched(call *store.ToolCall, now time.Time, there bool) {
	switch {
	case call.Kind == store.KindServer:
		call.Status, call.Replica, call.RunningAt = store.ToolRunning, s.cfg.Replica, now
	case !there:
		s.fail(call, store.ToolFailed, &Error{CodeClientOffline, "Nobody is there who could run this tool."}, now)
	default:
		call.Status, call.ExpiresAt = store.ToolWaitingClient, now.Add(call.Timeout)
	}
}

func (s *Service) fail(call *store.ToolCall, to store.ToolCallStatus, e *Error, now time.Time) {
	call.Status, call.ErrorCode, call.Error, call.EndedAt = to, e.Code, e.json(), now
}
