// This file executes one message after the other on a connection, and answers it. Most answers are
// not sent here: they are events of the log, which the session's subscription sends.

package channel

import (
	"context"
	"errors"
	"slices"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/server/problem"
	"aqueduct/store"
)

// handle executes one message. A message that cannot be executed is answered with an error, and the connection stays.
// The frame is completed on the way, so that an error names the session and Turn as far as they are
// known.
func (s *connection) handle(raw []byte) {
	frame, err := s.decodeEnvelope(raw)
	if err == nil {
		err = s.dispatch(&frame, raw)
	}
	if err != nil {
		s.fail(frame, err)
	}
}

// dispatch does it. It completes the frame with what the message is about, for the answer. Reads are not confirmed: a
// revocation ends the whole connection within seconds, and only an action must not slip in before that. It runs in
// the connection's reader, so two messages of one client are never executed at once.
func (s *connection) dispatch(frame *Envelope, raw []byte) error {
	if frame.Type != "replay_run" { // what may change something; the end of the socket comes seconds after a revocation
		if err := s.h.Auth.Confirm(s.Ctx, s.caller); err != nil {
			return err
		}
	}
	switch frame.Type {
	case "agent_invoke":
		return s.invoke(frame, raw)
	case "tool_result":
		settled, err := s.toolResult(s.Ctx, frame, raw)
		return s.settled(*frame, settled, err)
	case "approval_decision":
		settled, err := s.decision(s.Ctx, frame, raw)
		return s.settled(*frame, settled, err)
	case "cancel_run":
		return s.cancelRun(frame)
	case "replay_run":
		return s.replayRun(frame, raw)
	case "hello":
		return fault.New(problem.HelloTwice, "This connection has said hello.")
	}
	return fault.New(problem.UnknownType, "There is no message of that type.")
}

// invoke executes a chat message. When the server refuses it because a question is open, the session is followed, so
// that the client gets the question together with the refusal. Any refusal with a code has this effect, because the
// client needs to see the session to understand it.
func (s *connection) invoke(frame *Envelope, raw []byte) error {
	waits, err := s.waits(s.Ctx, raw)
	if err != nil {
		return err
	}
	if waits {
		task, err := s.enqueue(s.Ctx, frame, raw, "")
		if err != nil {
			return err
		}
		frame.SessionID = task.ThreadID
		s.sendAbout(*frame, Message{Type: typeTaskEnqueued})
		follower{s, *frame, task}.run()
		return nil
	}
	reply, err := s.chat(s.Ctx, frame, raw)
	if fault.CodeOf(err) != "" { // the open question that is in the way is sent
		return errors.Join(s.subscribeNamed(frame.SessionID), err)
	}
	if err != nil {
		return err
	}
	return s.answerTo(*frame, reply)
}

// answerTo sends the Run from its first event. A client repeats its request because it may have lost everything that an earlier
// connection sent.
//
// There are four cases:
//  1. The session is not followed yet. It is followed from just before the Run.
//  2. It is followed since a later time. The subscription goes back to the Run.
//  3. It is followed since before, and the Run's Turn is not over. A start that was sent is sent again, with the state of a Turn that waits.
//  4. It is followed since before, and the Run's Turn is over. The Turn's end is sent again.
func (s *connection) answerTo(frame Envelope, reply bridge.Reply) error {
	f, before := s.subscriptions.of(reply.Session.ID), seqOf(reply.After+1, -1)
	if f == nil {
		return s.subscribe(reply.Session, before, before, false)
	}
	if err := s.subscribe(reply.Session, before, before, false); err != nil { // for its own sake from now on
		return err
	}
	if f.from > before {
		return s.rewind(f, before)
	}
	if reply.Run.FirstSeq == 0 {
		return nil // the subscription will send it
	}
	turn, err := s.h.Store.Turn(s.Ctx, s.in, reply.Run.TurnID)
	if err != nil {
		return err
	}
	if turn.Status.Terminal() {
		return s.endAgain(frame, f, turn)
	}
	err = f.sendAgain(reply.Run.FirstSeq, 0, Message{
		Type: typeRunStarted, TS: millis(reply.Run.StartedAt), RequestID: frame.RequestID, SessionID: frame.SessionID,
		RunID: reply.Run.TurnID, Seq: seqOf(reply.Run.FirstSeq, 0), Again: true, AgentID: turn.AgentID,
	})
	if err != nil || !turn.Status.Paused() {
		return err
	}
	state, err := s.turnState(turn.ID)
	if err != nil {
		return err
	}
	frame.RunID = turn.ID
	s.sendAbout(frame, state)
	return nil
}

