package bridge

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/contextstore"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/livefeed"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/search"
	"aqueduct/bridge/tools"
	"aqueduct/internal/wake"
	"aqueduct/policy"
	"aqueduct/store"
)

// Config is what Sessions need.
type Config struct {
	Store   store.Store
	Log     *eventlog.Log
	Bell    *eventlog.Bell
	Replica string
	Agents  *Directory
	// Filter takes secrets out of all text; nil takes out nothing. Hash binds arguments to what is decided about them.
	Filter *redact.Filter
	Hash   redact.Hasher
	// Notices tells others of Questions.
	Notices approval.Notices
	// Tools sees to the ToolCalls of Agents; nil without any.
	Tools *tools.Service
	// Contexts keeps what agents store, and large attachments; nil without any.
	Contexts *contextstore.Service
	Limits   Limits
	// OnBusy is what becomes of a message while a response tails the Turn under way: OnBusyRefuse, the default, or OnBusyQueue.
	OnBusy string
	Logger *slog.Logger
	Meter  Meter
	// TurnEnded gets each Turn whose end was committed here. It must be quick; nil is not called.
	TurnEnded func(turnID string)
	// Policy decides which permissions need no person; nil: none.
	Policy *policy.Holder
	// Hints notifies pages that watch of Questions and threads; nil notifies none.
	Hints *livefeed.Hub
	// Audit keeps what happens outside of the transactions here: refused attempts. Nil is one of its own.
	Audit *audit.Log
	// Models is set where Agents call models through this server: what they used is then in RUN_FINISHED.
	Models bool
	// EndCalls ends what calls of models were under way in replicas that are gone. It is called at the start, when a replica is gone, and
	// now and then; nil without models.
	EndCalls func(ctx context.Context) error
	// PublicURL is where people reach this server, without a path. URLs of parts begin with it; "" leaves them relative.
	PublicURL string
	// AgentURL is where Agents reach it, for the URLs of large parts in their calls.
	AgentURL string
}

// Meter counts what happens, for metrics. Members may be nil; they must be quick.
type Meter struct {
	RunEnded   func(outcome string)
	FirstToken func(since time.Duration)
	// TurnEnded gets how a Turn ended, how long it took since its prompt, and how much of that no Question was open.
	TurnEnded func(status string, took, active time.Duration)
	Settled   func(approval.Question) // a Question was settled, by a person or not
	Limited   func(limit string)      // a limit refused something: turns, questions, bytes
	Stranded  func()                  // a Turn had to be ended that nothing moved any more
}

// Sessions drives the Sessions this replica owns and takes requests for all.
//
// It knows which Sessions are driven here, starts and ends their goroutines, and holds the services beside them. What
// it does itself is short: rouse, retire, and Run. Any goroutine may call its methods.
type Sessions struct {
	cfg        Config
	approvals  *approval.Service
	agents     *AgentRequests
	pasts      *transcripts
	tails      *tails
	hints      *threadHints
	feeds      *Feeds
	transcript *Transcript
	steering   *SteeringGate
	cancels    *Cancels
	appends    *Appends
	threads    *Threads
	quota      *quota
	draining   *Draining

	// mu guards running, active, reading and handed, the fields that Draining names, and rung and parked of each active
	// session. No store is called while it is held.
	mu      sync.Mutex
	running context.Context // nil before Run and after it began to stop
	active  map[string]*session
	reading int // responses of AgentCalls that callers read
	handed  int // how often a Session was handed over or given up
	wg      sync.WaitGroup
	care    *reconciler
}

