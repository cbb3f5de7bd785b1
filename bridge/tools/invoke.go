package tools

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/internal/schema"
	"aqueduct/policy"
	"aqueduct/store"
)

// invoker takes calls from agents: it finds the tool, has the call judged, and keeps it in the state that the verdict
// leads to.
//
// There are two ways in. The fast one judges from the cache, outside of any transaction, and needs one commit that
// keeps the call as RUNNING with its events; it serves calls that the policy allows without a Grant. The other locks
// the Session and reads everything anew; it serves calls that wait, are blocked, use a Grant, or may be repetitions.
type invoker struct {
	store     store.Store
	limits    Limits
	hash      redact.Hasher
	registry  *registry
	judge     *judge
	runner    *runner
	executor  *executor
	clients   *clientCalls
	commits   *commits
	deadlines *deadlines
	notices   approval.Notices
	ring      func(sessionID string)
	// unconfined reports whether an agent could approve for itself.
	unconfined func(agentID string) bool
	logger     *slog.Logger
}

// proposal is a call that is not kept yet.
type proposal struct {
	tool    compiledTool
	call    store.ToolCall
	verdict judged
	// confirmed is not set for a tool of an MCP server whose definition no one has confirmed.
	confirmed bool
	span      trace.Context // of executing it
}

// busy refuses a call for which no slot is left.
func busy() *fault.Error { return fault.New(CodeBusy, "Too many tools are running. Try again.") }

// givenBackError is busy for a call that was kept first. Its end is on record, so its refusal is not recorded again.
type givenBackError struct{ busy *fault.Error }

func (e givenBackError) Error() string { return e.busy.Error() }

// Unwrap returns the error with the code.
func (e givenBackError) Unwrap() error { return e.busy }

// ErrTooManyQuestions refuses a call that would have to wait, because its Turn or its user has too many that do.
var ErrTooManyQuestions = errors.New("tools: too many questions are open")

// invoke takes a call whichever way.
// A refusal is on record too: people who look at a trace must see what an agent tried.
func (i *invoker) invoke(ctx context.Context, req Request) (store.ToolCall, error) {
	ctx = store.WithOriginals(ctx) // the agent gets the tool's own result, also of a call that it repeats
	var call store.ToolCall
	err := schema.Outside(ctx, func(ctx context.Context) (err error) {
		call, err = i.fastOrTake(ctx, req)
		return err
	})
	var refused *fault.Error
	var given givenBackError
	if errors.As(err, &refused) && !errors.As(err, &given) && refused.Code != CodeRunOver {
		i.keepRefused(ctx, req, refused)
	}
	return call, err
}

// fastOrTake executes a call at once where the policy allows it without a Grant; take does all the rest. A call with two
// names goes to take as well: another call may have its key, and the events of this one must then not be kept.
func (i *invoker) fastOrTake(ctx context.Context, req Request) (store.ToolCall, error) {
	p, err := i.propose(ctx, i.store, i.registry.cache.tool, req)
	if err != nil {
		return p.call, err
	}
	known, err := confirmed(ctx, i.store, req.Session.Tenant, req.By.User, p.tool.Tool)
	if err != nil {
		return p.call, err
	}
	p.verdict = i.judge.decide(req, p.tool, p.call, nil, known)
	if p.verdict.Action != policy.Allow || p.tool.Kind != store.KindServer || req.agentsID() != req.Key && req.Key != "" {
		return i.take(ctx, req)
	}
	i.apply(&p.call, p.verdict.Verdict, true)
	return i.await(ctx, p.call, func(ctx context.Context) (store.ToolCall, error) { return i.keepAndExecute(ctx, p) })
}