// endAgain sends the messages that the log has for the end of a Turn. It sends no message while the subscription has yet to
// send them.
func (s *connection) endAgain(frame Envelope, f *subscription, turn store.Turn) error {
	runs, err := s.h.Store.RunsOfTurn(s.Ctx, s.in, turn.ID)
	if err != nil {
		return err
	}
	end, last := []Message{{Type: typeState, State: WireState(turn.Status)}}, int64(0)
	for _, run := range runs {
		if run.LastSeq == 0 {
			continue
		}
		last = run.LastSeq
		items, err := s.h.slice(s.Ctx, s.in, turn.SessionID, run.LastSeq-1, run.LastSeq)
		if err != nil {
			return err
		}
		r := &logReader{store: s.h.Store, in: s.in, session: f.session, turnID: turn.ID}
		found, err := r.read(s.Ctx, items)
		if err != nil {
			return err
		}
		if n := len(found); n > 0 && (found[n-1].Type == typeDone || found[n-1].Type == typeError) {
			end = slices.Clone(found)
		}
	}
	for _, m := range end {
		m.RequestID, m.SessionID, m.RunID, m.TS, m.Seq, m.Again = frame.RequestID, frame.SessionID, turn.ID, millis(time.Now()), 0, true
		if err := f.sendAgain(last, lastOfRun, m); err != nil {
			return err
		}
	}
	return nil
}

// subscribeBefore follows a session before something is done in it.
// It is the dispatcher's before. Without it a decision made by a client that did not follow the
// session would have effects that this client never gets.
func (s *connection) subscribeBefore(_ context.Context, session store.Session) error {
	if s.subscriptions.has(session.ID) {
		return nil
	}
	return s.subscribeNow(session, false)
}

// settled acknowledges an answer with the state of the Turn and the decision: a first answer and a
// repeated one by a state, a late one by an error. The acknowledgement has the request_id of the
// answer. A first answer without a request_id gets none, because its effect is in the log. Of two
// clients that answer one question at once, the second gets AlreadyDecided. Its message carries the
// decision that counts, so that the page can show it and take the question away.
func (s *connection) settled(frame Envelope, settled approval.Settled, err error) error {
	var refusal *fault.Error
	late := errors.As(err, &refusal) && refusal.Code == approval.AlreadyDecided
	if err != nil && !late || settled.Won && frame.RequestID == "" {
		return err
	}
	m, failed := s.turnState(settled.Question.Call.TurnID)
	if failed != nil {
		return failed
	}
	if m.Detail == nil {
		m.Detail = &detail{}
	}
	m.Detail.Settled = []settledQuestion{settledOf(settled.Question)}
	if late {
		m.Type, m.Code, m.Message, m.ToolCallID = typeError, refusal.Code, refusal.Message, settled.Question.Call.ID
	}
	s.sendAbout(frame, m)
	return nil
}

// turnState is the state of a Turn. A Turn whose last question was just settled counts as running.
// The state is read after the decision was committed and before the engine has continued the Turn:
// paused with nothing open means that the engine is about to continue it.
func (s *connection) turnState(turnID string) (Message, error) {
	turn, err := s.h.Store.Turn(s.Ctx, s.in, turnID)
	if err != nil || !turn.Status.Paused() {
		return Message{Type: typeState, State: WireState(turn.Status)}, err
	}
	calls, err := s.h.Store.OpenToolCalls(s.Ctx, s.in, turn.SessionID)
	var open []approval.Question
	for _, call := range calls {
		if err == nil && call.TurnID == turnID {
			var q approval.Question
			q, err = approval.Of(s.Ctx, s.h.Store, s.in, call)
			open = append(open, q)
		}
	}
	if err != nil || len(open) == 0 {
		return Message{Type: typeState, State: stateRunning}, err
	}
	return waiting(open), nil
}

// cancelRun asks for the end of a Turn. To one that is over the answer is how it ended.
// The Turn that is cancelled is reported by its own events. Only a Turn that had ended before gets
// an answer here, because nothing of it will come from the log.
func (s *connection) cancelRun(frame *Envelope) error {
	turn, err := s.cancelTurn(s.Ctx, frame)
	if err == nil && turn.Status.Terminal() {
		s.sendAbout(*frame, Message{Type: typeState, State: WireState(turn.Status)})
	}
	return err
}

// replayRun sends a Turn again from its start to where it is. The replay runs beside the subscriptions and not in the
// reader, so that decisions are not held up by a long Turn. One at a time, so that a client cannot multiply its cost.
// The flag is cleared before the error is sent: a client that answers the error with another replay must not be
// refused.
func (s *connection) replayRun(frame *Envelope, raw []byte) error {
	var body ReplayFrame
	if err := s.h.In.Message(raw, &body); err != nil {
		return err
	}
	turn, err := s.turn(s.Ctx, frame)
	if err != nil {
		return err
	}
	session, err := s.h.Store.Session(s.Ctx, s.in, turn.SessionID)
	if err != nil {
		return err
	}
	if !s.replaying.CompareAndSwap(false, true) {
		return fault.New(problem.Replaying, "One run is replayed at a time.")
	}
	about := *frame
	s.Tasks.Go(func() {
		r := replay{h: s.h, in: s.in, to: s.Conn, speed: body.Speed, reader: &logReader{store: s.h.Store, in: s.in, session: session}}
		err := r.turn(s.Ctx, session, turn)
		s.replaying.Store(false)
		if err != nil {
			s.fail(about, err)
		}
	})
	return nil
}
