package bridge

import (
	"context"
	"errors"
	"time"

	"aqueduct/internal/retry"
	"aqueduct/store"
)

// Locator is an Agent that is reached by a link, which one replica holds.
type Locator interface {
	// Locate returns the living replica other than this one that reaches the Agent for an instance (Call.InstanceID). It
	// returns "" if this replica reaches it, or if no replica does. wait is set if no replica reaches it and a link is expected
	// at any moment.
	Locate(ctx context.Context, instanceID string) (replica string, wait bool, err error)
}

// ErrMoved is the error of Turn.Next when the Agent continues the prompt at another replica.
var ErrMoved = errors.New("bridge: the agent is reached from another replica")

// locateAgain is the pause between two looks for a link that is expected.
const locateAgain = 100 * time.Millisecond

// isLeft reports whether a Session that holds no Turn in memory is not to be driven now. If the Agent of its Turn is reached
// from another replica, that one becomes its owner. If the Agent's link is expected, a queued Turn waits.
//
// The goroutine that drives a Session hands it over, and writes no row of it after that. A request that has read the owner
// before may ask for a new goroutine afterwards. handed makes that goroutine read the owner again (Sessions.schedule).
func isLeft(ctx context.Context, s *session, todo store.Agenda) (bool, error) {
	if s.turn != nil || todo.Turn == nil || isProgram(s.log.row) {
		return false, nil
	}
	agent, err := s.m.cfg.Agents.find(ctx, s.log.row.Tenant, todo.Turn.AgentID)
	at, links := agent.(Locator)
	if err != nil || !links {
		return false, err
	}
	to, wait, err := at.Locate(ctx, InstanceID(s.log.row, todo.Turn.AgentID))
	switch {
	case err != nil:
		return false, err
	case to != "":
		return handSession(ctx, s, to)
	case wait && todo.Command == nil && todo.Running == "" && todo.Turn.Status == store.TurnQueued:
		s.m.outlive(func(ctx context.Context) {
			_ = retry.Sleep(ctx, locateAgain) // a wake after ctx has ended has no effect
			s.m.wake(s.id)
		})
		return true, nil
	}
	return false, nil
}

// handSession makes another replica the owner; false where that one has gone meanwhile.
func handSession(ctx context.Context, s *session, to string) (handed bool, err error) {
	err = s.m.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		handed, err = tx.HandSession(ctx, s.id, s.m.cfg.Replica, to)
		return err
	})
	if err != nil || !handed {
		return false, err
	}
	s.log.close()
	// The copies in memory here do not see the rows that the other replica writes.
	s.m.cfg.Log.Forget(s.id)
	s.m.pasts.drop(s.id)
	s.m.mu.Lock()
	s.m.handed++
	s.m.mu.Unlock()
	s.m.cfg.Bell.Ring(s.id)
	return true, nil
}
