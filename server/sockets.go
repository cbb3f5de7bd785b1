package server

import (
	"context"
	"sync"

	"aqueduct/bridge"
)

// sockets counts what http.Server no longer does: connections that became WebSockets.
type sockets struct {
	most     int
	draining context.Context

	mu     sync.Mutex
	n      int
	closed bool
	open   sync.WaitGroup
}

func newSockets(most int, draining context.Context) *sockets {
	return &sockets{most: most, draining: draining}
}

// admit lets one more in; whoever was let in calls leave.
func (s *sockets) admit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed, s.draining.Err() != nil:
		return refuse(codeShuttingDown, "")
	case s.n >= s.most:
		return refuse(bridge.RefusedTooManyStreams, "")
	}
	s.n++
	s.open.Add(1)
	return nil
}

func (s *sockets) leave() {
	s.mu.Lock()
	s.n--
	s.mu.Unlock()
	s.open.Done()
}

// wait lets none in any more and ends when all have left.
func (s *sockets) wait() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.open.Wait()
}
