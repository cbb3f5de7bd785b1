// Package wsconn is the one WebSocket connection that the socket handlers of the edge share.
package wsconn

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/server/limit"
	"aqueduct/server/problem"
)

const (
	// maxMessage is the largest message that is read. A larger one is skipped and answered with an error; one past maxSkipped
	// ends the connection.
	maxMessage = 1 << 20
	maxSkipped = 16 << 20
	// maxReason is the room for a reason in a close frame (RFC 6455 §5.5).
	maxReason = 123
)

// Conn is the one WebSocket of the edge, for both directions: one reader, any number of writers. It buffers nothing.
// A writer waits for its client, so what a slow client does not take stays in the log, and the client comes back for
// it. Serve's goroutine sends the pings and the close frame; every task ends with Ctx. writing serializes messages,
// mu guards why the connection ended. Its end always has one reason, the first that was given to End.
type Conn struct {
	ws     *websocket.Conn
	Limits limit.Limits
	Ctx    context.Context // ends when the line does
	cancel context.CancelFunc
	Tasks  sync.WaitGroup // of this line; they end with ctx

	writing sync.Mutex

	mu   sync.Mutex
	done bool
	code int
	why  string
}

// early is the key of echo's context under which Early leaves its Conn.
const early = "aqueduct.socket"

// Early makes the request a WebSocket before its handler does, which gets this one by Open.
func Early(c echo.Context, limits limit.Limits) (*Conn, error) {
	conn, err := Open(c, limits)
	if err == nil {
		c.Set(early, conn)
	}
	return conn, err
}

// Open makes the request a WebSocket.
func Open(c echo.Context, limits limit.Limits) (*Conn, error) {
	if conn, ok := c.Get(early).(*Conn); ok {
		return conn, nil
	}
	conn, err := upgrader().Upgrade(c.Response(), c.Request(), nil)
	if err != nil {
		return nil, problem.Refuse(problem.Upgrade, "")
	}
	l := &Conn{ws: conn, Limits: limits}
	l.Ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// Refuse accepts the WebSocket only to close it with a code and a reason, because a page gets no reason for a failed
// handshake. It truncates a reason that is too long for a close frame.
func Refuse(c echo.Context, code int, why string) error {
	conn, err := upgrader().Upgrade(c.Response(), c.Request(), nil)
	if err != nil {
		return err
	}
	refuse(conn, code, why)
	return nil
}

// Refuse is the function Refuse for a line that Early has opened and no handler serves.
func (c *Conn) Refuse(code int, why string) {
	c.End(code, why)
	refuse(c.ws, code, why)
}

// refuse sends a close frame and waits for the page's own. Otherwise later frames of the page would reset the connection before
// the page has read ours.
func refuse(conn *websocket.Conn, code int, why string) {
	defer conn.Close()
	deadline := time.Now().Add(goodbyeTime)
	err := conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, why[:min(len(why), maxReason)]), deadline)
	_ = conn.SetReadDeadline(deadline)
	conn.SetReadLimit(maxReason)
	for err == nil {
		_, _, err = conn.ReadMessage()
	}
}

// CheckUpgrade refuses a request that is none for a WebSocket.
func CheckUpgrade(r *http.Request) error {
	if !websocket.IsWebSocketUpgrade(r) {
		return problem.Refuse(problem.Upgrade, "")
	}
	return nil
}

// Serve reads until the line ends, and ends it when the server goes away. When it returns,
// nothing of the line runs any more.
func (c *Conn) Serve(draining context.Context, read func()) {
	c.Tasks.Go(func() {
		defer c.End(websocket.CloseNormalClosure, "")
		read()
	})
	leave := context.AfterFunc(draining, func() {
		c.End(websocket.CloseGoingAway, limit.ShuttingDown)
		_ = c.ws.NetConn().SetWriteDeadline(time.Now()) // ends a write that a slow client holds up
	})
	defer leave()
	c.keepAlive()
	c.Goodbye()
	c.Tasks.Wait()
}

// Remote is the address of the peer.
func (c *Conn) Remote() string { return c.ws.RemoteAddr().String() }

// Goodbye sends the close frame of a line that has ended, and closes the connection, which ends
// the reader.
func (c *Conn) Goodbye() {
	c.mu.Lock()
	code, why := c.code, c.why
	c.mu.Unlock()
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, why), time.Now().Add(goodbyeTime))
	_ = c.ws.Close()
}

// End ends the line with a close code. The first reason counts.
func (c *Conn) End(code int, why string) {
	c.mu.Lock()
	if !c.done {
		c.done, c.code, c.why = true, code, why
	}
	c.mu.Unlock()
	c.cancel()
}

// Cut ends a line that nothing serves yet: its reader gets an error.
func (c *Conn) Cut() {
	c.End(websocket.CloseTryAgainLater, limit.TooManyStreams)
	_ = c.ws.NetConn().SetReadDeadline(time.Now())
}

// EndAt ends the line when the credential ends that opened it; zero is never.
func (c *Conn) EndAt(until time.Time) {
	if until.IsZero() {
		return
	}
	timer := time.AfterFunc(time.Until(until), func() { c.End(websocket.ClosePolicyViolation, problem.Unauthorized) })
	context.AfterFunc(c.Ctx, func() { timer.Stop() })
}

