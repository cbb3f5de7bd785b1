package server_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/server/limit"
)

// lazyListener gives connections to a client that, when lazy, takes the next write only
// after some time.
type lazyListener struct {
	net.Listener
	lazy *atomic.Bool
	late time.Duration
}

func (l *lazyListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &lazyConn{Conn: conn, l: l}, err
}

type lazyConn struct {
	net.Conn
	l *lazyListener
}

func (c *lazyConn) Write(p []byte) (int, error) {
	if c.l.lazy.CompareAndSwap(true, false) {
		<-time.After(c.l.late)
	}
	return c.Conn.Write(p)
}

// TestIngressSlowClient: one that takes too long is closed with a code, and comes back with
// its last_seq; nothing is lost.
func TestIngressSlowClient(t *testing.T) {
	t.Parallel()
	const patience = 200 * time.Millisecond
	var lazy atomic.Bool
	gate := make(chan struct{})
	h := newEnvWith(t, func(ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
		saysN(1)(ctx, say, call, answers)
		<-gate
		say(texts("m2", "more")...)
	}, plan{limits: limit.Limits{WriteTime: patience}, wrap: func(l net.Listener) net.Listener {
		return &lazyListener{l, &lazy, patience + patience/2}
	}})
	ch := h.channel("")
	ch.invoke("r1", "s1", "hi")
	all := ch.until("delta")
	lazy.Store(true)
	close(gate)
	var err error
	for err == nil {
		var m channelMessage
		if m, err = ch.read(); err == nil {
			all = append(all, m)
		}
	}
	if !websocket.IsCloseError(err, websocket.CloseTryAgainLater) || !strings.Contains(err.Error(), "too_slow") {
		t.Error(err)
	}
	back := h.channel(`,"session_id":"s1","last_seq":` + strconv.FormatInt(last(all).Seq, 10))
	if last(all).Type != "done" {
		all = append(all, back.until("done")...)
	}
	if got := gist(all); got != "run_started | state RUNNING | delta 0 <é&> | delta more | state DONE | done" {
		t.Error(got)
	}
}

// TestIngressDeadClient: a client that reads nothing is cut, and delays no other.
func TestIngressDeadClient(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 256<<10)
	h := newEnvWith(t, func(_ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
		for range 40 { // more than the buffers between here and there hold
			say(texts("m", text)...)
		}
	}, plan{limits: limit.Limits{WriteTime: time.Second}})
	ch := h.channel("")
	ch.invoke("r1", "s1", "hi")
	dead := h.channel(`,"last_seq":{"s1":0}`) // never reads
	n := 0
	for _, m := range ch.until("done") {
		n += len(m.Text)
	}
	if n != 40*len(text) {
		t.Errorf("%d bytes", n)
	}
	_ = dead
	h.server.Drain() // which waits for every socket
}
