package server

import (
	"context"
	"errors"
	"slices"

	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// codeTooManyStreams is what a connection hears that follows too much.
const codeTooManyStreams = bridge.RefusedTooManyStreams

// hear does what one message says. What cannot be done is told, and the connection stays.
func (s *ingressSocket) hear(raw []byte) {
	frame, err := s.envelope(raw)
	if err == nil {
		err = s.do(&frame, raw)
	}
	if err != nil {
		s.fail(frame, err)
	}
}

// do does it. It completes the frame with what the message is about, for the answer.
func (s *ingressSocket) do(frame *ingressFrame, raw []byte) error {
	if frame.Type != "replay_run" { // what may change something; the end of the socket comes seconds after a revocation
		if err := s.h.auth.Confirm(s.ctx, s.caller); err != nil {
			return err
		}
	}
	switch frame.Type {
	case "agent_invoke":
		return s.invoke(frame, raw)
	case "tool_result":
		settled, err := s.toolResult(s.ctx, frame, raw)
		return s.settled(*frame, settled, err)
	case "approval_decision":
		settled, err := s.decision(s.ctx, frame, raw)
		return s.settled(*frame, settled, err)
	case "cancel_run":
		return s.cancelRun(frame)
	case "replay_run":
		return s.replayRun(frame)
	case "hello":
		return &channelError{codeHelloTwice, "This connection has said hello."}
	}
	return &channelError{codeUnknownType, "There is no message of that type."}
}

func (s *ingressSocket) invoke(frame *ingressFrame, raw []byte) error {
	reply, err := s.chat(s.ctx, frame, raw)
	var own *channelError
	if errors.As(err, &own) { // the question that is in the way is told
		return errors.Join(s.followNamed(frame.SessionID), err)
	}
	if err != nil {
		return err
	}
	return s.answerTo(*frame, reply)
}

// answerTo tells of the Run from its first event on. To a request that is made again on a
// connection that has told it before, that it has started is told again. A connection that
// follows the session since later than that goes back: its client may have lost all that an
// earlier connection was told.
func (s *ingressSocket) answerTo(frame ingressFrame, reply bridge.Reply) error {
	f, before := s.followOf(reply.Session.ID), seqOf(reply.After+1, -1)
	if f == nil {
		return s.follow(reply.Session, before, before, false)
	}
	if err := s.follow(reply.Session, before, before, false); err != nil { // for its own sake from now on
		return err
	}
	if f.from > before {
		return s.rewind(f, before)
	}
	if reply.Run.FirstSeq == 0 {
		return nil // it will be told
	}
	turn, err := s.h.store.Turn(s.ctx, s.in, reply.Run.TurnID)
	if err != nil {
		return err
	}
	return f.sayAgain(ingressMessage{
		Type: ingressRunStarted, TS: millis(reply.Run.StartedAt), RequestID: frame.RequestID, SessionID: frame.SessionID,
		RunID: reply.Run.TurnID, Seq: seqOf(reply.Run.FirstSeq, 0), Again: true, AgentID: turn.AgentID,
	})
}

// listen follows a session before something is done in it.
func (s *ingressSocket) listen(_ context.Context, session store.Session) error {
	if s.isFollowed(session.ID) {
		return nil
	}
	return s.followNow(session, false)
}

// settled acknowledges an answer with where the Turn stands and what was decided: a first one and one that says the same
// again by a state, one that came too late by an error. It bears the request_id of what it answers; one without gets
// none for a first answer, of which the log tells what it leads to.
func (s *ingressSocket) settled(frame ingressFrame, settled inbox.Settled, err error) error {
	var refusal *bridge.Refusal
	late := errors.As(err, &refusal) && refusal.Code == bridge.RefusedDecided
	if err != nil && !late || settled.Won && frame.RequestID == "" {
		return err
	}
	m, failed := s.stands(settled.Question.Call.TurnID)
	if failed != nil {
		return failed
	}
	if m.Detail == nil {
		m.Detail = &ingressDetail{}
	}
	m.Detail.Settled = []ingressSettled{settledOf(settled.Question)}
	if late {
		m.Type, m.Code, m.Message, m.ToolCallID = ingressError, refusal.Code, refusal.Message, settled.Question.Call.ID
	}
	s.say(frame, m)
	return nil
}

// stands tells where a Turn is. One whose last question has just been settled is as good as
// running.
func (s *ingressSocket) stands(turnID string) (ingressMessage, error) {
	turn, err := s.h.store.Turn(s.ctx, s.in, turnID)
	if err != nil || !turn.Status.Paused() {
		return ingressMessage{Type: ingressState, State: wireState(turn.Status)}, err
	}
	calls, err := s.h.store.OpenToolCalls(s.ctx, s.in, turn.SessionID)
	var open []inbox.Question
	for _, call := range calls {
		if err == nil && call.TurnID == turnID {
			var q inbox.Question
			q, err = inbox.Of(s.ctx, s.h.store, s.in, call)
			open = append(open, q)
		}
	}
	if err != nil || len(open) == 0 {
		return ingressMessage{Type: ingressState, State: ingressRunning}, err
	}
	return waiting(open), nil
}

// cancelRun asks for the end of a Turn. To one that is over the answer is how it ended.
func (s *ingressSocket) cancelRun(frame *ingressFrame) error {
	turn, err := s.cancelTurn(s.ctx, frame)
	if err == nil && turn.Status.Terminal() {
		s.say(*frame, ingressMessage{Type: ingressState, State: wireState(turn.Status)})
	}
	return err
}

// replayRun tells a Turn again from its start to where it is.
func (s *ingressSocket) replayRun(frame *ingressFrame) error {
	turn, err := s.turn(s.ctx, frame)
	if err != nil {
		return err
	}
	session, err := s.h.store.Session(s.ctx, s.in, turn.SessionID)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replaying {
		return &channelError{codeReplaying, "One run is replayed at a time."}
	}
	s.replaying = true
	about := *frame
	s.tasks.Go(func() {
		err := s.replay(session, turn)
		s.mu.Lock()
		s.replaying = false
		s.mu.Unlock()
		if err != nil {
			s.fail(about, err)
		}
	})
	return nil
}

func (s *ingressSocket) replay(session store.Session, turn store.Turn) error {
	runs, err := s.h.store.RunsOfTurn(s.ctx, s.in, turn.ID)
	if err != nil {
		return err
	}
	last, err := s.h.store.LastSeq(s.ctx, s.in, session.ID)
	if err != nil {
		return err
	}
	reader := &ingressReader{store: s.h.store, in: s.in, session: session}
	for _, run := range slices.DeleteFunc(runs, func(r store.Run) bool { return r.FirstSeq == 0 }) {
		end := run.LastSeq
		if end == 0 {
			end = last
		}
		if err := s.replayLog(reader, session.ID, run.FirstSeq-1, end); err != nil {
			return err
		}
	}
	return nil
}

// replayLog tells the events after a position up to another.
func (s *ingressSocket) replayLog(reader *ingressReader, sessionID string, after, end int64) error {
	for after < end {
		items, err := s.h.slice(s.ctx, s.in, sessionID, after, end)
		if err != nil || len(items) == 0 {
			return err
		}
		after = items[len(items)-1].Seq
		messages, err := reader.take(s.ctx, items)
		if err != nil {
			return err
		}
		for _, m := range messages {
			m.Replay = true
			if err := s.send(m); err != nil {
				return err
			}
		}
	}
	return nil
}
