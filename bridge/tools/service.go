package tools

import (
	"context"
	"encoding/json"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/internal/wake"
	"aqueduct/policy"
	"aqueduct/store"
)

// Service is the door to tool calls for the engine and the HTTP edge. It holds no state of its own: it makes the parts,
// and passes each request to the one that does it.
//
//   - registry: which tools exist, and the secrets their calls are signed with
//   - judge: what the policy decides about a call
//   - invoker: takes a call from an agent and keeps it
//   - runner: the slots in which calls are executed on this replica; executor: what happens in one
//   - clientCalls: calls that the user's client executes
//   - recovery: finds calls that nothing executes or waits for any more
type Service struct {
	store     store.Store
	registry  *registry
	judge     *judge
	invoker   *invoker
	runner    *runner
	clients   *clientCalls
	outcomes  *outcomes
	recovery  *recovery
	commits   *commits
	deadlines *deadlines
	listen    func(sessionID string) (<-chan struct{}, func())
}

// New makes a Service. Nothing is executed before Run.
func New(cfg Config) *Service {
	cfg.Limits = cfg.Limits.withDefaults()
	tools := &registry{store: cfg.Store, servers: cfg.Servers, own: cfg.Own}
	rules := &judge{policy: cfg.Policy, own: cfg.OwnVerdict, hash: cfg.Hash}
	due := &deadlines{}
	keep := &commits{keep: cfg.Keep, ring: cfg.Ring, store: cfg.Store, logger: cfg.Logger}
	approved := &approvedCheck{hash: cfg.Hash, logger: cfg.Logger}
	run := &runner{slots: make(chan struct{}, cfg.Limits.Running), ended: make(map[string]chan struct{})}
	outcome := &outcomes{store: cfg.Store, ttl: cfg.Limits.ApprovalTTL, notices: cfg.Notices, deadlines: due, ring: cfg.Ring}
	posted := endpoint{client: cfg.Client, registry: tools, resultBytes: cfg.Limits.ResultBytes}
	execute := &executor{
		store: cfg.Store, replica: cfg.Replica, runner: run, approved: approved, commits: keep, outcomes: outcome, ended: cfg.Meter.Ended, logger: cfg.Logger,
		runtime: runtimes{store.ToolFromFile: posted, store.ToolFromAPI: posted, store.ToolFromMCP: cfg.MCP, store.ToolFromServer: cfg.OwnRuntime},
	}
	clients := &clientCalls{
		store: cfg.Store, replica: cfg.Replica, listeners: cfg.Listeners, callback: cfg.Callback, approved: approved, deadlines: due,
		offline: cfg.Meter.Offline,
	}
	return &Service{
		store: cfg.Store, registry: tools, judge: rules, runner: run, clients: clients, outcomes: outcome, commits: keep, deadlines: due, listen: cfg.Listen,
		invoker: &invoker{
			store: cfg.Store, limits: cfg.Limits, hash: cfg.Hash, registry: tools, judge: rules, runner: run, executor: execute, clients: clients,
			commits: keep, deadlines: due, notices: cfg.Notices, ring: cfg.Ring, logger: cfg.Logger, unconfined: cfg.Unconfined,
		},
		recovery: &recovery{
			store: cfg.Store, runner: run, executor: execute, clients: clients, outcomes: outcome, notices: cfg.Notices, ring: cfg.Ring,
			settled: cfg.Meter.Settled, logger: cfg.Logger, bell: wake.New(), replica: cfg.Replica,
		},
	}
}

// Use sets how Questions are settled, what expires a call that is not answered in time, and what keeps a call together with
// the events that show it; a nil keeper keeps the rows alone. The engine calls it once, before Run: it needs the Service
// itself to be made.
func (s *Service) Use(settler *approval.Settler, arm func(callID string, after time.Duration), keeper Keeper) {
	s.recovery.settler, s.deadlines.after, s.commits.keeper = settler, arm, keeper
}

// Run executes approved calls and recovers those whose runner died, until ctx ends. Then it cancels what is executed
// here and waits for it.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(store.WithOriginals(ctx)) // executed with the arguments as they were sent, not as they are shown
	defer cancel()
	s.runner.open(ctx)
	s.recovery.run(ctx) // until ctx ends, and with it the context of what is executed
	s.runner.close()
	return nil
}

// Drain waits until no call is executed here, or ctx ends, and returns the number of calls that still are. Another replica, or
// the next process, begins the calls that this one does not begin any more.
func (s *Service) Drain(ctx context.Context) (left int) { return s.runner.drain(ctx) }

