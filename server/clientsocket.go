package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/bridge/hints"
)

const (
	// clientFrame bounds what a page may send, which is nothing that is read.
	clientFrame = 4 << 10
	// goodbyeTime is how long the last frame may take.
	goodbyeTime = time.Second
)

// clientSocket is one page's.
type clientSocket struct {
	conn   *websocket.Conn
	watch  *hints.Watch
	limits Limits
}

// serve writes hints until the page leaves, stops answering, its credential or the share of its thread
// ends, or the server goes away.
func (s *clientSocket) serve(draining, caller context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var reader sync.WaitGroup
	reader.Go(func() {
		defer cancel()
		s.read()
	})
	defer reader.Wait()
	defer s.conn.Close() //nolint:errcheck // it ends the reader; nothing is lost
	defer context.AfterFunc(draining, func() {
		cancel()
		s.interrupt()
	})()
	defer context.AfterFunc(caller, func() {
		cancel()
		s.interrupt()
	})()
	s.write(ctx)
	code, why := websocket.CloseNormalClosure, ""
	if caller.Err() != nil {
		code, why = websocket.ClosePolicyViolation, codeUnauthorized
	}
	if draining.Err() != nil {
		code, why = websocket.CloseGoingAway, codeShuttingDown
	}
	_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, why), time.Now().Add(goodbyeTime))
}

// interrupt ends a write that a slow page holds up.
func (s *clientSocket) interrupt() { _ = s.conn.NetConn().SetWriteDeadline(time.Now()) }

// read takes what the page sends and has no use for it, but for the pongs that say that it
// is there.
func (s *clientSocket) read() {
	s.conn.SetReadLimit(clientFrame)
	alive := func(string) error {
		return s.conn.SetReadDeadline(time.Now().Add(2*s.limits.Heartbeat + s.limits.WriteTime))
	}
	s.conn.SetPongHandler(alive)
	for err := alive(""); err == nil; {
		_, _, err = s.conn.ReadMessage()
	}
}

func (s *clientSocket) write(ctx context.Context) {
	ping := time.Now()
	for {
		if now := time.Now(); !now.Before(ping) {
			ping = now.Add(s.limits.Heartbeat)
			if s.conn.WriteControl(websocket.PingMessage, nil, now.Add(s.limits.WriteTime)) != nil {
				return
			}
		}
		until, cancel := context.WithDeadline(ctx, ping)
		frames, err := s.watch.Next(until)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return
		}
		for _, frame := range frames {
			_ = s.conn.SetWriteDeadline(time.Now().Add(s.limits.WriteTime))
			if ctx.Err() != nil || s.conn.WriteMessage(websocket.TextMessage, frame) != nil {
				return
			}
		}
	}
}