// EndWith ends the line when the context of its Caller does: the credential was revoked.
func (c *Conn) EndWith(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		c.End(websocket.ClosePolicyViolation, problem.Unauthorized)
		_ = c.ws.NetConn().SetWriteDeadline(time.Now().Add(goodbyeTime)) // for the goodbye, not for a client that reads slowly
	})
	context.AfterFunc(c.Ctx, func() { stop() })
}

// keepAlive sends pings until the connection ends.
func (c *Conn) keepAlive() {
	tick := time.NewTicker(c.Limits.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if c.Ping() != nil {
				c.End(websocket.CloseNormalClosure, "")
			}
		case <-c.Ctx.Done():
			return
		}
	}
}

// Ping sends one ping.
func (c *Conn) Ping() error {
	return c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(c.Limits.WriteTime))
}

// Discard reads what the client sends, in messages of up to most bytes, and drops it. The reader is needed for the client's
// pongs and its close frame.
func (c *Conn) Discard(most int64) {
	c.ws.SetReadLimit(most)
	c.ws.SetPongHandler(func(string) error { return c.alive() })
	for err := c.alive(); err == nil; {
		_, _, err = c.ws.ReadMessage()
	}
}

// SendRaw writes one message that is JSON already. It is for a single sender: nothing orders it against Send.
func (c *Conn) SendRaw(raw []byte) error {
	_ = c.ws.SetWriteDeadline(time.Now().Add(c.Limits.WriteTime))
	if err := c.Ctx.Err(); err != nil {
		return err
	}
	return c.ws.WriteMessage(websocket.TextMessage, raw)
}

// alive gives the client time until the pong after next.
func (c *Conn) alive() error {
	return c.ws.SetReadDeadline(time.Now().Add(2*c.Limits.Heartbeat + c.Limits.WriteTime))
}

// Read calls handle with every message until the client leaves or stops answering; with nil for a message that is too large.
func (c *Conn) Read(handle func(raw []byte) error) error {
	c.ws.SetReadLimit(maxSkipped)
	c.ws.SetPongHandler(func(string) error { return c.alive() })
	for {
		if err := c.alive(); err != nil {
			return err
		}
		raw, err := c.next()
		if err == nil {
			err = handle(raw)
		}
		if err != nil {
			return err
		}
	}
}

// next is the next message, nil when it is too large. One that is empty is not nil. A message that is too large is
// read to its end, so that the next one begins where it should.
func (c *Conn) next() ([]byte, error) {
	_, r, err := c.ws.NextReader()
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxMessage+1))
	if err != nil || len(raw) <= maxMessage {
		return raw, err
	}
	_, err = io.Copy(io.Discard, r)
	return nil, err
}

// Send writes one message. A client that takes it late gets a close frame with try-again-later; one that does not take it at
// all is cut.
func (c *Conn) Send(v any) error {
	return c.SendMade(func() (any, error) { return v, nil })
}

// SendMade is Send for a message that is made while no other writer writes; nil sends none. The message is made with
// writing held, so its number and time are in the order in which messages go out. A write that fails after twice the
// time means a dead or blocked client; one that took longer than once a client that does not keep up.
func (c *Conn) SendMade(message func() (any, error)) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	v, err := message()
	if v == nil || err != nil {
		return err
	}
	raw, err := Marshal(v)
	if err != nil {
		return err
	}
	begun := time.Now()
	_ = c.ws.SetWriteDeadline(begun.Add(2 * c.Limits.WriteTime))
	if err := c.Ctx.Err(); err != nil {
		return err
	}
	switch err = c.ws.WriteMessage(websocket.TextMessage, raw); {
	case err != nil:
		c.End(websocket.CloseTryAgainLater, tooSlowReader) // a client that is only slow receives it
	case time.Since(begun) > c.Limits.WriteTime:
		c.End(websocket.CloseTryAgainLater, tooSlowReader)
		err = c.Ctx.Err()
	}
	return err
}

// tooSlowReader is the reason of the close frame for a client that does not keep up.
const tooSlowReader = "too_slow"

// Marshal is JSON without rewriting <, > and &.
func Marshal(v any) ([]byte, error) {
	var out buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return out, err
}

type buffer []byte

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// upgrader answers no failure itself, and leaves the Origin to the guard, which has judged it already. A refused
// upgrade is answered by the error handler like any other refusal.
func upgrader() *websocket.Upgrader {
	return &websocket.Upgrader{
		CheckOrigin: func(*http.Request) bool { return true },
		Error:       func(http.ResponseWriter, *http.Request, int, error) {},
	}
}

// goodbyeTime is how long the last frame may take.
const goodbyeTime = time.Second

// ReadFirst reads the first message, which must be short and come soon.
func (c *Conn) ReadFirst(most int64, within time.Duration) ([]byte, error) {
	c.ws.SetReadLimit(most)
	_ = c.ws.SetReadDeadline(time.Now().Add(min(within, c.Limits.BodyTime)))
	return c.next()
}
