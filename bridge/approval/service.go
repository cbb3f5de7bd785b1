package approval

import (
	"context"
	"log/slog"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/redact"
	"aqueduct/policy"
	"aqueduct/store"
)

// Config is what a Service needs.
type Config struct {
	Store   store.Store
	Replica string
	Notices Notices
	// Calls takes the consequence for a ToolCall that Aqueduct executes; nil when there are none.
	Calls Calls
	// Policy is the one in force; nil for none.
	Policy *policy.Holder
	// Hash computes the hash of changed arguments.
	Hash redact.Hasher
	// Audit keeps refused attempts; what succeeds is audited in its own transaction.
	Audit *audit.Log
	// Ring wakes the owner of a Session.
	Ring func(sessionIDs ...string)
	// Settled counts Questions that were settled, for metrics; nil for none.
	Settled func(Question)
	// FeedWanted and FeedChanged make pages that watch learn of changes; see FeedConfig.
	FeedWanted  func() bool
	FeedChanged func(context.Context, []store.ApprovalChange)
	NewID       func() string
	Logger      *slog.Logger
}

// Service is the door to Questions for every surface, for the engine and for expiry. It has no lock and no state of its
// own; its parts have, and each is safe for concurrent use. Run must be running for Questions to expire and for
// Followers of the Feed to be woken.
//
// The parts: Settler moves the rows in a transaction, Deadlines expires, Feed shows changes to those who may decide,
// Grants and Delegations keep what stands for later Questions.
type Service struct {
	*Settler
	Deadlines   *Deadlines
	Feed        *Feed
	Grants      *Grants
	Delegations *Delegations

	store   store.Store
	audit   *audit.Log
	ring    func(sessionIDs ...string)
	settled func(Question)
	logger  *slog.Logger
}

// New makes a Service and its parts.
func New(cfg Config) *Service {
	s := &Service{
		store: cfg.Store, audit: cfg.Audit, ring: cfg.Ring, settled: cfg.Settled, logger: cfg.Logger, Deadlines: NewDeadlines(),
		Feed:   NewFeed(FeedConfig{Store: cfg.Store, Logger: cfg.Logger, Wanted: cfg.FeedWanted, Changed: cfg.FeedChanged}),
		Grants: &Grants{store: cfg.Store, policy: cfg.Policy, newID: cfg.NewID},
		Settler: &Settler{Notices: cfg.Notices, Calls: cfg.Calls, Hash: cfg.Hash, Replica: cfg.Replica, NewID: cfg.NewID, Once: func(id string, why error) {
			cfg.Logger.Info("an always was taken for once", slog.String("approval_id", id), slog.Any("reason", why))
		}},
	}
	if cfg.Policy != nil {
		s.Policy = cfg.Policy.Current
	}
	s.Delegations = &Delegations{store: cfg.Store, notices: cfg.Notices, feed: s.Feed, newID: cfg.NewID}
	return s
}

// RunDeadlines expires Questions until ctx ends.
func (s *Service) RunDeadlines(ctx context.Context) { s.Deadlines.Run(ctx, s.Expire) }

// expireAgain is how long an expiry that failed waits before it is tried again.
const expireAgain = time.Second