// propose makes the call, of a tool that exists, with arguments that fit it.
//
// The id is derived from the agent's own id of the call, so that the frames it streams about the call and ours meet
// under one id; and from nothing, if it gave none.
func (i *invoker) propose(ctx context.Context, r store.Reader, registered lookup, req Request) (p proposal, err error) {
	if p.tool, err = i.find(ctx, r, registered, req); err != nil {
		return p, err
	}
	args, err := checkArgs(ctx, p.tool, req.Args)
	if err != nil {
		return p, err
	}
	timeout := cmp.Or(min(req.Timeout, max(longestTimeout, i.limits.Timeout)), p.tool.Timeout, i.limits.Timeout)
	id := newID()
	if own := req.agentsID(); own != "" {
		id = CallID(req.TurnID, own)
	}
	p.span = req.Trace.Under()
	p.call = store.ToolCall{
		ID: id, SessionID: req.Session.ID, TurnID: req.TurnID, Name: p.tool.Name, Kind: p.tool.Kind,
		Status: store.ToolCreated, Args: args, ArgsSHA256: i.hash.Sum(args), IdempotencyKey: req.Key,
		OnFailure: p.tool.OnFailure, Timeout: timeout, CreatedAt: time.Now(),
	}
	return p, nil
}

// find is the registered tool of the name, else one that the client declares. A client's tool has low risk: the client
// offers it, and asks its user itself if it wants to.
func (i *invoker) find(ctx context.Context, r store.Reader, registered lookup, req Request) (compiledTool, error) {
	tool, err := registered(ctx, r, req.Session.Tenant, req.Name)
	if !errors.Is(err, store.ErrNotFound) {
		return tool, err
	}
	declared, err := req.Declared(ctx, r)
	if err != nil {
		return compiledTool{}, err
	}
	if schema, ok := declared[req.Name]; ok && !approval.ReservedTool(req.Name) {
		return compile(store.Tool{Name: req.Name, Kind: store.KindClient, Schema: schema, Policy: mustJSON(own{Risk: policy.Low})}), nil
	}
	return compiledTool{}, fault.New(CodeUnknownTool, "There is no tool of that name: neither registered nor declared by the client.")
}

// await has a call's work done in a slot, and waits for its end.
//
// The work runs in a slot on a goroutine of the runner and not on the request's: an agent that hangs up must not stop
// a tool in the middle. The request only waits.
func (i *invoker) await(ctx context.Context, call store.ToolCall, work func(context.Context) (store.ToolCall, error)) (store.ToolCall, error) {
	var ended store.ToolCall
	var err error
	// The two results are written before done is closed. Where the request leaves first they are written later, and
	// unread.
	done, ok := i.runner.begin(call.ID, func(ctx context.Context) { ended, err = work(ctx) })
	if done == nil {
		return call, busy()
	}
	select {
	case <-done:
		if !ok { // the work of another request for the same call, by the agent's id of it
			return i.kept(ctx, call)
		}
		return ended, err
	case <-ctx.Done():
		return call, ctx.Err()
	}
}

// keepAndExecute executes a call after the commit that keeps it as RUNNING.
//
// Lost means that another call with the same id or key was kept first, or that the Turn has ended. Which of the two,
// the rows show (kept).
func (i *invoker) keepAndExecute(ctx context.Context, p proposal) (store.ToolCall, error) {
	k := Keeping{Call: p.call, Move: store.TakeToolCall{ToolCall: p.call}}
	for _, r := range recordsOf(p.call, p.verdict, nil, p.span) {
		k.Trace = append(k.Trace, store.RecordOf{Record: r, ToolCallID: p.call.ID, Status: p.call.Status, At: p.call.RunningAt})
	}
	kept, err := i.commits.withEvents(ctx, k)
	if err != nil {
		return p.call, err
	}
	if kept.Lost { // the call may be RUNNING, so this read waits for the database, as in claim
		if call, err := i.kept(store.Patient(ctx), p.call); err != nil || !sameAttempt(call, p.call) {
			return call, err
		}
	}
	return i.executor.execute(ctx, p.tool.Tool, p.call, attempt{shown: kept.Shown, span: p.span})
}

// sameAttempt reports whether a call that was found is the one that was sent, and so was kept although its commit's answer
// was lost. The id alone does not decide it: an agent that repeats its own id of a call sends that id twice.
func sameAttempt(found, sent store.ToolCall) bool {
	return found.ID == sent.ID && found.Status == store.ToolRunning && found.Replica == sent.Replica &&
		found.RunningAt.Equal(sent.RunningAt.Truncate(time.Millisecond)) && found.CreatedAt.Equal(sent.CreatedAt.Truncate(time.Millisecond))
}

