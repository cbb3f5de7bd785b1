package acpgateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/wake"
)

// Codes links are closed with. 1008 is what the contract has for a token that is refused.
const (
	closeRefused  = websocket.ClosePolicyViolation
	closeReplaced = 4001 // a newer connection of the same proxy has come
	closeOccupied = 4009 // another proxy is connected under this id
)

// link is one connection of a proxy.
//
// Two goroutines: the request's own reads and hands each frame on, another writes. Either ends the other through end,
// whose cause becomes the close frame's code.
type link struct {
	g    *Gateway
	conn *websocket.Conn
	who  Identity
	p    *proxy // once it has registered
	end  context.CancelCauseFunc

	mu     sync.Mutex
	urgent []wire.Frame     // not counted: sent on this link or never
	acks   map[string]int64 // to be sent, by run
	bell   wake.Signal

	signs wake.Signal // the proxy sent something
}

// ServeHTTP takes one proxy's connection and returns when it has ended.
// The token is looked at after the upgrade, because the contract answers a refused one with a close frame (1008),
// which a proxy distinguishes from a server that is down.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-g.began:
	case <-r.Context().Done():
		return
	}
	ctx, ok := g.running()
	if !ok {
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	}
	defer g.wg.Done()
	conn, err := g.up.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer conn.Close()
	who, err := g.cfg.Authenticate(r)
	if err != nil {
		g.countRefused(refusedToken)
		if g.once.first("token " + who.ProxyID + " " + err.Error()) {
			g.log.Warn("a proxy's token was refused; more like it are only counted",
				slog.String("proxy", who.ProxyID), slog.String("remote", r.RemoteAddr), slog.Any("error", err))
		}
		writeClose(conn, closeRefused, "Unauthorized")
		return
	}
	ctx, stop := g.untilRevoked(ctx, who)
	defer stop()
	g.serve(ctx, &link{g: g, conn: conn, who: who, acks: make(map[string]int64), bell: wake.New(), signs: wake.New()})
}

// untilRevoked ends the context when the proxy's token is revoked or expires, as if the server had refused it. A proxy that
// has renewed its token links again with the new one.
// Watch gets a context without the link's cancel: the registry's watch is released by us, not by the request's end.
func (g *Gateway) untilRevoked(ctx context.Context, who Identity) (context.Context, func()) {
	if g.cfg.Watch == nil || who.CredentialID == "" {
		return ctx, func() {}
	}
	ctx, end := context.WithCancelCause(ctx)
	watched, release := g.cfg.Watch(context.WithoutCancel(ctx), who)
	over := func() {
		g.countRefused(refusedToken)
		end(&closeReason{closeRefused, "Unauthorized"})
	}
	stop := context.AfterFunc(watched, over)
	var ends *time.Timer
	if !who.Until.IsZero() {
		ends = time.AfterFunc(time.Until(who.Until), over)
	}
	return ctx, func() {
		stop()
		if ends != nil {
			ends.Stop()
		}
		release()
		end(nil)
	}
}

func writeClose(conn *websocket.Conn, code int, text string) {
	// It may be gone already.
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(time.Second))
}

// closeReason is why a link is ended by us.
type closeReason struct {
	code int
	text string
}

func (bye *closeReason) Error() string { return bye.text }

// serve runs a link: this goroutine reads, another writes.
// The writer closes the socket, also when the reader ended first: gorilla's read does not look at a context.
func (g *Gateway) serve(ctx context.Context, l *link) {
	ctx, l.end = context.WithCancelCause(ctx)
	defer l.end(nil)
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.end(l.write(ctx))
		bye := &closeReason{websocket.CloseGoingAway, "going away"}
		_ = errors.As(context.Cause(ctx), &bye)
		writeClose(l.conn, bye.code, bye.text)
		_ = l.conn.Close() // ends the reader, which knows no context
	}()
	l.end(l.read(ctx))
	<-written
	if p := l.proxy(); p != nil {
		p.unlinked(l, context.Cause(ctx))
	}
}

