package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/store"
)

// ingressSocket is one connection of a channel, of one user.
type ingressSocket struct {
	*line
	ingressDesk
	slot *socketSlot
	c    echo.Context

	mu        sync.Mutex
	follows   map[string]*ingressFollow // by our Session's id
	replaying bool
}

const (
	// mostFollows bounds the sessions of one connection: each is a tail of a log.
	mostFollows = 64
	// mostAsked is how many of them may be followed only because something is asked in them.
	// Other clients of the user leave questions open; the rest is for what this one does.
	mostAsked = mostFollows / 2
)

// ingressFrame are the members that any message may have.
type ingressFrame struct {
	Type      string `json:"type" validate:"required"`
	RequestID string `json:"request_id" validate:"max=128"`
	SessionID string `json:"session_id" validate:"max=128"`
	RunID     string `json:"run_id" validate:"max=128"`
}

// talk hears the hello and then everything else, until the client leaves.
func (s *ingressSocket) talk() {
	if !s.hello() {
		return
	}
	s.tasks.Go(s.findQuestions)
	_ = s.read(func(raw []byte) error {
		s.hear(raw)
		return s.ctx.Err()
	})
}

// hello hears who calls. Whoever does not say it at once, and well, is left.
func (s *ingressSocket) hello() bool {
	s.conn.SetReadLimit(helloMost)
	_ = s.conn.SetReadDeadline(time.Now().Add(min(helloTime, s.limits.BodyTime)))
	raw, err := s.next()
	if err != nil {
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			s.fail(ingressFrame{}, refuse(codeUnauthorized, "A hello was expected."))
		}
		s.end(websocket.ClosePolicyViolation, codeUnauthorized)
		return false
	}
	var hello helloFrame
	frame, err := s.envelope(raw)
	if err == nil && frame.Type != "hello" {
		err = refuse(codeUnauthorized, "The first message is a hello.")
	}
	if err == nil {
		err = s.h.in.message(raw, &hello)
	}
	if err == nil {
		s.caller, err = s.h.admit(s.c.Request(), hello)
		err = s.h.in.refused(s.c, err)
	}
	if err == nil {
		err = s.h.in.known(s.c)
	}
	if err == nil {
		err = s.slot.identify(s.caller.Principal)
	}
	if err != nil {
		code := s.fail(frame, err)
		s.end(websocket.ClosePolicyViolation, code)
		return false
	}
	s.in = s.caller.Scope()
	s.endAt(s.caller.Until)
	watched, release := s.h.auth.Watch(s.ctx, s.caller)
	context.AfterFunc(s.ctx, release)
	s.endWith(watched)
	s.resume(frame, hello)
	return true
}

func (s *ingressSocket) envelope(raw []byte) (ingressFrame, error) {
	var f ingressFrame
	err := s.h.in.message(raw, &f)
	return f, err
}

// resume follows the sessions that a hello names, from where the client was.
func (s *ingressSocket) resume(frame ingressFrame, hello helloFrame) {
	seqs, err := s.positions(hello)
	if err != nil {
		s.fail(frame, err)
	}
	for id, seq := range seqs {
		f := ingressFrame{RequestID: frame.RequestID, SessionID: id}
		if err := s.back(id, seq); err != nil {
			s.fail(f, err)
		}
	}
	if _, named := seqs[hello.SessionID]; !named && hello.SessionID != "" {
		if err := s.followNamed(hello.SessionID); err != nil && !errors.Is(err, store.ErrNotFound) {
			s.fail(frame, err) // one that is not there may yet be made
		}
	}
}

// positions reads last_seq: one number, or one for each session.
func (s *ingressSocket) positions(hello helloFrame) (map[string]int64, error) {
	if !there(hello.LastSeq) {
		return nil, nil
	}
	var many map[string]int64
	if json.Unmarshal(hello.LastSeq, &many) == nil {
		if len(many) > mostFollows {
			return nil, refuse(codeInvalidCursor, fmt.Sprintf("last_seq may name %d sessions.", mostFollows))
		}
		return many, nil
	}
	var one int64
	if json.Unmarshal(hello.LastSeq, &one) != nil {
		return nil, refuse(codeInvalidCursor, "last_seq is a number, or an object of session_id and number.")
	}
	if hello.SessionID != "" {
		return map[string]int64{hello.SessionID: one}, nil
	}
	rows, err := s.h.store.Sessions(s.ctx, s.in, store.Page{Limit: 2})
	if err == nil && len(rows) != 1 {
		err = refuse(codeInvalidCursor, "last_seq is one number, and there is not one session: say which by session_id.")
	}
	if err != nil {
		return nil, err
	}
	return map[string]int64{rows[0].ExternalID: one}, nil
}