// kept finds the call that was kept in the place of one whose commit was lost. It is the call itself when only the answer
// to the commit was lost.
func (i *invoker) kept(ctx context.Context, call store.ToolCall) (store.ToolCall, error) {
	found, err := earlier(ctx, i.store, call)
	if errors.Is(err, store.ErrNotFound) {
		err = runOver()
	}
	return found, err
}

// runOver refuses a call whose Turn has ended. No Record is kept of that one (invoke).
func runOver() *fault.Error {
	return fault.New(CodeRunOver, "The run this call belongs to has ended.")
}

// take keeps a call in the state that its verdict leads to. It locks the Session, so that the Turn does not end meanwhile,
// and reads everything again: what is kept is then what was judged.
// The Session's lock is what the Turn's end takes as well: a call is kept before it, and is then seen and cancelled,
// or after it, and is then refused.
func (i *invoker) take(ctx context.Context, req Request) (store.ToolCall, error) {
	var p proposal
	known := false
	err := i.store.InTx(ctx, func(tx store.Tx) (err error) {
		if req.Session, err = tx.LockSession(ctx, store.System(), req.Session.ID); err != nil {
			return err
		}
		turn, err := tx.Turn(ctx, store.System(), req.TurnID)
		if err != nil {
			return err
		}
		if turn.Status.Terminal() {
			return runOver()
		}
		req.Session.AgentID = turn.AgentID // a prompt may address another agent than the thread's own
		if p, err = i.propose(ctx, tx, readTool, req); err != nil {
			return err
		}
		if before, err := earlier(ctx, tx, p.call); !errors.Is(err, store.ErrNotFound) {
			p.call, known = before, true
			return err
		}
		grants, err := approval.LiveGrants(ctx, tx, req.Session, req.By.User, time.Now())
		if err != nil {
			return err
		}
		if p.confirmed, err = confirmed(ctx, tx, req.Session.Tenant, req.By.User, p.tool.Tool); err != nil {
			return err
		}
		p.verdict, known = i.judge.decide(req, p.tool, p.call, grants, p.confirmed), false // an earlier try of this closure may have set it
		return i.insert(ctx, tx, &p, req.Session)
	})
	if err != nil || known {
		return p.call, err
	}
	return i.afterCommit(ctx, p, req.Session)
}

// afterCommit does what the state of a call asks for that was just kept.
// Nothing of this may stand in the transaction, whose closure may run twice.
func (i *invoker) afterCommit(ctx context.Context, p proposal, session store.Session) (store.ToolCall, error) {
	switch p.call.Status {
	case store.ToolRunning:
		call, err := i.await(ctx, p.call, func(ctx context.Context) (store.ToolCall, error) {
			return i.executor.execute(ctx, p.tool.Tool, p.call, attempt{span: p.span})
		})
		if fault.CodeOf(err) == CodeBusy {
			i.executor.giveBack(ctx, p.call)
			err = givenBackError{busy()}
		}
		return call, err
	case store.ToolFailed, store.ToolBlocked:
		i.clients.countOffline(p.call, OfflineInvoked)
		i.ring(p.call.SessionID)
	case store.ToolWaitingApproval, store.ToolWaitingClient:
		i.deadlines.arm(p.call)
		i.ring(p.call.SessionID)
		i.notices.Kept(approval.Question{Call: p.call, Approval: store.Approval{ID: p.call.ID}}, session)
	default:
	}
	return p.call, nil
}

