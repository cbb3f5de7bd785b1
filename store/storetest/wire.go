package storetest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Wire carries a store's connections to its server. It freezes or cuts the committer's connection at a byte, as SIGSTOP
// or a broken network would, refuses connections, and discards answers.
type Wire struct {
	t        testing.TB
	listener net.Listener
	wg       sync.WaitGroup

	server string // path of the server's socket

	mu      sync.Mutex
	changed *sync.Cond
	conns   map[net.Conn]struct{}
	budget  int  // bytes a committer may still send; less than 0 is any number
	deaf    bool // answers to a committer are discarded
	all     bool // and those to any other client
	refuse  bool
}

// NewWire gives a DSN that leads to the same database through a Wire.
func NewWire(t testing.TB, dsn string) (*Wire, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "aqproxy") // short: a socket's path may have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	p := &Wire{t: t, server: filepath.Join(q.Get("host"), ".s.PGSQL.5432"), conns: map[net.Conn]struct{}{}, budget: -1}
	p.changed = sync.NewCond(&p.mu)
	if p.listener, err = net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432")); err != nil {
		t.Fatal(err)
	}
	p.wg.Go(p.accept)
	t.Cleanup(func() { p.close(); _ = os.RemoveAll(dir) })
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	return p, u.String()
}

func (p *Wire) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		var server net.Conn
		if !p.refuses() { // a store that is refused tries often; the server need not see that
			server, err = net.Dial("unix", p.server)
		}
		if server == nil || err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		refused := p.refuse
		if !refused {
			p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		}
		p.mu.Unlock()
		if refused {
			_, _ = client.Close(), server.Close()
			continue
		}
		p.wg.Go(func() { p.serve(client, server) })
	}
}

func (p *Wire) serve(client, server net.Conn) {
	defer p.end(client, server)
	first := make([]byte, 4096) // the startup message names the client
	n, err := client.Read(first)
	if err != nil {
		return
	}
	committer := bytes.Contains(first[:n], []byte("aqueduct commit"))
	if _, err := server.Write(first[:n]); err != nil {
		return
	}
	p.wg.Go(func() {
		defer p.end(client, server)
		_, _ = io.Copy(answers{client, p, committer}, server)
	})
	_, _ = io.Copy(requests{server, p, committer}, client)
}

func (p *Wire) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
	p.changed.Broadcast()
}

// requests passes on what the budget allows and waits for more.
type requests struct {
	net.Conn
	p         *Wire
	committer bool
}

func (r requests) Write(b []byte) (int, error) {
	sent := 0
	for sent < len(b) {
		n := len(b) - sent
		if r.committer {
			n = r.p.spend(r.Conn, n)
		}
		if n == 0 {
			return sent, net.ErrClosed
		}
		if _, err := r.Conn.Write(b[sent : sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// spend takes up to want bytes from the budget; 0 when the connection has ended.
func (p *Wire) spend(conn net.Conn, want int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.budget == 0 {
		if _, open := p.conns[conn]; !open {
			return 0
		}
		p.changed.Wait()
	}
	if p.budget > 0 {
		want = min(want, p.budget)
		p.budget -= want
		p.changed.Broadcast()
	}
	return want
}

type answers struct {
	net.Conn
	p         *Wire
	committer bool
}

func (a answers) Write(b []byte) (int, error) {
	a.p.mu.Lock()
	deaf := a.p.deaf && (a.committer || a.p.all)
	a.p.mu.Unlock()
	if deaf {
		return len(b), nil
	}
	return a.Conn.Write(b)
}

// Freeze passes that many more bytes of the committer, and then none.
func (p *Wire) Freeze(after int) { p.set(func() { p.budget = after }) }

// Thaw passes all bytes again.
func (p *Wire) Thaw() { p.set(func() { p.budget, p.deaf, p.all = -1, false, false }) }

// Mute discards the answers of the server to a committer.
func (p *Wire) Mute() { p.set(func() { p.deaf = true }) }

// MuteAll discards the answers of the server to any client.
func (p *Wire) MuteAll() { p.set(func() { p.deaf, p.all = true, true }) }

// Refuse ends every connection, and each new one, until Restore.
func (p *Wire) Refuse() {
	p.set(func() {
		p.refuse = true
		p.cutLocked()
	})
}

// Restore takes connections again.
func (p *Wire) Restore() { p.set(func() { p.refuse = false }) }

func (p *Wire) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse
}

func (p *Wire) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
	p.changed.Broadcast()
}

// Cut ends every connection; new ones can be made.
func (p *Wire) Cut() { p.set(p.cutLocked) }

func (p *Wire) cutLocked() {
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

func (p *Wire) close() {
	if err := p.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		p.t.Error(err)
	}
	p.Cut()
	p.wg.Wait()
}

// Spent waits until the committer has sent all it may.
func (p *Wire) Spent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.budget > 0 {
		p.changed.Wait()
	}
}
