package tools

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/signed"
	"aqueduct/store"
)

// Service takes ToolCalls and sees to them.
type Service struct {
	cfg   Config
	slots chan struct{} // of calls that run
	bell  chan struct{} // capacity 1: there may be work
	shelf shelf

	arm     func(callID string, after time.Duration)
	settler *inbox.Settler
	keeper  Keeper

	mu      sync.Mutex
	running context.Context // of Run; nil before it and after its end
	wg      sync.WaitGroup
	secrets map[string]signed.Secret // of the tools of the file, by name
	ended   map[string]chan struct{} // calls that run here, closed when their end is kept
	// approved are the calls that clients were given to run and whose deadlines are still to be armed.
	approved []store.ToolCall
}

// New makes a Service; Run must be running for anything to be run.
func New(cfg Config) *Service {
	cfg.Limits = cfg.Limits.withDefaults()
	return &Service{
		cfg: cfg, slots: make(chan struct{}, cfg.Limits.Running), bell: make(chan struct{}, 1), ended: make(map[string]chan struct{}),
	}
}

// Use says how Questions are settled, what makes calls expire that nobody settles in time, and what keeps calls together
// with the events that show them; nil keeps the rows alone. It is for before Run.
func (s *Service) Use(settler *inbox.Settler, arm func(callID string, after time.Duration), keeper Keeper) {
	s.settler, s.arm, s.keeper = settler, arm, keeper
}

// deadline has a call expire in time, if it waits.
func (s *Service) deadline(call store.ToolCall) {
	if s.arm != nil && !call.ExpiresAt.IsZero() && !call.Status.Terminal() {
		s.arm(call.ID, time.Until(call.ExpiresAt))
	}
}

// Run sees to approved calls and to those whose runner died, until ctx ends; then it waits
// for what runs here, which is told to stop.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(store.WithOriginals(ctx)) // what runs is what was asked for, not what is shown
	defer cancel()
	s.mu.Lock()
	s.running = ctx
	s.mu.Unlock()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	s.kick()
	for {
		select {
		case <-s.bell:
		case <-tick.C:
		case <-ctx.Done():
			s.mu.Lock()
			s.running = nil
			s.mu.Unlock()
			s.wg.Wait()
			return nil
		}
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("could not look for tool calls", slog.Any("error", err))
		}
	}
}

// Decided hears that a Question about a ToolCall was settled, once that is kept.
func (s *Service) Decided(q inbox.Question) {
	if q.Call.Kind == store.KindClient && q.Call.Status == store.ToolDispatched {
		s.mu.Lock()
		s.approved = append(s.approved, q.Call)
		s.mu.Unlock()
	}
	s.kick()
}

// Look says that there may be work: calls of a replica that is gone, above all.
func (s *Service) Look() { s.kick() }

// kick says that there may be work.
func (s *Service) kick() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// look takes up what is to be run, and what nobody runs any more.
func (s *Service) look(ctx context.Context) error {
	approved, err := s.cfg.Store.ToolCallsByStatus(ctx, store.System(), []store.ToolCallStatus{store.ToolDispatched}, store.KindServer, lookMost)
	if err != nil {
		return err
	}
	for _, call := range approved {
		s.start(call)
	}
	if err := s.armDispatched(ctx); err != nil {
		return err
	}
	if err := s.lookForAbandoned(ctx); err != nil {
		return err
	}
	orphans, err := s.cfg.Store.OrphanedToolCalls(ctx, store.System(), lookMost)
	if err != nil {
		return err
	}
	for _, call := range orphans {
		if err := s.orphaned(ctx, call); err != nil {
			s.complain(ctx, call, err)
		}
	}
	return nil
}

// endsHere is closed when a call that runs here has ended; nil when it does not run here.
func (s *Service) endsHere(id string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[id]
}

// start runs a call that is DISPATCHED, unless somebody else does.
func (s *Service) start(call store.ToolCall) {
	s.spawn(call.ID, func(ctx context.Context) { s.claimAndRun(ctx, call) })
}

// spawn runs a call's work once on this replica; false when it is at work already, and then
// the channel is that work's, or with none when too much is or nothing is begun any more.
func (s *Service) spawn(id string, work func(context.Context)) (<-chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil || s.running.Err() != nil {
		return nil, false
	}
	if done := s.ended[id]; done != nil {
		return done, false
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return nil, false
	}
	ctx, done := s.running, make(chan struct{})
	s.ended[id] = done
	s.wg.Go(func() {
		defer func() {
			<-s.slots
			s.mu.Lock()
			delete(s.ended, id)
			s.mu.Unlock()
			close(done)
		}()
		work(ctx)
	})
	return done, true
}