// Load registers the tools of a file for every tenant, and removes those that an earlier file had and this one has not, and
// those of MCP servers that there are no more.
func (s *Service) Load(ctx context.Context, list []Definition, checkURL func(string) error) error {
	return s.registry.load(ctx, list, checkURL)
}

// Publish keeps the tools that an MCP server has now, for every tenant, and removes those that it had before and has not any
// more. Their Endpoint is MCPEndpoint of the server, and their names begin with the server's.
func (s *Service) Publish(ctx context.Context, server string, list []store.Tool) error {
	return s.registry.publish(ctx, server, list)
}

// Register keeps one tool of a tenant. It returns ErrDefinition for a name that is an MCP server's.
func (s *Service) Register(ctx context.Context, who store.Principal, t store.Tool) error {
	return s.registry.register(ctx, who, t)
}

// Unregister removes a tenant's tool. It returns store.ErrNotFound when the tenant has none of that name.
func (s *Service) Unregister(ctx context.Context, who store.Principal, name string) error {
	return s.registry.unregister(ctx, who, name)
}

// Invoke takes a call. A call that is executed at once is returned with its end; any other is returned waiting, or
// failed. The error is a *fault.Error when nothing of the call was kept except the record of its refusal.
func (s *Service) Invoke(ctx context.Context, req Request) (store.ToolCall, error) {
	return s.invoker.invoke(ctx, req)
}

// Decided takes note of a settled Question about a ToolCall, after the commit.
func (s *Service) Decided(q approval.Question) {
	s.clients.decided(q)
	s.Look()
}

// Withdraw settles a call that waits for a person and is not needed any more. One that was settled already stays so.
func (s *Service) Withdraw(ctx context.Context, call store.ToolCall, why approval.Decision) error {
	return s.recovery.settle(ctx, call, why)
}

// Look has the rows looked at now, and not at the next tick: a replica is gone, or a call was approved.
func (s *Service) Look() { s.recovery.bell.Ring() }

// Revoke cancels an approved call that has not begun. It returns false when the call began, or was not ours to execute:
// a client has its call already. The Session is locked by the caller, and the move compares: an approval is taken back
// before the call begins, or not at all.
func (s *Service) Revoke(ctx context.Context, tx store.Tx, call store.ToolCall, now time.Time) (bool, error) {
	if call.Kind != store.KindServer {
		return false, nil
	}
	return endInTx(ctx, tx, call, failedMove(call, store.ToolDispatched, fault.New(CodeRejected, "The approval was taken back."), now))
}

// Settled applies what follows from a settled Question about a ToolCall, in the same transaction.
// It is called for every settled Question and does something for those about tool calls only.
func (s *Service) Settled(ctx context.Context, tx store.Tx, session store.Session, q approval.Question, who store.Principal, now time.Time) error {
	if err := confirm(ctx, tx, session.Tenant, q, who, now); err != nil {
		return err
	}
	if q.Call.Name == BudgetTool { // called agents may wait for it as well
		if err := approval.LookBelow(ctx, tx, q.Call.TurnID); err != nil {
			return err
		}
	}
	switch of := concerns(q); of.kind {
	case aboutOutcome:
		return s.outcomes.apply(ctx, tx, of.callID, q, now)
	case aboutSteering:
		return endAnswered(ctx, tx, q, now)
	case aboutClientResult:
		return endApproved(ctx, tx, of.callID, q.Call, now)
	case aboutClientCall:
		return s.clients.dispatch(ctx, tx, q.Call, now)
	case aboutNothing:
	}
	return nil
}

// Judged is what the policy in force decides about a call that a person was asked for. A tool that is no longer registered
// is judged when its call is dispatched, which fails then.
func (s *Service) Judged(ctx context.Context, r store.Reader, session store.Session, q approval.Question) (policy.Verdict, error) {
	return s.judge.pending(ctx, r, session, q)
}

// Edited checks arguments that an approver changed: they must fit the tool's schema, and the policy decides again. An
// approver cannot edit a call into one that the policy blocks.
func (s *Service) Edited(ctx context.Context, r store.Reader, session store.Session, q approval.Question, edited json.RawMessage) (args json.RawMessage, sha string, terms policy.Terms, err error) {
	return s.judge.edited(ctx, r, session, q, edited)
}

// deadlines arms the expiry of calls that wait for a person or a client.
// It is a type because the engine, which expires calls, is made after the Service.
type deadlines struct {
	after func(callID string, after time.Duration) // nil before Use
}

// arm has a call expire in time, if it waits. Call it after the commit only: a transaction's closure may run twice.
func (d *deadlines) arm(call store.ToolCall) {
	if d.after != nil && !call.ExpiresAt.IsZero() && !call.Status.Terminal() {
		d.after(call.ID, time.Until(call.ExpiresAt))
	}
}
