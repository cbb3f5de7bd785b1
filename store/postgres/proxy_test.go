package postgres_test

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

// proxy stands between a store and its server and lets a test freeze or cut the
// committer's connection at a byte, as SIGSTOP or a broken network would.
type proxy struct {
	t        testing.TB
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	server  string // path of the server's socket
	changed *sync.Cond
	conns   map[net.Conn]struct{}
	budget  int  // bytes a committer may still send; less than 0 is any number
	deaf    bool // answers to a committer are thrown away
}

// proxied gives a DSN that leads to the same database through a proxy.
func proxied(t testing.TB, dsn string) (*proxy, string) {
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
	p := &proxy{t: t, server: filepath.Join(q.Get("host"), ".s.PGSQL.5432"), conns: map[net.Conn]struct{}{}, budget: -1}
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

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		path := p.server
		p.mu.Unlock()
		server, err := net.Dial("unix", path)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() { p.serve(client, server) })
	}
}

func (p *proxy) serve(client, server net.Conn) {
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

func (p *proxy) end(conns ...net.Conn) {
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
	p         *proxy
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
func (p *proxy) spend(conn net.Conn, want int) int {
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
	p         *proxy
	committer bool
}

func (a answers) Write(b []byte) (int, error) {
	a.p.mu.Lock()
	deaf := a.p.deaf && a.committer
	a.p.mu.Unlock()
	if deaf {
		return len(b), nil
	}
	return a.Conn.Write(b)
}

// freeze lets the committer send so many bytes more and then stands still.
func (p *proxy) freeze(after int) { p.set(func() { p.budget = after }) }

// thaw lets everything pass again.
func (p *proxy) thaw() { p.set(func() { p.budget, p.deaf = -1, false }) }

// mute throws away what the server answers to a committer.
func (p *proxy) mute() { p.set(func() { p.deaf = true }) }

func (p *proxy) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
	p.changed.Broadcast()
}

// cut ends every connection; new ones can be made.
func (p *proxy) cut() {
	p.set(func() {
		for c := range p.conns {
			_ = c.Close()
			delete(p.conns, c)
		}
	})
}

func (p *proxy) close() {
	if err := p.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		p.t.Error(err)
	}
	p.cut()
	p.wg.Wait()
}

// spent waits until the committer has sent all it may.
func (p *proxy) spent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.budget > 0 {
		p.changed.Wait()
	}
}