// insert writes the judged call, its Approval if it needs one, and its Records.
//
// The call, its Approval, the notices about it, its Records and the use of a Grant are one transaction: none can be
// without the others.
func (i *invoker) insert(ctx context.Context, tx store.Tx, p *proposal, session store.Session) error {
	var err error
	if p.verdict, err = useGrant(ctx, tx, p.verdict); err != nil {
		return err
	}
	online, err := i.clients.online(ctx, tx, p.call)
	if err != nil {
		return err
	}
	i.apply(&p.call, p.verdict.Verdict, online)
	if err := i.mayWait(ctx, tx, p.call, session); err != nil {
		return err
	}
	if err := tx.InsertToolCall(ctx, p.call); err != nil {
		return err
	}
	if err := approval.EndTurnOn(ctx, tx, p.call, newID, time.Now()); err != nil {
		return err
	}
	var asked *store.Approval
	if p.call.Status == store.ToolWaitingApproval {
		a := approvalOf(p.call, p.verdict.Verdict, p.verdict.call.By.User)
		a.Unconfined = i.unconfined != nil && i.unconfined(p.verdict.call.AgentID)
		if a.Definition = askedOf(p.tool.Tool, p.confirmed); !p.confirmed {
			a.Title += unconfirmedTitle
		}
		asked = &a
		if err := tx.InsertApproval(ctx, a); err != nil {
			return err
		}
		if err := i.notices.Insert(ctx, tx, approval.Question{Call: p.call, Approval: a}, session); err != nil {
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
	return approval.AuditGrantUse(ctx, tx, session, p.verdict.Grant, p.call.Name, p.call.ArgsSHA256, time.Now())
}

// mayWait refuses a call that would wait for a person or a client beyond the limits of its Turn or user. Nothing of it is
// kept then.
// The numbers are read in the transaction, under the Session's lock; for the user's limit, over all sessions, it is a
// look that may be late by one.
func (i *invoker) mayWait(ctx context.Context, r store.Reader, call store.ToolCall, session store.Session) error {
	if call.Status != store.ToolWaitingApproval && call.Status != store.ToolWaitingClient {
		return nil
	}
	owner := store.As(store.Principal{Tenant: session.Tenant, User: session.User})
	for _, limit := range []struct {
		turn string
		most int
	}{{call.TurnID, i.limits.QuestionsPerTurn}, {"", i.limits.QuestionsPerUser}} {
		if n, err := r.CountWaiting(ctx, owner, limit.turn, limit.most); err != nil || n >= limit.most {
			return cmp.Or(err, ErrTooManyQuestions)
		}
	}
	return nil
}

// apply puts the call into the state that the verdict leads to.
func (i *invoker) apply(call *store.ToolCall, v policy.Verdict, online bool) {
	now := time.Now()
	call.Risk, call.GrantID = string(v.Risk), v.Grant
	switch v.Action {
	case policy.Block:
		fail(call, store.ToolBlocked, fault.New(CodeBlocked, blockReason(v)), now)
	case policy.Allow:
		i.clients.dispatched(call, now, online)
	default:
		call.Status, call.ExpiresAt = store.ToolWaitingApproval, now.Add(cmp.Or(v.TTL, i.limits.ApprovalTTL))
	}
}

// fail puts a call that is not kept yet into its end. One that is kept ends by a move (failedMove).
func fail(call *store.ToolCall, to store.ToolCallStatus, why *fault.Error, now time.Time) {
	call.Status, call.ErrorCode, call.Error, call.EndedAt = to, why.Code, mustJSON(why), now
}

// refusedName bounds the name of a tool that does not exist, in characters: people read it in the trace.
const refusedName = 128

// keepRefused keeps the Record of a call that was not taken. It fails only when the store is away, and the agent's next
// call fails with that then.
func (i *invoker) keepRefused(ctx context.Context, req Request, why *fault.Error) {
	call := store.ToolCall{
		ID: newID(), SessionID: req.Session.ID, TurnID: req.TurnID, Name: policy.Visible(req.Name, refusedName), IdempotencyKey: req.Key, CreatedAt: time.Now(),
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	if _, err := i.commits.keep(ctx, call.SessionID, nil, trace.Refused(call, req.Args, why.Code, why.Message)); err != nil {
		i.logger.Error("a refused tool call is not on record", slog.String("turn_id", call.TurnID), slog.Any("error", err))
	}
}
