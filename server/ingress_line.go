package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/agui"
)

const (
	// lineFrame is the largest message that is read. A larger one is skipped and said to be
	// too large; one past lineMost is not even skipped.
	lineFrame = 1 << 20
	lineMost  = 16 << 20
)

// line is a WebSocket that talks both ways: one reader, any number of writers. Nothing
// waits in it. A writer waits for its client, so what is told to one that does not keep up
// stays in the log, and the client comes back for it.
type line struct {
	conn   *websocket.Conn
	limits Limits
	ctx    context.Context // ends when the line does
	cancel context.CancelFunc
	tasks  sync.WaitGroup // of this line; they end with ctx

	writing sync.Mutex

	mu   sync.Mutex
	done bool
	code int
	why  string
}

// openLine makes the request a WebSocket.
func openLine(c echo.Context, limits Limits) (*line, error) {
	conn, err := upgrader().Upgrade(c.Response(), c.Request(), nil)
	if err != nil {
		return nil, refuse(codeUpgrade, "")
	}
	l := &line{conn: conn, limits: limits}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// upgrades refuses a request that is none for a WebSocket.
func upgrades(r *http.Request) error {
	if !websocket.IsWebSocketUpgrade(r) {
		return refuse(codeUpgrade, "")
	}
	return nil
}

// serve reads until the line ends, and ends it when the server goes away. When it returns,
// nothing of the line runs any more.
func (l *line) serve(draining context.Context, read func()) {
	l.tasks.Go(func() {
		defer l.end(websocket.CloseNormalClosure, "")
		read()
	})
	leave := context.AfterFunc(draining, func() {
		l.end(websocket.CloseGoingAway, codeShuttingDown)
		_ = l.conn.NetConn().SetWriteDeadline(time.Now()) // ends a write that a slow client holds up
	})
	defer leave()
	l.ping()
	l.goodbye()
	l.tasks.Wait()
}

// remote is the address of the peer.
func (l *line) remote() string { return l.conn.RemoteAddr().String() }

// goodbye sends the close frame of a line that has ended, and closes the connection, which ends
// the reader.
func (l *line) goodbye() {
	l.mu.Lock()
	code, why := l.code, l.why
	l.mu.Unlock()
	_ = l.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, why), time.Now().Add(goodbyeTime))
	_ = l.conn.Close()
}

// end ends the line with a close code. The first reason counts.
func (l *line) end(code int, why string) {
	l.mu.Lock()
	if !l.done {
		l.done, l.code, l.why = true, code, why
	}
	l.mu.Unlock()
	l.cancel()
}

// endAt ends the line when the credential ends that opened it; zero is never.
func (l *line) endAt(until time.Time) {
	if until.IsZero() {
		return
	}
	timer := time.AfterFunc(time.Until(until), func() { l.end(websocket.ClosePolicyViolation, codeUnauthorized) })
	context.AfterFunc(l.ctx, func() { timer.Stop() })
}

// endWith ends the line when the context of its Caller does: the credential was revoked.
func (l *line) endWith(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		l.end(websocket.ClosePolicyViolation, codeUnauthorized)
		_ = l.conn.NetConn().SetWriteDeadline(time.Now().Add(goodbyeTime)) // for the goodbye, not for a client that reads slowly
	})
	context.AfterFunc(l.ctx, func() { stop() })
}

// ping keeps the line open, both ways, until it ends.
func (l *line) ping() {
	tick := time.NewTicker(l.limits.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if l.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(l.limits.WriteTime)) != nil {
				l.end(websocket.CloseNormalClosure, "")
			}
		case <-l.ctx.Done():
			return
		}
	}
}

// alive gives the client time until the pong after next.
func (l *line) alive() error {
	return l.conn.SetReadDeadline(time.Now().Add(2*l.limits.Heartbeat + l.limits.WriteTime))
}

// read hears every message until the client leaves or stops answering. heard gets nil for
// one that is too large.
func (l *line) read(heard func(raw []byte) error) error {
	l.conn.SetReadLimit(lineMost)
	l.conn.SetPongHandler(func(string) error { return l.alive() })
	for {
		if err := l.alive(); err != nil {
			return err
		}
		raw, err := l.next()
		if err == nil {
			err = heard(raw)
		}
		if err != nil {
			return err
		}
	}
}

// next is the next message, nil when it is too large. One that is empty is not nil.
func (l *line) next() ([]byte, error) {
	_, r, err := l.conn.NextReader()
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(r, lineFrame+1))
	if err != nil || len(raw) <= lineFrame {
		return raw, err
	}
	_, err = io.Copy(io.Discard, r)
	return nil, err
}

// send writes one message. A client that takes it late is told to come back later; one
// that does not take it at all is cut.
func (l *line) send(v any) error {
	return l.locked(func() (any, error) { return v, nil })
}

// locked is send for a message that is made when nobody else writes; nil sends none.
func (l *line) locked(message func() (any, error)) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	v, err := message()
	if v == nil || err != nil {
		return err
	}
	raw, err := plainText(v)
	if err != nil {
		return err
	}
	begun := time.Now()
	_ = l.conn.SetWriteDeadline(begun.Add(2 * l.limits.WriteTime))
	if err := l.ctx.Err(); err != nil {
		return err
	}
	switch err = l.conn.WriteMessage(websocket.TextMessage, raw); {
	case err != nil:
		l.end(websocket.CloseTryAgainLater, codeTooSlowReader) // which it hears if it is only slow
	case time.Since(begun) > l.limits.WriteTime:
		l.end(websocket.CloseTryAgainLater, codeTooSlowReader)
		err = l.ctx.Err()
	}
	return err
}

// codeTooSlowReader is the reason of the close frame for a client that does not keep up.
const codeTooSlowReader = "too_slow"

// plainText is JSON without rewriting <, > and &.
func plainText(v any) ([]byte, error) {
	var out lineBuffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return out, err
}

type lineBuffer []byte

func (b *lineBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// message reads one message into v and checks v's rules. Unknown members are no fault.
func (in *intake) message(raw []byte, v any) error {
	if raw == nil {
		return refuse(codeTooLarge, "A message may have 1048576 bytes.")
	}
	if err := agui.CheckJSON(raw, agui.MaxJSONDepth); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		var input *agui.InputError
		if errors.As(err, &input) {
			return err
		}
		return refuse(codeInvalidBody, "The message is not an object of its type.")
	}
	return in.check(v, codeInvalidBody)
}
