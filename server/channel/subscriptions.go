// This file is the set of sessions that one connection follows, and its bounds.

package channel

import (
	"fmt"
	"sync"

	"aqueduct/server/limit"
	"aqueduct/server/problem"
)

const (
	// maxSubscriptions bounds the sessions of one connection: each is a tail of a log.
	maxSubscriptions = 64
	// maxForQuestions is how many of them may be followed only because something is asked in them.
	// Other clients of the user leave questions open; the rest is for what this one does.
	maxForQuestions = maxSubscriptions / 2
)

// subscriptions are the sessions that one connection follows, at most one subscription a session. The connection's
// reader, the watcher of questions and ending subscriptions use it at once. mu is never held while something is sent
// or read from the store.
type subscriptions struct {
	mu   sync.Mutex
	byID map[string]*subscription // by the Session's id in the store
}

// add registers a subscription unless there is one of its session, which then goes on unchanged.
// A subscription that existed for a question becomes one of the client's own when the client names
// its session: it then no longer counts against maxForQuestions.
func (s *subscriptions) add(f *subscription) (added bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byID[f.session.ID]; old != nil {
		old.forQuestion = old.forQuestion && f.forQuestion
		return false, nil
	}
	forQuestions := 0
	for _, have := range s.byID {
		if have.forQuestion {
			forQuestions++
		}
	}
	if len(s.byID) >= maxSubscriptions || f.forQuestion && forQuestions >= maxForQuestions {
		return false, problem.Refuse(limit.TooManyStreams, fmt.Sprintf("One connection follows %d sessions, %d of them for questions alone.", maxSubscriptions, maxForQuestions))
	}
	if s.byID == nil {
		s.byID = make(map[string]*subscription)
	}
	s.byID[f.session.ID] = f
	return true, nil
}

// remove forgets a subscription that has ended. A newer one of the same session stays.
func (s *subscriptions) remove(f *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[f.session.ID] == f {
		delete(s.byID, f.session.ID)
	}
}

// has reports whether a session is followed.
func (s *subscriptions) has(sessionID string) bool { return s.of(sessionID) != nil }

// of is the subscription of a session, nil when there is none.
func (s *subscriptions) of(sessionID string) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[sessionID]
}

// named is the subscription of what the client calls a session; nil when there is none. It walks at most
// maxSubscriptions entries, so it needs no second map.
func (s *subscriptions) named(id string) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.byID {
		if f.session.ExternalID == id {
			return f
		}
	}
	return nil
}
