// This file is one WebSocket of a channel, from its hello to its end. It connects three parts: the
// dispatcher executes the client's messages, subscriptions send what the log has, and replays repeat
// a Turn on request.

package channel

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/server/limit"
	"aqueduct/server/problem"
	"aqueduct/server/wsconn"
	"aqueduct/store"
)

// connection is one connection of a channel, of one user. Its reader goroutine runs run and handles one message after
// the other; watch, each subscription and a replay are tasks that end with Ctx. They all write through Conn,
// which lets one of them write at a time. caller and in are set by the hello and do not change afterwards, so the
// tasks, which start after it, read them without a lock. It ends in one of four ways: the client leaves, the
// credential ends or is revoked, a subscription cannot read its log, or the server drains. All of them end Ctx.
// replaying is true while a replay runs; subscriptions has its own lock.
type connection struct {
	*wsconn.Conn
	dispatcher
	slot          *limit.Slot
	c             echo.Context
	subscriptions subscriptions
	replaying     atomic.Bool
	followed      atomic.Int64 // Tasks that wait
	awaited       string       // the session of the hello, which is yet to be made; "" for none
}

// run authenticates the client and then handles its messages until it leaves. Serve waits for the tasks after run has
// returned, so nothing here outlives the connection. watch starts behind the hello, because it
// needs the scope of the caller.
func (s *connection) run() {
	if !s.authenticate() {
		return
	}
	s.Tasks.Go(s.watch)
	_ = s.Read(func(raw []byte) error {
		s.handle(raw)
		return s.Ctx.Err()
	})
}

// watch follows, at each heartbeat, the sessions that have come to be of interest by what other clients did. Polling is
// enough: a question waits for minutes, and a new session is sent from its beginning.
func (s *connection) watch() {
	tick := time.NewTicker(s.Limits.Heartbeat)
	defer tick.Stop()
	for {
		for _, follow := range []func() error{s.followAwaited, s.followQuestions} {
			if err := follow(); err != nil && s.Ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) {
				s.fail(Envelope{}, err)
			}
		}
		select {
		case <-tick.C:
		case <-s.Ctx.Done():
			return
		}
	}
}

// followAwaited follows the session of the hello once there is one, from its first event on: all of it came after the hello.
func (s *connection) followAwaited() error {
	if s.awaited == "" {
		return nil
	}
	session, err := s.h.Store.SessionByExternalID(s.Ctx, s.in, s.awaited)
	if err != nil {
		return err
	}
	s.awaited = ""
	return s.subscribe(session, 0, 0, false)
}

// followQuestions follows every session in which something is asked: those there are when the client comes, and those that
// another client of the user made since. A question may be asked in a session that this client never named, by an Agent
// that another client of the user started. The client must be able to answer it, so the session is followed.
func (s *connection) followQuestions() error {
	calls, err := s.h.Store.ExpiringToolCalls(s.Ctx, s.in, store.MaxPageLimit)
	for _, call := range calls {
		if err != nil || s.subscriptions.has(call.SessionID) {
			continue
		}
		var session store.Session
		if session, err = s.h.Store.Session(s.Ctx, s.in, call.SessionID); err == nil {
			err = s.subscribeNow(session, true)
		}
	}
	return err
}

// subscribeNamed follows the session that the client calls id, unless it is followed already. A session that does not
// exist is an error; the caller decides whether that matters.
func (s *connection) subscribeNamed(id string) error {
	session, err := s.h.Store.SessionByExternalID(s.Ctx, s.in, id)
	if err != nil || s.subscriptions.has(session.ID) {
		return err
	}
	return s.subscribeNow(session, false)
}

// subscribeNow follows a session from its present on.
// Events that are written between LastSeq and the first read are not lost: the subscription reads
// the log from seq on, and the seq is taken before.
func (s *connection) subscribeNow(session store.Session, asked bool) error {
	last, err := s.h.Store.LastSeq(s.Ctx, s.in, session.ID)
	if err != nil {
		return err
	}
	now := seqOf(last+1, -1)
	return s.subscribe(session, now, now, asked)
}

// subscribe sends what happens in a session after seq. An existing subscription goes on unchanged. from is the seq up
// to which the client may have missed messages. asked means that an open question is the reason, and no message of
// the client. It is called by the reader and by watch at once. add decides which of two subscriptions of one
// session exists; the other is dropped before its goroutine starts. The goroutine is started only for a subscription
// that was added, and not on a connection that has ended: Serve already waits for its tasks then.
func (s *connection) subscribe(session store.Session, seq, from int64, asked bool) error {
	ctx, cancel := context.WithCancel(s.Ctx)
	f := &subscription{
		socket: s, session: session, from: from, at: seq, forQuestion: asked, cancel: cancel, done: make(chan struct{}),
		reader: &logReader{store: s.h.Store, in: s.in, session: session},
	}
	added, err := s.subscriptions.add(f)
	if !added || s.Ctx.Err() != nil {
		cancel()
		return err
	}
	s.Tasks.Go(func() {
		defer cancel()
		f.run(ctx)
	})
	return nil
}

// rewind follows a session from an earlier seq than it was followed from. What was sent since is
// sent again, under the same seqs. The old subscription must have ended before the new one starts:
// otherwise both would send, and the client would get seqs that jump back and forth. While the old
// one ends, watch may begin a third at the present; the loop then rewinds that one.
func (s *connection) rewind(f *subscription, seq int64) error {
	for f != nil && f.from > seq {
		f.cancel()
		select {
		case <-f.done:
		case <-s.Ctx.Done():
			return s.Ctx.Err()
		}
		if err := s.subscribe(f.session, seq, seq, false); err != nil {
			return err
		}
		f = s.subscriptions.of(f.session.ID) // another one, if watch followed the session in between
	}
	return nil
}

// fail sends the error of a client's message. fail returns the code for the close frame of a failed
// hello. An error that comes of the connection's own end is not sent.
func (s *connection) fail(about Envelope, err error) (code string) {
	if errors.Is(err, context.Canceled) && s.Ctx.Err() != nil {
		return ""
	}
	m := Message{Type: typeError}
	m.Code, m.Message = problem.OnChannel(s.h.Log, s.c, err)
	s.sendAbout(about, m)
	return m.Code
}

// sendAbout sends a message that is not from the log, as the answer to a client's message.
// The message gets the seq of the last message from that session's log, so that a client may store
// the seq of every message it gets without going back.
func (s *connection) sendAbout(about Envelope, m Message) {
	m.RequestID, m.SessionID, m.RunID = about.RequestID, about.SessionID, about.RunID
	if f := s.subscriptions.named(about.SessionID); f != nil {
		_ = f.send(m) // the line ends by itself when it cannot be sent
		return
	}
	m.TS = millis(time.Now())
	_ = s.Send(m)
}
