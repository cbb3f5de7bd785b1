// This file counts WebSockets. http.Server counts a connection until it is hijacked and does not wait for it at the
// end; both are done here.

package limit

import (
	"container/list"
	"context"
	"sync"

	"aqueduct/store"
)

// Sockets counts what http.Server no longer counts: connections that became WebSockets. Those that have not authenticated
// yet have a pool of their own, so that idle ones do not take the places of users. mu guards everything below it; any
// goroutine may call.
type Sockets struct {
	most         int // authenticated
	perPrincipal int
	mostWaiting  int // before hello
	Draining     context.Context
	meter        *Meter

	mu      sync.Mutex
	n       int
	by      map[socketOwner]int
	waiting list.List // of *socketSlot, oldest first
	closed  bool
	open    sync.WaitGroup
}

// NewSockets makes the pool of one server; draining ends when the server shuts down.
func NewSockets(l Limits, draining context.Context, meter *Meter) *Sockets {
	return &Sockets{
		most: l.Sockets, perPrincipal: l.SocketsPerPrincipal, mostWaiting: l.SocketsBeforeHello,
		Draining: draining, meter: meter, by: make(map[socketOwner]int),
	}
}

// Slot is the place of one socket, from Admit or Await to Leave. The mutex of its Sockets guards what changes in it.
type Slot struct {
	s      *Sockets
	peer   string
	evict  func()        // of one that waits
	queued *list.Element // in waiting; nil when it is not there
	known  bool
	who    socketOwner
}

// socketOwner is what the sockets of one principal are counted by.
type socketOwner struct{ tenant, user string }

func ownerOf(p store.Principal) socketOwner { return socketOwner{p.Tenant, p.User} }

// Admit lets one more socket in, of a principal that is known. Its handler calls leave at the end.
func (s *Sockets) Admit(who store.Principal) (*Slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := &Slot{s: s}
	if err := s.place(slot, who); err != nil {
		return nil, err
	}
	s.open.Add(1)
	return slot, nil
}

// Await lets in a socket that has not authenticated. When the pool is full, the oldest socket of the address that has most
// of them is closed for it, by its evict.
func (s *Sockets) Await(peer string, evict func()) (*Slot, error) {
	slot := &Slot{s: s, peer: peer, evict: evict}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.Draining.Err() != nil {
		return nil, refuse(ShuttingDown)
	}
	// The address with most of them pays, so that a flood from one address evicts its own.
	if s.waiting.Len() >= s.mostWaiting {
		oldest := s.mostCommon()
		s.waiting.Remove(oldest.queued)
		oldest.queued = nil
		s.meter.Evicted("socket")
		oldest.evict() // it cancels a context, and waits for nothing
	}
	slot.queued = s.waiting.PushBack(slot)
	s.open.Add(1)
	return slot, nil
}

// mostCommon is the oldest waiting socket of the address that has most of them.
func (s *Sockets) mostCommon() *Slot {
	count := make(map[string]int)
	most := 0
	for e := s.waiting.Front(); e != nil; e = e.Next() {
		peer := e.Value.(*Slot).peer
		count[peer]++
		most = max(most, count[peer])
	}
	for e := s.waiting.Front(); ; e = e.Next() {
		if slot := e.Value.(*Slot); count[slot.peer] == most {
			return slot
		}
	}
}

// Identify moves a socket that has authenticated to those of its principal. Where there is no place it stays among
// the waiting, and its handler, which gets the error, is to end it.
func (p *Slot) Identify(who store.Principal) error {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.queued == nil { // evicted while it authenticated
		return refuse(TooManyStreams)
	}
	if err := s.place(p, who); err != nil {
		return err
	}
	s.waiting.Remove(p.queued)
	p.queued = nil
	return nil
}

// place counts a socket for its principal.
func (s *Sockets) place(slot *Slot, who store.Principal) error {
	owner := ownerOf(who)
	switch {
	case s.closed, s.Draining.Err() != nil:
		return refuse(ShuttingDown)
	case s.n >= s.most:
		s.meter.Refused("sockets")
		return refuse(TooManyStreams)
	case s.by[owner] >= s.perPrincipal:
		s.meter.Refused("sockets_per_principal")
		return refuse(TooManySockets)
	}
	s.n++
	s.by[owner]++
	slot.known, slot.who = true, owner
	return nil
}

// Leave frees the slot. The handler of the socket calls it once, at its end.
func (p *Slot) Leave() {
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
func (s *Sockets) counts() (known, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n, s.waiting.Len()
}

// Wait lets none in any more and ends when all have left. What has them leave is Draining, which their handlers look
// at.
func (s *Sockets) Wait() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.open.Wait()
}