// New makes Sessions; Run must be running for anything to be driven.
func New(cfg Config) *Sessions {
	cfg.Limits = cfg.Limits.withDefaults()
	cfg.AgentURL = strings.TrimSuffix(cfg.AgentURL, "/")
	if cfg.Audit == nil {
		cfg.Audit = audit.NewLog(cfg.Store, cfg.Logger, nil)
	}
	if cfg.EndCalls == nil {
		cfg.EndCalls = func(context.Context) error { return nil }
	}
	s := &Sessions{
		cfg: cfg, agents: &AgentRequests{store: cfg.Store, tools: cfg.Tools, lender: newLender(), transcript: cfg.Limits.Transcript},
		active: make(map[string]*session),
	}
	s.draining = &Draining{sessions: s, moved: wake.New(), gaveUp: make(map[string]bool)}
	hand := handOver{s}
	s.agents.show = hand.show
	s.care = &reconciler{
		cfg: &s.cfg, wake: s.wake, drives: s.drives, busy: s.busy, draining: s.draining.Begun,
	}
	s.quota = newQuota(cfg.Store, cfg.Limits, cfg.Meter.Limited)
	s.tails = newTails(cfg.Store, cfg.Replica, s.outlive)
	s.pasts = newTranscripts(cfg.Store, historyBudget)
	cfg.Log.OnMoves(s.pasts.replaced)
	cfg.Bell.OnRing(s.wake)
	s.hints = newThreadHints(cfg.Hints, cfg.Store)
	settles := approval.Config{
		Store: cfg.Store, Replica: cfg.Replica, Notices: cfg.Notices, Policy: cfg.Policy, Hash: cfg.Hash, Audit: cfg.Audit, Ring: cfg.Bell.Ring, Settled: cfg.Meter.Settled,
		FeedWanted: s.hints.wanted, FeedChanged: s.hints.approvals, NewID: newID, Logger: cfg.Logger,
	}
	if cfg.Tools != nil {
		settles.Calls = cfg.Tools
	}
	s.approvals = approval.New(settles)
	s.care.deadlines = s.approvals.Deadlines
	cfg.Bell.OnAny(func(sessionID string) {
		s.approvals.Feed.Look()
		s.hints.changed(sessionID)
	})
	s.transcript = &Transcript{store: cfg.Store, entries: cfg.Contexts, publicURL: cfg.PublicURL, agentURL: cfg.AgentURL}
	s.feeds = &Feeds{store: cfg.Store, log: cfg.Log, bell: cfg.Bell, filter: cfg.Filter, tails: s.tails, transcript: s.transcript, replica: cfg.Replica, ownerWait: cfg.Limits.OwnerWait}
	s.steering = &SteeringGate{
		store: cfg.Store, policy: cfg.Policy, hash: cfg.Hash, bell: cfg.Bell, notices: cfg.Notices, approvals: s.approvals, logger: cfg.Logger,
	}
	s.cancels = &Cancels{
		agents: cfg.Agents,
		store:  cfg.Store, bell: cfg.Bell, grace: cfg.Limits.LeaveGrace, logger: cfg.Logger, start: s.outlive, leaving: make(map[string]bool),
	}
	s.appends = &Appends{store: cfg.Store, bell: cfg.Bell, filter: cfg.Filter, quota: s.quota, limits: s.cfg.Limits}
	s.threads = &Threads{
		store: cfg.Store, log: cfg.Log, bell: cfg.Bell, pasts: s.pasts, agents: cfg.Agents, cancels: s.cancels, feed: s.approvals.Feed,
		filter: cfg.Filter, entries: cfg.Contexts, index: search.New(cfg.Store, cfg.Logger), logger: cfg.Logger,
	}
	if cfg.Tools != nil {
		cfg.Tools.Use(s.approvals.Settler, s.approvals.Deadlines.Arm, hand.keep)
	}
	return s
}

// Agents is the Directory Sessions call.
func (s *Sessions) Agents() *Directory { return s.cfg.Agents }

// Feeds makes the streams of responses.
func (s *Sessions) Feeds() *Feeds { return s.feeds }

// Transcript reads the messages of threads.
func (s *Sessions) Transcript() *Transcript { return s.transcript }

// Draining ends the Sessions that are driven here, before Run's context ends.
func (s *Sessions) Draining() *Draining { return s.draining }

// Steering decides about changes of how freely agents act.
func (s *Sessions) Steering() *SteeringGate { return s.steering }

// Threads searches, renames, archives, shares and deletes threads.
func (s *Sessions) Threads() *Threads { return s.threads }

// Cancels requests the end of Turns.
func (s *Sessions) Cancels() *Cancels { return s.cancels }

// Appends adds messages to threads that prompt no Agent.
func (s *Sessions) Appends() *Appends { return s.appends }

// AgentCalls takes the calls of Agents by Agents.
func (s *Sessions) AgentCalls() *AgentCalls {
	return &AgentCalls{sessions: s, store: s.cfg.Store, agents: s.agents}
}

