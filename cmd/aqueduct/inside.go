// The way to the agents that come with the program: connections in memory. They have no port, so no other program calls them,
// and all that their handlers read was bounded by this server.

package main

import (
	"context"
	"net"
	"net/http"
	"sync"

	"aqueduct/internal/app"
)

// inside is a listener that only this process reaches.
type inside struct {
	name   string
	dialed chan net.Conn
	closed chan struct{}
	close  func()
}

func newInside(name string) *inside {
	closed := make(chan struct{})
	return &inside{name: name, dialed: make(chan net.Conn), closed: closed, close: sync.OnceFunc(func() { close(closed) })}
}

// Accept implements net.Listener.
func (l *inside) Accept() (net.Conn, error) {
	select {
	case conn := <-l.dialed:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *inside) Close() error {
	l.close()
	return nil
}

// Addr implements net.Listener.
func (l *inside) Addr() net.Addr { return l }

// Network implements net.Addr.
func (l *inside) Network() string { return "inside" }

// String implements net.Addr.
func (l *inside) String() string { return l.name }

// dial is the DialContext of a transport: whatever the address, it connects to this listener.
func (l *inside) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.dialed <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ownAgent is an agent that comes with the program. It is called as any HTTP agent is, with the same limits, so it shows what any
// agent can do.
func ownAgent(id string, handler http.Handler) (agentFlag, app.Part) {
	ln := newInside(id)
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTime}
	client := &http.Client{
		Transport:     &http.Transport{DialContext: ln.dial, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	// A name below .invalid resolves nowhere (RFC 6761), should the URL ever be called by another client.
	flag := agentFlag{id: id, url: "http://" + id + ".invalid", inside: client}
	// Nothing has to be cut at the end: its streams are calls of this server, which ends before this part does.
	return flag, app.Part{Name: "agent " + id + ", served here", Run: serveUntilDone(srv, func() {}, ln)}
}
