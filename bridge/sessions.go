package bridge

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"aqueduct/bridge/audit"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/hints"
	"aqueduct/bridge/inbox"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/tools"
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
	// Filter takes secrets out of what is said; nil takes out nothing. Hash binds arguments to what is decided about them.
	Filter *redact.Filter
	Hash   redact.Hasher
	// Notices tells others of Questions.
	Notices inbox.Notices
	// Tools sees to the ToolCalls of Agents; nil without any.
	Tools  *tools.Service
	Limits Limits
	// OnBusy is what becomes of a message while somebody tails the Turn under way: OnBusyRefuse, the default, or OnBusyQueue.
	OnBusy string
	Logger *slog.Logger
	Meter  Meter
	// Policy says which permissions need no person; nil: none.
	Policy *policy.Holder
	// Hints is what pages that watch are told of Questions and threads; nil is nothing.
	Hints *hints.Hub
	// Audit keeps what happens outside of the transactions here: refused attempts. Nil is one of its own.
	Audit *audit.Log
	// PublicURL is where people reach this server, without a path. URLs of parts begin with it; "" leaves them relative.
	PublicURL string
}

// Meter hears what happens, for metrics. Members may be nil; they must be quick.
type Meter struct {
	RunEnded   func(outcome string)
	FirstToken func(since time.Duration)
	// TurnEnded hears how a Turn ended, how long it took since its prompt, and how much of that no Question was open.
	TurnEnded func(status string, took, active time.Duration)
	Settled   func(inbox.Question) // a Question was, by whoever or whatever
	Limited   func(limit string)   // a limit refused something: turns, questions, bytes
	Stranded  func()               // a Turn had to be ended that nothing moved any more
}

// Sessions drives the Sessions this replica owns and takes requests for all.
type Sessions struct {
	cfg       Config
	settler   *inbox.Settler
	deadlines *inbox.Deadlines
	callers   callers
	pasts     *transcripts
	inbox     *inbox.Feed
	tails     *tails
	threads   *threadHints
	questions *userCount // open ones, by user
	turns     *userCount // under way, by user
	tenants   tenants    // what their threads hold

	mu      sync.Mutex
	running context.Context // nil before Run and after it began to stop
	active  map[string]*session
	leaving map[string]bool // Turns of which a tail with on_leave=cancel has gone
	wg      sync.WaitGroup

	unarmed  bool            // more Questions are open than were armed; the poll's alone
	suspects map[string]bool // Turns that seemed stranded at the last look; the poll's alone
	replicas replicaWatch    // the poll's alone
}

// New makes Sessions; Run must be running for anything to be driven.
func New(cfg Config) *Sessions {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Audit == nil {
		cfg.Audit = audit.NewLog(cfg.Store, cfg.Logger, nil)
	}
	s := &Sessions{
		cfg: cfg, deadlines: inbox.NewDeadlines(),
		active: make(map[string]*session), leaving: make(map[string]bool),
	}
	s.questions = newUserCount(cfg.Limits.QuestionsPerUser, func(ctx context.Context, in store.Scope, most int) (int, error) {
		return cfg.Store.CountWaiting(ctx, in, "", most)
	})
	s.tenants.by = make(map[string]tenantBytes)
	s.turns = newUserCount(cfg.Limits.TurnsPerUser, cfg.Store.CountActiveTurns)
	s.tails = newTails(cfg.Replica)
	s.tails.start, s.tails.write = s.outlive, s.stateTail
	s.pasts = newTranscripts(cfg.Store, historyBudget)
	cfg.Log.OnMoves(s.pasts.replaced)
	cfg.Bell.OnRing(s.wake)
	s.settler = &inbox.Settler{Notices: cfg.Notices, NewID: newID, AskerThere: s.askerThere, Once: func(id string, why error) {
		cfg.Logger.Info("an always was taken for once", slog.String("approval_id", id), slog.Any("reason", why))
	}}
	if cfg.Policy != nil {
		s.settler.Policy = cfg.Policy.Current
	}
	s.followInbox()
	if cfg.Tools != nil {
		s.settler.Calls = cfg.Tools
		cfg.Tools.Use(s.settler, s.deadlines.Arm, s.keepToolCall)
	}
	return s
}