// read takes frames until the link ends.
func (l *link) read(ctx context.Context) error {
	l.conn.SetReadLimit(frameBytes)
	// Before it has registered a peer gets ten seconds; then any sign of life within three heartbeats keeps the link.
	patience := registerWait
	alive := func() error { return l.conn.SetReadDeadline(time.Now().Add(patience)) }
	l.conn.SetPongHandler(func(string) error {
		l.signs.Ring()
		return alive()
	})
	ping := l.conn.PingHandler()
	l.conn.SetPingHandler(func(data string) error {
		l.signs.Ring()
		return errors.Join(alive(), ping(data))
	})
	for {
		if err := alive(); err != nil {
			return err
		}
		// The contract has text frames only; a binary one may be another protocol's and does not end the link.
		kind, data, err := l.conn.ReadMessage()
		if err != nil {
			return err
		}
		l.signs.Ring()
		if kind != websocket.TextMessage {
			l.g.countRefused(refusedMalformed)
			continue
		}
		if err := l.receive(ctx, data); err != nil {
			return err
		}
		if l.proxy() != nil {
			patience = 3 * l.g.cfg.Limits.Heartbeat
		}
	}
}

// probeWait is how long the other end of a link may take to show that it is there.
const probeWait = 2 * time.Second

// isAlive reports whether the other end still answers: a ping is answered, or any frame comes. A link whose cable was cut
// stays open here for as long as three heartbeats.
func (l *link) isAlive(ctx context.Context) bool {
	l.signs.Clear()
	if err := l.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(probeWait)); err != nil {
		return false
	}
	timer := time.NewTimer(probeWait)
	defer timer.Stop()
	select {
	case <-l.signs:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// write is the only writer of frames: acks and what is urgent, then the proxy's outbox.
// The pings go by WriteControl, which may be called beside WriteMessage, so that isAlive can use it too.
func (l *link) write(ctx context.Context) error {
	ping := time.NewTicker(l.g.cfg.Limits.Heartbeat)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ping.C:
			if err := l.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeWait)); err != nil {
				return err
			}
		case <-l.bell:
			if err := l.flush(); err != nil {
				return err
			}
		}
	}
}

// flush writes all there is. The outbox counts as the proxy's only while this link is its.
//
// Acks go before the outbox: they let the proxy forget frames.
func (l *link) flush() error {
	for {
		urgent, acks := l.takeUrgent()
		for _, f := range urgent {
			if err := l.writeFrame(f); err != nil {
				return err
			}
		}
		for run, seq := range acks {
			if err := l.writeFrame(&wire.Ack{RunID: run, Seq: seq}); err != nil {
				return err
			}
		}
		p := l.proxy()
		if p == nil {
			return nil
		}
		letter, body, ok := p.take(l)
		if !ok {
			return nil
		}
		if err := l.writeText(body); err != nil {
			// The socket failed before the frame was out. It goes first on the next link.
			p.out.PutBack(letter)
			return err
		}
	}
}

// proxy is who has registered on this link; nil before.
func (l *link) proxy() *proxy {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.p
}

func (l *link) takeUrgent() ([]wire.Frame, map[string]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	urgent := l.urgent
	l.urgent = nil
	if len(l.acks) == 0 {
		return urgent, nil // the map stays the reader's to write to
	}
	acks := l.acks
	l.acks = make(map[string]int64)
	return urgent, acks
}

func (l *link) writeFrame(f wire.Frame) error {
	body, err := wire.Encode(f)
	if err != nil {
		return err
	}
	return l.writeText(body)
}

func (l *link) writeText(body []byte) error {
	if err := l.conn.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return err
	}
	return l.conn.WriteMessage(websocket.TextMessage, body)
}

// now sends a frame that is worth nothing later.
func (l *link) sendUrgent(f wire.Frame) {
	l.mu.Lock()
	l.urgent = append(l.urgent, f)
	l.mu.Unlock()
	l.bell.Ring()
}

// ack sends the number up to which a run's frames are committed; several before the next write are one.
func (l *link) ack(run string, seq int64) {
	l.mu.Lock()
	l.acks[run] = max(l.acks[run], seq)
	l.mu.Unlock()
	l.bell.Ring()
}