// ClientCalls handles the calls of programs that were not prompted.
func (s *Sessions) ClientCalls() *ClientCalls {
	return &ClientCalls{sessions: s, store: s.cfg.Store, tools: s.cfg.Tools}
}

// AgentRequests takes what the Agents of these Sessions ask for.
func (s *Sessions) AgentRequests() *AgentRequests { return s.agents }

// Approvals settles the Questions of these Sessions.
func (s *Sessions) Approvals() *approval.Service { return s.approvals }

// Limits are the ones in force.
func (s *Sessions) Limits() Limits { return s.cfg.Limits }

// Run takes up what an earlier process left, then drives Sessions until ctx ends. When it
// returns, every goroutine it started has ended; Turns that were running are left to the
// next process.
//
// The reconciler begins before its loop and before the Feed: whatever an earlier process left is being driven by the
// time this replica counts as ready.
func (s *Sessions) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.running = ctx
	s.mu.Unlock()
	if err := s.care.begin(store.Patient(ctx)); err != nil && ctx.Err() == nil {
		return err
	}
	s.wg.Go(func() { s.care.run(ctx) })
	s.wg.Go(func() { s.approvals.Feed.Run(ctx) })
	s.wg.Go(func() { s.hints.run(ctx) })
	s.wg.Go(func() { s.threads.purgeDeleted(ctx) })
	s.wg.Go(func() { s.threads.index.Run(ctx) })
	s.approvals.RunDeadlines(ctx)
	s.mu.Lock()
	// No goroutine is started from here on: schedule and outlive look at running under the lock. Without that one
	// could be added to the group while Wait returns.
	s.running = nil
	s.mu.Unlock()
	s.wg.Wait()
	return nil
}

// wake sees to it that the Session's requests are read: by the goroutine that drives it,
// or by a new one.
func (s *Sessions) wake(sessionID string) { s.schedule(sessionID, nil) }

// schedule is wake. first is what there is to do, for a caller that has just written it, so
// that a new goroutine need not read it again; one that runs already looks for itself. Where a Session has changed its
// owner since the request came, it may be this one, so the rows are read.
//
// The bell has one place. A ring that finds it full is not lost: the goroutine has yet to take the one before, and
// will look at the rows after that.
func (s *Sessions) schedule(sessionID string, first *begun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil || s.running.Err() != nil {
		return
	}
	if a := s.active[sessionID]; a != nil {
		a.ring()
		return
	}
	taken := first != nil
	if s.draining.begun && (!taken || s.draining.gaveUp[sessionID] && !first.todo.Session.IsChild()) {
		s.draining.giveUp(sessionID)
		return
	}
	a := &session{m: s, id: sessionID, log: sessionLog{id: sessionID}, bell: make(chan struct{}, 1), calls: make(chan *toolKeeping), gone: make(chan struct{})}
	if a.taken = taken; taken && first.handed == s.handed {
		a.begunBy(*first)
	}
	s.active[sessionID] = a
	// Agents are called with the original text; all that is written is masked. No Turn ends because the database is away.
	running := store.Patient(store.WithOriginals(s.running))
	s.wg.Go(func() { a.drive(running) })
}

// retire ends a Session's goroutine unless its bell rang meanwhile.
func (s *Sessions) retire(a *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.rung && s.running != nil && s.running.Err() == nil {
		a.rung = false
		return false
	}
	delete(s.active, a.id)
	if s.draining.begun {
		s.draining.giveUp(a.id)
		s.draining.moved.Ring()
	}
	return true
}

// drives reports whether a goroutine of this replica drives the Session.
func (s *Sessions) drives(sessionID string) bool {
	return s.driver(sessionID) != nil
}

// driver is what drives a Session here, or nil.
func (s *Sessions) driver(sessionID string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active[sessionID]
}

// busy reports whether anything is driven here, or is read by who called it.
func (s *Sessions) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.active) > 0 || s.reading > 0
}

// outlive runs what must be done after the response it is about, until it is done or this replica stops.
// The check and the Go are one step under the lock, so that Run's Wait cannot pass in between.
func (s *Sessions) outlive(do func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := s.running
	if running == nil || running.Err() != nil {
		return false
	}
	s.wg.Go(func() { do(store.Patient(running)) })
	return true
}