// Agents is the Directory Sessions call.
func (s *Sessions) Agents() *Directory { return s.cfg.Agents }

// Run takes up what an earlier process left, then drives Sessions until ctx ends. When it
// returns, every goroutine it started has ended; Turns that were running are left to the
// next process.
func (s *Sessions) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.running = ctx
	s.mu.Unlock()
	if err := s.restore(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	// In this order: a replica that leaves in between has been listed, and so is missed.
	err := s.watchReplicas(ctx)
	if err == nil {
		err = s.takeOver(ctx, store.Replica{})
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	s.wg.Go(func() { s.poll(ctx) })
	s.wg.Go(func() { s.inbox.Run(ctx) })
	s.wg.Go(func() { s.threads.run(ctx) })
	s.wg.Go(func() { s.purgeDeleted(ctx) })
	s.deadlines.Run(ctx, s.expire)
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	s.wg.Wait()
	return nil
}

// pollEvery is how often this replica looks for work nobody rang for: what makes a lost
// ring cost time and nothing else.
const pollEvery = 2 * time.Second

func (s *Sessions) poll(ctx context.Context) {
	tick, watch := time.NewTicker(pollEvery), time.NewTicker(watchEvery)
	defer tick.Stop()
	defer watch.Stop()
	stranded := time.NewTicker(strandedEvery)
	defer stranded.Stop()
	for {
		select {
		case <-stranded.C:
			if err := s.lookForStranded(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Logger.Warn("could not look for stranded turns", slog.Any("error", err))
			}
		case <-watch.C:
			if err := s.watchReplicas(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Logger.Warn("could not watch the other replicas", slog.Any("error", err))
			}
		case <-tick.C:
			err := s.rouseAll(ctx)
			if err == nil && s.unarmed {
				_, err = s.armSoonest(ctx)
			}
			if err != nil && ctx.Err() == nil {
				s.cfg.Logger.Warn("could not look for work", slog.Any("error", err))
			}
		case <-ctx.Done():
			return
		}
	}
}

// rouseAll wakes every Session that has work.
func (s *Sessions) rouseAll(ctx context.Context) error {
	ids, err := s.cfg.Store.SessionsWithWork(ctx, store.System(), s.cfg.Replica)
	for _, id := range ids {
		s.rouse(id, nil)
	}
	return err
}

// wake sees to it that the Session's requests are read: by the goroutine that drives it,
// or by a new one.
func (s *Sessions) wake(sessionID string) { s.rouse(sessionID, nil) }

// rouse is wake. first is what there is to do, for a caller that has just written it, so
// that a new goroutine need not read it again; one that runs already looks for itself.
func (s *Sessions) rouse(sessionID string, first *begun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil || s.running.Err() != nil {
		return
	}
	if a := s.active[sessionID]; a != nil {
		a.rung = true
		select {
		case a.bell <- struct{}{}:
		default:
		}
		return
	}
	a := &session{m: s, id: sessionID, bell: make(chan struct{}, 1), calls: make(chan *toolKeeping), gone: make(chan struct{})}
	if first != nil {
		a.begunBy(*first)
	}
	s.active[sessionID] = a
	running := store.WithOriginals(s.running) // Agents are called with what was said; all that is written is masked
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
	return true
}

// expire settles a Question whose time has come.
func (s *Sessions) expire(ctx context.Context, questionID string) {
	_, err := s.settle(ctx, system(), questionID, func(_ context.Context, q inbox.Question) (inbox.Decision, error) {
		return inbox.Expired(q), nil
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) && ctx.Err() == nil {
		s.cfg.Logger.Error("question not expired, trying again", slog.String("approval_id", questionID), slog.Any("error", err))
		s.deadlines.Arm(questionID, time.Second)
	}
}

// Rename gives a thread a title of the user's.
func (s *Sessions) Rename(ctx context.Context, who store.Principal, threadID, title string) error {
	session, err := s.cfg.Store.SessionByExternalID(ctx, store.As(who), threadID)
	if err != nil {
		return err
	}
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.LockSession(ctx, store.As(who), session.ID); err != nil {
			return err
		}
		return tx.SetSessionTitle(ctx, session.ID, plainTitle(s.cfg.Filter.Text(title)))
	})
	if err == nil {
		s.cfg.Bell.Ring(session.ID)
	}
	return err
}