// back follows a session from where the client was.
func (s *ingressSocket) back(id string, seq int64) error {
	var session store.Session
	var last int64
	err := untilThere(s.ctx, func() (err error) {
		if session, err = s.h.store.SessionByExternalID(s.ctx, s.in, id); err == nil {
			last, err = s.h.store.LastSeq(s.ctx, s.in, session.ID)
		}
		return err
	})
	if err != nil {
		return err
	}
	from := int64(0) // the client says that it has what was before
	if now := seqOf(last+1, -1); seq < 0 || seq > now {
		err = refuse(codeBeyondLog, "last_seq lies beyond the end of the session's log; it is followed from there.")
		seq, from = now, now
	}
	return errors.Join(s.follow(session, seq, from, false), err)
}

// findQuestions follows every session in which something is asked: those there are when the
// client comes, and those that another client of the user made since.
func (s *ingressSocket) findQuestions() {
	tick := time.NewTicker(s.limits.Heartbeat)
	defer tick.Stop()
	for {
		calls, err := s.h.store.ExpiringToolCalls(s.ctx, s.in, store.MaxPageLimit)
		for _, call := range calls {
			if err == nil && !s.isFollowed(call.SessionID) {
				err = s.followAsked(call.SessionID)
			}
		}
		if err != nil && s.ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) {
			s.fail(ingressFrame{}, err)
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *ingressSocket) followNamed(id string) error {
	session, err := s.h.store.SessionByExternalID(s.ctx, s.in, id)
	if err != nil || s.isFollowed(session.ID) {
		return err
	}
	return s.followNow(session, false)
}

func (s *ingressSocket) followAsked(id string) error {
	session, err := s.h.store.Session(s.ctx, s.in, id)
	if err != nil {
		return err
	}
	return s.followNow(session, true)
}

// followNow follows a session from its present on.
func (s *ingressSocket) followNow(session store.Session, asked bool) error {
	last, err := s.h.store.LastSeq(s.ctx, s.in, session.ID)
	if err != nil {
		return err
	}
	now := seqOf(last+1, -1)
	return s.follow(session, now, now, asked)
}

// follow tells what happens in a session after a seq. One that is followed goes on as it is.
// What was told up to from the client may not have. asked says that nothing the client said is
// the reason.
func (s *ingressSocket) follow(session store.Session, seq, from int64, asked bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.follows[session.ID]; old != nil || s.ctx.Err() != nil {
		if old != nil && !asked {
			old.asked = false
		}
		return nil
	}
	forQuestions := 0
	for _, f := range s.follows {
		if f.asked {
			forQuestions++
		}
	}
	if len(s.follows) >= mostFollows || asked && forQuestions >= mostAsked {
		return refuse(codeTooManyStreams, fmt.Sprintf("One connection follows %d sessions, %d of them for questions alone.", mostFollows, mostAsked))
	}
	f := &ingressFollow{
		socket: s, session: session, from: from, at: seq, asked: asked, done: make(chan struct{}),
		reader: &ingressReader{store: s.h.store, in: s.in, session: session},
	}
	ctx, cancel := context.WithCancel(s.ctx)
	f.cancel = cancel
	s.follows[session.ID] = f
	s.tasks.Go(func() {
		defer cancel()
		f.run(ctx)
	})
	return nil
}

// rewind follows a session from an earlier seq than it was followed from. What was sent since
// is sent again, under the same seqs.
func (s *ingressSocket) rewind(f *ingressFollow, seq int64) error {
	for f != nil && f.from > seq {
		f.cancel()
		select {
		case <-f.done:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
		if err := s.follow(f.session, seq, seq, false); err != nil {
			return err
		}
		f = s.followOf(f.session.ID) // not ours, if the session was followed for a question in between
	}
	return nil
}

func (s *ingressSocket) forget(f *ingressFollow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.follows[f.session.ID] == f {
		delete(s.follows, f.session.ID)
	}
}

func (s *ingressSocket) isFollowed(sessionID string) bool { return s.followOf(sessionID) != nil }

func (s *ingressSocket) followOf(sessionID string) *ingressFollow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.follows[sessionID]
}

// named is the follow of what the client calls a session; nil when there is none.
func (s *ingressSocket) named(id string) *ingressFollow {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.follows {
		if f.session.ExternalID == id {
			return f
		}
	}
	return nil
}

// fail tells that something a client said was not done.
func (s *ingressSocket) fail(about ingressFrame, err error) (code string) {
	if errors.Is(err, context.Canceled) && s.ctx.Err() != nil {
		return ""
	}
	m := ingressMessage{Type: ingressError}
	m.Code, m.Message = channelProblem(s.h.log, s.c, err)
	s.say(about, m)
	return m.Code
}

// say sends a message that is not from the log, about what a client said.
func (s *ingressSocket) say(about ingressFrame, m ingressMessage) {
	m.RequestID, m.SessionID, m.RunID = about.RequestID, about.SessionID, about.RunID
	if f := s.named(about.SessionID); f != nil {
		_ = f.say(m) // the line ends by itself when it cannot be sent
		return
	}
	m.TS = millis(time.Now())
	_ = s.send(m)
}
