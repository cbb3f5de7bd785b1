package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/server/limit"
)

// TestStreamHeaders: what proxies and clients need to see.
func TestStreamHeaders(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	r := h.open(h.request("POST", "/api/agui/chat", `{"messages":[{"id":"u1","role":"user","content":"hi"}]}`, "Accept-Encoding", "gzip"))
	frames := r.rest()
	started := typed(frames, "RUN_STARTED")
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
		"X-Content-Type-Options": "nosniff", "Content-Encoding": "",
		"X-Thread-Id": started.field("threadId"), "X-Run-Id": started.field("runId"),
	} {
		if got := r.resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if started.field("protocolVersion") != "1.0" || started.field("threadId") == "" {
		t.Errorf("%v", started)
	}
}

// TestHeartbeat: a silent stream sends comments.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	h := newEnvWith(t, waits(gate), plan{limits: limit.Limits{Heartbeat: 5 * time.Millisecond}})
	r := h.open(h.prompt("T", "R", "hi"))
	for r.comments < 3 {
		line, err := r.in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, ":") {
			r.comments++
		}
	}
	close(gate)
	if rest := r.rest(); rest[len(rest)-1].typ() != "RUN_FINISHED" {
		t.Errorf("%s", types(rest))
	}
}

// TestRetry: an EventSource gets a time to come back; a fetch does not.
func TestRetry(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	if got := h.do("POST", "/api/agui/chat", inputBody("T", "R", "hi")); strings.Contains(got.body, "retry:") {
		t.Error("a chat response with a retry")
	}
	if got := h.do("GET", "/api/runs/R/events", "", "Accept", "text/event-stream"); !strings.HasPrefix(got.body, "retry: ") {
		t.Errorf("%.40q", got.body)
	}
}

// TestDrain: streams are cut, not ended; nothing new is begun; the run is not lost.
func TestDrain(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	h := newEnv(t, waits(gate))
	r := h.open(h.prompt("T", "R", "hi"))
	if _, err := r.until(func(f frame) bool { return f.typ() == "TEXT_MESSAGE_END" }); err != nil {
		t.Fatal(err)
	}
	h.server.Drain()
	if _, err := r.until(func(frame) bool { return false }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a drained stream ends with %v; clients would take it for whole", err)
	}
	isProblem(t, h.do("POST", "/api/agui/chat", inputBody("T2", "R", "hi")), 503)
	if got := h.do("GET", "/readyz", ""); got.status != 503 {
		t.Errorf("readyz: %d", got.status)
	}
	if got := h.do("GET", "/healthz", ""); got.status != 200 {
		t.Errorf("healthz: %d", got.status)
	}
	if got := fields(t, h.do("GET", "/api/runs/R", "")); got["status"] != "RUNNING" {
		t.Errorf("the run: %v", got)
	}
}

// TestClientGone: the Turn goes on.
func TestClientGone(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	h := newEnv(t, waits(gate))
	r := h.open(h.prompt("T", "R", "hi"))
	if _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	r.close()
	close(gate)
	rest := h.open(h.request("GET", "/api/runs/R/events", "", "Accept", "text/event-stream")).rest()
	if rest[len(rest)-1].typ() != "RUN_FINISHED" || strings.Contains(rest[len(rest)-1].data, "cancelled") {
		t.Errorf("%v", rest[len(rest)-1])
	}
}

// TestOnLeave: with on_leave=cancel it does not.
func TestOnLeave(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, waits(nil), plan{bridge: bridge.Limits{LeaveGrace: time.Millisecond}})
	r := h.open(h.request("POST", "/api/agui/chat?on_leave=cancel", inputBody("T", "R", "hi")))
	if _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	r.close()
	<-h.ended // a reader that came before would hold the Turn
	rest := h.open(h.request("GET", "/api/runs/R/events", "", "Accept", "text/event-stream")).rest()
	if last := rest[len(rest)-1]; !strings.Contains(last.data, `"outcome":{"type":"cancelled"}`) {
		t.Errorf("%v", last)
	}
}

// TestCancel: idempotent, by either id, and an outcome of its own.
func TestCancel(t *testing.T) {
	t.Parallel()
	h := newEnv(t, waits(nil))
	r := h.open(h.prompt("T", "R", "hi"))
	if _, err := r.until(func(f frame) bool { return f.typ() == "TEXT_MESSAGE_END" }); err != nil {
		t.Fatal(err)
	}
	got := h.do("POST", "/api/runs/R/cancel", `{}`)
	if f := fields(t, got); got.status != 202 || f["runId"] != "R" || f["threadId"] != "T" {
		t.Errorf("%d %v", got.status, f)
	}
	rest := r.rest()
	if last := rest[len(rest)-1]; !strings.Contains(last.data, `"outcome":{"type":"cancelled"}`) {
		t.Errorf("%v", last)
	}
	if got := h.do("POST", "/api/runs/"+fields(t, got)["id"].(string)+"/cancel", `{}`); got.status != 202 {
		t.Errorf("again: %d", got.status)
	}
}

// TestSlowReader: who does not read is cut at the write deadline, and comes back with the
// last id it has: nothing is missing and nothing doubled.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	const pieces, size = 300, 10_000
	cut := make(chan struct{})
	h := newEnvWith(t, func(_ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
		say(event(&agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant}))
		for range pieces {
			say(event(&agui.TextMessageContent{MessageID: "m", Delta: strings.Repeat("x", size)}))
		}
		say(event(&agui.TextMessageEnd{MessageID: "m"}))
	}, plan{
		limits: limit.Limits{WriteTime: 500 * time.Millisecond},
		wrap:   func(l net.Listener) net.Listener { return &narrow{Listener: l, cut: cut} },
	})
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(h.prompt("T", "R", "hi"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	<-cut // by the server, while no client reads
	slow := newReader(t, resp)
	got, err := slow.until(func(frame) bool { return false })
	if err == nil || errors.Is(err, io.EOF) {
		t.Fatalf("cut, but it looks whole: %v", err)
	}
	last := "0"
	if len(got) > 0 {
		last = got[len(got)-1].id
	}
	got = append(got, h.open(h.request("GET", "/api/runs/R/events", "", "Accept", "text/event-stream", "Last-Event-ID", last)).rest()...)
	whole := h.open(h.request("GET", "/api/runs/R/events", "", "Accept", "text/event-stream")).rest()
	if len(whole) < pieces || chained([32]byte{}, got) != chained([32]byte{}, whole) {
		t.Errorf("%d events in two pieces, %d in one", len(got), len(whole))
	}
	if page := h.do("GET", "/metrics", "").body; !strings.Contains(page, `aqueduct_streams_total{outcome="slow"} 1`) {
		t.Error("the cut is not counted")
	}
}

// narrow is a listener whose first connection holds little, so that its reader is soon
// noticed not to read. cut is closed when the server closes that connection.
type narrow struct {
	net.Listener
	first sync.Once
	cut   chan struct{}
}

func (n *narrow) Accept() (c net.Conn, err error) {
	c, err = n.Listener.Accept()
	if err != nil {
		return nil, err
	}
	n.first.Do(func() {
		err = c.(*net.TCPConn).SetWriteBuffer(4096)
		c = &narrowConn{Conn: c, cut: n.cut}
	})
	return c, err
}

type narrowConn struct {
	net.Conn
	once sync.Once
	cut  chan struct{}
}

func (c *narrowConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.cut) })
	return err
}
