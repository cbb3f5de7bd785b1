// Connections of a listener: known callers and strangers are counted apart, so that a flood of idle connections
// cannot keep users out.

package limit

import (
	"container/list"
	"context"
	"net"
	"sync"
	"time"
)

const (
	// anonymousAge is how long a connection may take to show a credential before a newer one may
	// evict it. Many clients that connect at once (a restart, a load test) all get this long.
	anonymousAge = time.Second
)

// Connections bounds the connections of a listener. A connection is anonymous until a request on
// it has shown a good credential. Anonymous connections have a small pool: where it is full, the
// one that was idle longest is closed for the new one, so idle or slow connections of an attacker
// never keep anybody out. Authenticated ones are counted apart, because behind a reverse proxy or
// NAT all of them may have one address.
type Connections struct {
	most      int // authenticated
	anonymous int
	perPeer   int // anonymous ones of one address
	now       func() time.Time
	evicted   func()

	mu     sync.Mutex
	known  int
	all    list.List             // of *limitedConn, anonymous, oldest first
	byPeer map[string]*list.List // the same by address; no list is empty
	freed  chan struct{}         // closed when a place is freed while Accept waits
}

// NewConnections makes the limit. evicted is called for each connection that is closed for a newer one.
func NewConnections(l Limits, evicted func()) *Connections {
	return &Connections{
		most: l.Connections, anonymous: l.AnonymousConnections, perPeer: l.AnonymousPerAddress,
		now: time.Now, evicted: evicted, byPeer: make(map[string]*list.List),
	}
}

// connKey is the key of the connection in the context of its requests (ConnContext).
type connKey struct{}

// Authenticated moves the connection of a request to those whose peer is known. It is called for
// every request with a good credential. It reports false when there are too many of them.
func Authenticated(ctx context.Context) bool {
	c, limited := ctx.Value(connKey{}).(*limitedConn)
	return !limited || c.limiter.promote(c)
}

// limitedListener counts connections as they are accepted. Where there is no room it stops accepting, and the
// kernel's queue holds the rest.
type limitedListener struct {
	net.Listener
	limiter *Connections
	once    sync.Once
	closed  chan struct{}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &limitedConn{Conn: conn, limiter: l.limiter, peer: Address(conn.RemoteAddr().String())}
		if l.limiter.add(c, l.closed) {
			return c, nil
		}
		_ = conn.Close() // the listener is being closed
	}
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// add counts a new connection. Where the pool is full of connections that are too young to be
// evicted it waits, and new ones wait in the kernel's queue.
func (l *Connections) add(c *limitedConn, stop <-chan struct{}) bool {
	for {
		evict, wait, freed := l.tryAdd(c)
		if evict != nil {
			evict.shut()
			l.evicted()
		}
		if wait <= 0 {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-freed:
		case <-stop:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// tryAdd adds c, and returns which connection has to be closed for it; or, where there is no room yet, how long to
// wait. An address that has its share evicts its own oldest connection, and otherwise the oldest of all goes. Only
// those older than anonymousAge may be evicted.
func (l *Connections) tryAdd(c *limitedConn) (evict *limitedConn, wait time.Duration, freed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if peers := l.byPeer[c.peer]; peers != nil && peers.Len() >= l.perPeer {
		evict = oldEnough(peers, now)
	}
	if evict == nil && l.all.Len() >= l.anonymous {
		if evict = oldEnough(&l.all, now); evict == nil {
			oldest := l.all.Front().Value.(*limitedConn)
			if l.freed == nil {
				l.freed = make(chan struct{})
			}
			return nil, max(anonymousAge-now.Sub(oldest.since), time.Millisecond), l.freed
		}
	}
	if evict != nil {
		l.remove(evict)
	}
	c.since = now
	peers := l.byPeer[c.peer]
	if peers == nil {
		peers = list.New()
		l.byPeer[c.peer] = peers
	}
	c.inAll, c.inPeer = l.all.PushBack(c), peers.PushBack(c)
	return evict, 0, nil
}

// oldEnough is the oldest connection of a list that is not empty, if it may be evicted.
func oldEnough(conns *list.List, now time.Time) *limitedConn {
	if oldest := conns.Front().Value.(*limitedConn); now.Sub(oldest.since) >= anonymousAge {
		return oldest
	}
	return nil
}

// remove takes an anonymous connection out of the pool.
func (l *Connections) remove(c *limitedConn) {
	l.all.Remove(c.inAll)
	peers := l.byPeer[c.peer]
	peers.Remove(c.inPeer)
	if peers.Len() == 0 {
		delete(l.byPeer, c.peer)
	}
	c.inAll, c.inPeer = nil, nil
	if l.freed != nil {
		close(l.freed)
		l.freed = nil
	}
}

// promote makes an anonymous connection an authenticated one.
func (l *Connections) promote(c *limitedConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.known:
		return true
	case c.inAll == nil: // evicted or closed
		return false
	case l.known >= l.most:
		return false
	}
	l.remove(c)
	c.known = true
	l.known++
	return true
}

// gone takes a closed connection out of whichever count it is in; it may be called twice.
func (l *Connections) gone(c *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.inAll != nil {
		l.remove(c)
	}
	if c.known {
		c.known = false
		l.known--
	}
}

// counts are the connections there are now.
func (l *Connections) counts() (known, anonymous int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known, l.all.Len()
}

// limitedConn is one connection. The limiter's mutex guards what is not the net.Conn.
type limitedConn struct {
	net.Conn
	limiter *Connections
	peer    string
	since   time.Time
	known   bool

	inAll, inPeer *list.Element // nil unless anonymous
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.limiter.gone(c)
	return c.Conn.Close()
}

// shut ends the connection under its handler, which closes it when its read fails.
func (c *limitedConn) shut() { _ = c.Conn.Close() }

// Listener bounds the connections of ln.
func (l *Connections) Listener(ln net.Listener) net.Listener {
	return &limitedListener{Listener: ln, limiter: l, closed: make(chan struct{})}
}

// ConnContext puts the connection of a request into its context.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	for {
		switch c := conn.(type) {
		case *limitedConn:
			return context.WithValue(ctx, connKey{}, c)
		case interface{ NetConn() net.Conn }: // TLS
			conn = c.NetConn()
		default:
			return ctx
		}
	}
}
