package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

const (
	// countedFor is how long a count of a user's rows is used before they are counted again: what
	// other replicas add is seen after that.
	countedFor = time.Second
	// maxCounted bounds the users whose counts are remembered. A forgotten one is counted anew.
	maxCounted = 4096
)

// userCount limits how many rows of a kind one user may have. It counts them in the store at most
// once a second, and adds what this replica adds in between, so that a thousand new rows do not
// cost a thousand counts. Rows that end in between are not subtracted; before it refuses it counts
// again, so nobody is refused for those.
type userCount struct {
	most  int
	count func(ctx context.Context, in store.Scope, most int) (int, error)

	mu sync.Mutex
	by map[userKey]counted
}

type userKey struct{ tenant, user string }

type counted struct {
	n  int
	at time.Time
}

func newUserCount(most int, count func(context.Context, store.Scope, int) (int, error)) *userCount {
	return &userCount{most: most, count: count, by: make(map[userKey]counted)}
}

// add counts one more for the user; false when there are as many as there may be.
func (u *userCount) add(ctx context.Context, tenant, user string) (bool, error) {
	key := userKey{tenant, user}
	u.mu.Lock()
	c := u.by[key]
	if c.n < u.most && time.Since(c.at) < countedFor {
		c.n++
		u.by[key] = c
		u.mu.Unlock()
		return true, nil
	}
	u.mu.Unlock()
	n, err := u.count(ctx, store.As(store.Principal{Tenant: tenant, User: user}), u.most)
	if err != nil {
		return false, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.by[key]; !known && len(u.by) >= maxCounted {
		clear(u.by)
	}
	if n >= u.most {
		u.by[key] = counted{n, time.Now()}
		return false, nil
	}
	u.by[key] = counted{n + 1, time.Now()}
	return true, nil
}

// asks is what a Turn's owner remembers of its Questions, so that a new one need not read all
// those before it: asking n would read n² rows.
type asks struct {
	read bool
	ids  map[string]bool // the agent's own ids of them
	open int             // at most so many are open
}

// seen remembers what was read.
func (a *asks) seen(all []inbox.Question) {
	a.read, a.open = true, 0
	if a.ids == nil {
		a.ids = make(map[string]bool)
	}
	for _, q := range all {
		a.ids[q.Call.UpstreamID] = true
		if q.Open() {
			a.open++
		}
	}
}

// added remembers one that was asked.
func (a *asks) added(upstreamID string) {
	if a.read {
		a.ids[upstreamID] = true
		a.open++
	}
}

// isNew reports whether the Turn has certainly no Question of that id of the agent's.
func (a *asks) isNew(upstreamID string) bool { return a.read && !a.ids[upstreamID] }

// mayAsk checks the limits of open Questions. One too many ends the Turn: the agent cannot be told
// another way, and its Questions are cancelled with it.
func (t *turn) mayAsk(ctx context.Context) error {
	limits := t.s.m.cfg.Limits
	if !t.asks.read || t.asks.open >= limits.QuestionsPerTurn {
		if _, err := t.questions(ctx); err != nil { // some may have been settled
			return err
		}
	}
	if t.asks.open >= limits.QuestionsPerTurn {
		return t.s.m.tooMany("questions", &Failure{Code: CodeTooManyQuestions, Message: fmt.Sprintf("The agent asked more than %d questions at once.", limits.QuestionsPerTurn)})
	}
	ok, err := t.s.m.questions.add(ctx, t.s.row.Tenant, t.s.row.User)
	if err == nil && !ok {
		err = t.s.m.tooMany("questions", &Failure{Code: CodeTooManyQuestions, Message: fmt.Sprintf("More than %d questions of this user are open.", limits.QuestionsPerUser)})
	}
	return err
}

// mayPrompt checks the limit of Turns that one user has under way.
func (s *Sessions) mayPrompt(ctx context.Context, who store.Principal) error {
	ok, err := s.turns.add(ctx, who.Tenant, who.User)
	if err == nil && ok {
		return s.mayKeep(ctx, who.Tenant)
	}
	if err == nil {
		err = s.tooMany("turns", &Refusal{Code: RefusedTooManyTurns, Message: fmt.Sprintf("%d turns of this user are under way.", s.cfg.Limits.TurnsPerUser)})
	}
	return err
}

// tooMany counts a refusal.
func (s *Sessions) tooMany(limit string, err error) error {
	s.limited(limit)
	return err
}

func (s *Sessions) limited(limit string) {
	if s.cfg.Meter.Limited != nil {
		s.cfg.Meter.Limited(limit)
	}
}

// logged is how many bytes of a Session's log its owner knows of.
type logged struct {
	bytes int64 // since the Session is driven here, and before if that was read
	read  bool
	fresh int64 // since the Session's row was last told
}

// tooLong reports whether the Session's log holds as much as it may. What was kept before is added
// up once, and only where the log has so many events that it can matter.
func (s *session) tooLong(ctx context.Context) (bool, error) {
	limits := s.m.cfg.Limits
	if !s.logged.read && s.log.Last() >= limits.ThreadBytes/int64(2*limits.EventBytes) {
		var kept int64
		err := patiently(ctx, func() (err error) {
			kept, err = s.m.cfg.Store.EventBytes(ctx, store.System(), s.id)
			return err
		})
		if errors.Is(err, store.ErrNotFound) { // deleted meanwhile
			err = nil
		}
		if err != nil {
			return false, err
		}
		s.logged.bytes, s.logged.read = kept, true // but for the commit in flight, all that was said here is in it
	}
	return s.logged.bytes > limits.ThreadBytes, nil
}
