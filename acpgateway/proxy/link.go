package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"

	"aqueduct/acpgateway/seqlink"
	"aqueduct/acpgateway/wire"
)

const (
	dialTimeout  = 15 * time.Second
	writeTimeout = 30 * time.Second
	// ackWait is how long frames wait for register_ack, which decides whether they are counted. A
	// gateway that never sends it gets them as the contract has them.
	ackWait = 10 * time.Second
	// inBytes bounds one message of the gateway; a prompt may hold images.
	inBytes = 64 << 20
	// silences is how many heartbeats without a sign of life make a link dead.
	silences = 3

	// lastRead is how long a connection that cannot be written is still read: the gateway's close frame, which has the
	// reason, may lie in its buffer.
	lastRead = time.Second

	pauseFirst = 300 * time.Millisecond
	pauseMost  = 10 * time.Second
)

// link is the proxy's end of the link to the gateway: it connects, registers, sends and acknowledges, and connects
// again when the connection breaks. Frames of runs are counted and survive a broken connection; urgent ones do not.
// Any goroutine may send; one goroutine runs it, and each connection has one writer and one reader.
//
// Frames of runs are numbered and kept in the outbox until the gateway acknowledges them, which it does when they are
// committed. So a frame that was written into a socket that broke, or to a gateway that was killed, is sent again.
// Heartbeats and lists are urgent: they are of use at once or not at all.
type link struct {
	cfg  Config
	log  *slog.Logger
	host linkHost

	out    *seqlink.Outbox
	urgent chan wire.Frame             // not counted: sent on this connection or never
	offers atomic.Pointer[wire.Offers] // of the gateway on the connection
	shown  atomic.Pointer[string]      // the token of the last connection
	// refused is the last token that the gateway did not take; from then on tokens are got by registering.
	refused atomic.Pointer[string]

	mu     sync.Mutex
	latest string           // the newest token
	late   bool             // its end was warned of
	seen   map[string]int64 // numbers of the gateway's frames that were handled, by run
	peer   string           // the gateway's epoch they belong to
}

// linkHost is what the link needs of the proxy: what to announce, and where frames go.
type linkHost interface {
	info(behind map[string]int64) (wire.ProxyInfo, error)
	inventories() []wire.Frame
	list()
	handle(wire.Frame)
}

// urgentFrames is how many uncounted frames may wait; more are dropped, they are repeated.
const urgentFrames = 256

func newLink(cfg Config, host linkHost) *link {
	l := &link{cfg: cfg, log: cfg.Log, host: host, out: seqlink.NewOutbox(), urgent: make(chan wire.Frame, urgentFrames), seen: map[string]int64{}}
	l.offers.Store(&wire.Offers{})
	return l
}

// run connects, and connects again.
// The pause grows to ten seconds and begins anew after a connection that held.
func (l *link) run(ctx context.Context) {
	pause := pauseFirst
	for ctx.Err() == nil {
		began := time.Now()
		err := l.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		// A connection that lived longer than the longest pause counts as one that held. One that the gateway ends
		// right after the handshake must not begin the pauses anew, or the two would meet several times a second.
		if time.Since(began) > pauseMost {
			pause = pauseFirst
		}
		l.log.Warn("no link to the gateway", "err", err, "again_in", pause)
		// Spread, or all proxies of a gateway that restarts come back in the same moment.
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, pauseMost)
	}
}

// connect is one connection from its beginning to its end.
// The three goroutines end each other through the group's context; the close frame shows the gateway that this is no
// broken cable. A gateway that refuses the token closes while this end still writes: the write fails, mostly before the
// close frame is read. So the writer's error counts only when the reader has none.
func (l *link) connect(ctx context.Context) error {
	conn, err := l.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer l.out.Detach()
	g, ctx := errgroup.WithContext(ctx)
	registered := make(chan struct{}, 1)
	ended := make(chan error, 1) // the reader, and why
	g.Go(func() error {
		err := l.read(conn, registered)
		ended <- err
		return err
	})
	g.Go(func() error {
		err := l.write(ctx, conn, registered)
		last := time.NewTimer(lastRead)
		defer last.Stop()
		select {
		case reason := <-ended:
			return reason
		case <-last.C:
		case <-ctx.Done():
		}
		return err
	})
	g.Go(func() error { // ends the reader, which knows no context
		<-ctx.Done()
		bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = conn.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second)) // it may be gone
		return conn.Close()
	})
	return g.Wait()
}

// token is the one to connect with.
// A token that was refused is not shown again and again: from then on one is got by registering, where that is
// configured.
func (l *link) token(ctx context.Context) (token string, err error) {
	if refused := l.refused.Load(); refused != nil && l.cfg.Register != nil {
		token, err = l.cfg.Register(ctx, *refused)
	} else {
		token, err = l.cfg.Token(ctx)
	}
	// The refusal may come as a close frame after the handshake (read), when the token is not at hand any more.
	l.shown.Store(&token)
	if err == nil && l.cfg.Renews {
		l.noteToken(token)
	}
	return token, err
}

// dial opens the WebSocket with the token in a header, never in the address, which proxies and servers write into
// their logs. A 401 marks the token as refused, so that the next attempt registers for a new one.
func (l *link) dial(ctx context.Context) (*websocket.Conn, error) {
	token, err := l.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	dialer := websocket.Dialer{HandshakeTimeout: dialTimeout, Proxy: http.ProxyFromEnvironment}
	conn, resp, err := dialer.DialContext(ctx, l.cfg.URL, http.Header{"Authorization": {"Bearer " + token}}) //nolint:bodyclose // a handshake's response has no body to close
	if err != nil {
		if resp != nil {
			if resp.StatusCode == http.StatusUnauthorized {
				l.refused.Store(&token)
			}
			err = fmt.Errorf("%w: HTTP %s", err, resp.Status)
		}
		return nil, err
	}
	return conn, nil
}

// flush gives the last frames a moment; they are not worth more.
// It looks and does not wait to be notified, as it happens once, at the end.
func (l *link) flush() {
	deadline := time.After(flushGrace)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !l.out.Written() {
		select {
		case <-tick.C:
		case <-deadline:
			return
		}
	}
}

// send queues a frame of a run. It reports whether the frame was small enough to go.
// A frame that is too large cannot be cut here without changing what the agent wrote; its sender reports it in the
// chat.
func (l *link) send(runID string, f wire.Frame) bool {
	body, err := wire.Encode(f)
	if err != nil {
		l.log.Error("a message could not be written", "type", f.Type(), "err", err)
		return false
	}
	if len(body) > frameBytes {
		// The gateway would cut the link over it, again and again.
		l.log.Warn("a message is too large for the gateway", "type", f.Type(), "run", runID, "bytes", len(body))
		return false
	}
	l.out.Put(runID, body)
	return true
}

// sendNow queues a frame that is of no use on a later connection.
func (l *link) sendNow(f wire.Frame) {
	select {
	case l.urgent <- f:
	default:
	}
}
