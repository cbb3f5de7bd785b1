package server

import (
	"container/list"
	"context"
	"sync"

	"aqueduct/bridge"
	"aqueduct/store"
)

// sockets counts what http.Server no longer does: connections that became WebSockets. Those
// that have not said hello yet have a pool of their own, so that idle ones keep nobody out.
type sockets struct {
	most         int // authenticated
	perPrincipal int
	mostWaiting  int // before hello
	draining     context.Context
	meter        *limitMetrics

	mu      sync.Mutex
	n       int
	by      map[socketOwner]int
	waiting list.List // of *socketSlot, oldest first
	closed  bool
	open    sync.WaitGroup
}

func newSockets(l Limits, draining context.Context, meter *limitMetrics) *sockets {
	return &sockets{
		most: l.Sockets, perPrincipal: l.SocketsPerPrincipal, mostWaiting: l.SocketsBeforeHello,
		draining: draining, meter: meter, by: make(map[socketOwner]int),
	}
}

// socketSlot is the place of one socket. The mutex of sockets guards it.
type socketSlot struct {
	s      *sockets
	peer   string
	evict  func()        // of one that waits
	queued *list.Element // in waiting; nil when it is not there
	known  bool
	who    socketOwner
}

// socketOwner is what the sockets of one principal are counted by.
type socketOwner struct{ tenant, user string }

func ownerOf(p store.Principal) socketOwner { return socketOwner{p.Tenant, p.User} }

// admit lets one more socket in, of a principal that is known. Its handler calls leave at the end.
func (s *sockets) admit(who store.Principal) (*socketSlot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := &socketSlot{s: s}
	if err := s.place(slot, who); err != nil {
		return nil, err
	}
	s.open.Add(1)
	return slot, nil
}

// await lets in a socket that has not said hello. When the pool is full the oldest of the address
// that has most of them goes for it, by its evict.
func (s *sockets) await(peer string, evict func()) (*socketSlot, error) {
	slot := &socketSlot{s: s, peer: peer, evict: evict}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.draining.Err() != nil {
		return nil, refuse(codeShuttingDown, "")
	}
	if s.waiting.Len() >= s.mostWaiting {
		oldest := s.mostCommon()
		s.waiting.Remove(oldest.queued)
		oldest.queued = nil
		s.meter.evicted("socket")
		oldest.evict() // it cancels a context, and waits for nothing
	}
	slot.queued = s.waiting.PushBack(slot)
	s.open.Add(1)
	return slot, nil
}

// mostCommon is the oldest waiting socket of the address that has most of them.
func (s *sockets) mostCommon() *socketSlot {
	count := make(map[string]int)
	most := 0
	for e := s.waiting.Front(); e != nil; e = e.Next() {
		peer := e.Value.(*socketSlot).peer
		count[peer]++
		most = max(most, count[peer])
	}
	for e := s.waiting.Front(); ; e = e.Next() {
		if slot := e.Value.(*socketSlot); count[slot.peer] == most {
			return slot
		}
	}
}

// identify is called when the socket has said who it is.
func (p *socketSlot) identify(who store.Principal) error {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.queued == nil { // evicted while it said so
		return refuse(bridge.RefusedTooManyStreams, "")
	}
	if err := s.place(p, who); err != nil {
		return err
	}
	s.waiting.Remove(p.queued)
	p.queued = nil
	return nil
}

// place counts a socket for its principal.
func (s *sockets) place(slot *socketSlot, who store.Principal) error {
	owner := ownerOf(who)
	switch {
	case s.closed, s.draining.Err() != nil:
		return refuse(codeShuttingDown, "")
	case s.n >= s.most:
		s.meter.refused("sockets")
		return refuse(bridge.RefusedTooManyStreams, "")
	case s.by[owner] >= s.perPrincipal:
		s.meter.refused("sockets_per_principal")
		return refuse(codeTooManySockets, "")
	}
	s.n++
	s.by[owner]++
	slot.known, slot.who = true, owner
	return nil
}

func (p *socketSlot) leave() {
	s := p.s
	s.mu.Lock()
	if p.queued != nil {
		s.waiting.Remove(p.queued)
		p.queued = nil
	}
	if p.known {
		s.n--
		if s.by[p.who]--; s.by[p.who] == 0 {
			delete(s.by, p.who)
		}
	}
	s.mu.Unlock()
	s.open.Done()
}

// counts are the sockets there are now.
func (s *sockets) counts() (known, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n, s.waiting.Len()
}

// wait lets none in any more and ends when all have left.
func (s *sockets) wait() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.open.Wait()
}
