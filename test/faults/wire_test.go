package faults_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// wire is the network between a proxy and the server: one address, whose other end may move,
// and which may be cut.
type wire struct {
	ln net.Listener

	mu    sync.Mutex
	to    string // "" while it is cut
	conns map[net.Conn]bool
	all   sync.WaitGroup
}

func newWire(t testing.TB) *wire {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{ln: ln, conns: make(map[net.Conn]bool)}
	w.all.Go(w.serve)
	t.Cleanup(func() {
		_ = ln.Close()
		w.cut()
		w.all.Wait()
	})
	return w
}

func (w *wire) serve() {
	for {
		near, err := w.ln.Accept()
		if err != nil {
			return // the test is over
		}
		w.all.Go(func() { w.carry(near) })
	}
}

// carry joins two connections until one ends or the wire is cut.
func (w *wire) carry(near net.Conn) {
	defer w.drop(near)
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	if to == "" {
		return
	}
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer w.drop(far)
	if !w.hold(to, near, far) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		w.drop(near)
	})
	_, _ = io.Copy(far, near)
	w.drop(far)
	back.Wait()
}

// hold notes connections, unless the wire was cut or moved meanwhile.
func (w *wire) hold(to string, conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.to != to {
		return false
	}
	for _, c := range conns {
		w.conns[c] = true
	}
	return true
}

func (w *wire) drop(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
	_ = c.Close()
}

// join lets the wire lead to an address.
func (w *wire) join(to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
}

// cut drops all connections, with what is on its way, and takes no more.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = ""
	for c := range w.conns {
		_ = c.(*net.TCPConn).SetLinger(0) // what is buffered is lost, as on a real wire
		_ = c.Close()
	}
	clear(w.conns)
}
