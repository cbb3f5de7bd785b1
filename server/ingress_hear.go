package server

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// viaIngress is the surface that decisions of this channel come through.
const viaIngress = "ingress"

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
	switch frame.Type {
	case "agent_invoke":
		return s.invoke(frame, raw)
	case "tool_result":
		return s.toolResult(frame, raw)
	case "approval_decision":
		return s.decision(frame, raw)
	case "cancel_run":
		return s.cancelRun(frame)
	case "replay_run":
		return s.replayRun(frame)
	case "hello":
		return &channelError{codeHelloTwice, "This connection has said hello."}
	}
	return &channelError{codeUnknownType, "There is no message of that type."}
}

// invokeFrame is one message of the user's. Its request_id makes it idempotent: it is the
// runId of the Run and the id of the message.
type invokeFrame struct {
	AgentID string      `json:"agent_id" validate:"max=128"`
	Message userMessage `json:"message"`
	// Tools are those that the client can run, as AG-UI declares them.
	Tools []agui.Tool `json:"tools" validate:"max=128"`
}

type userMessage struct {
	Role    string  `json:"role" validate:"omitempty,eq=user"`
	Content rawJSON `json:"content" validate:"required"`
}

func (s *ingressSocket) invoke(frame *ingressFrame, raw []byte) error {
	var body invokeFrame
	if err := s.h.in.message(raw, &body); err != nil {
		return err
	}
	if frame.RequestID == "" {
		frame.RequestID = uuid.NewString()
	}
	if frame.SessionID == "" {
		frame.SessionID = frame.RequestID // a session of its own, the same for the same request
	}
	req, err := s.chatRequest(*frame, body)
	if err != nil {
		return err
	}
	reply, err := s.h.sessions.Chat(s.ctx, req)
	if err != nil {
		return err
	}
	if reply.Run.ExternalID != frame.RequestID || reply.Join {
		err = &channelError{codeMessageNotTaken, "A question of this session is open; it is answered first."}
		return errors.Join(s.followNamed(frame.SessionID), err)
	}
	return s.answerTo(*frame, reply)
}

// chatRequest is the POST that the message would be.
func (s *ingressSocket) chatRequest(frame ingressFrame, body invokeFrame) (bridge.ChatRequest, error) {
	m := agui.Message{ID: frame.RequestID, Role: agui.RoleUser}
	if err := json.Unmarshal(body.Message.Content, &m.Content); err != nil {
		return bridge.ChatRequest{}, refuse(codeInvalidBody, "At /message/content: must be a string or an array of content parts.")
	}
	if m.Content.String() == "" && len(m.Content.Parts) == 0 {
		return bridge.ChatRequest{}, refuse(bridge.RefusedNothingToDo, "The message is empty.")
	}
	same, err := json.Marshal([]string{body.AgentID, string(body.Message.Content)})
	if err != nil {
		return bridge.ChatRequest{}, err
	}
	sum := sha256.Sum256(same)
	return bridge.ChatRequest{
		Principal: s.caller.Principal, Dialect: bridge.DialectV1, AgentID: body.AgentID,
		ThreadID: frame.SessionID, RunID: frame.RequestID, Messages: []agui.Message{m}, Tools: body.Tools, BodyHash: sum[:],
	}, nil
}

// answerTo tells of the Run from its first event on. To a request that is made again on a
// connection that has told it before, that it has started is told again.
func (s *ingressSocket) answerTo(frame ingressFrame, reply bridge.Reply) error {
	f := s.followOf(reply.Session.ID)
	if f == nil {
		return s.follow(reply.Session, seqOf(reply.After+1, -1))
	}
	if reply.Run.FirstSeq == 0 {
		return nil // it will be told
	}
	return f.sayAgain(ingressMessage{
		Type: ingressRunStarted, TS: millis(reply.Run.StartedAt), RequestID: frame.RequestID, SessionID: frame.SessionID,
		RunID: reply.Run.TurnID, Seq: seqOf(reply.Run.FirstSeq, 0), Again: true, AgentID: reply.Session.AgentID,
	})
}

// about finds the session of something that was named, follows it, and refuses a run_id that
// is not the thing's.
func (s *ingressSocket) about(frame *ingressFrame, sessionID, turnID string) error {
	if frame.RunID != "" && frame.RunID != turnID {
		return store.ErrNotFound
	}
	session, err := s.h.store.Session(s.ctx, s.in, sessionID)
	if err != nil {
		return err
	}
	frame.RunID, frame.SessionID = turnID, session.ExternalID
	if s.isFollowed(session.ID) {
		return nil
	}
	return s.followNow(session)
}

// toolResultFrame is what came of a tool the client ran.
type toolResultFrame struct {
	ToolCallID string  `json:"tool_call_id" validate:"required,max=128"`
	OK         *bool   `json:"ok"`
	Result     rawJSON `json:"result"`
	Error      rawJSON `json:"error"`
}

func (s *ingressSocket) toolResult(frame *ingressFrame, raw []byte) error {
	var body toolResultFrame
	if err := s.h.in.message(raw, &body); err != nil {
		return err
	}
	call, err := s.h.store.ToolCall(s.ctx, s.in, body.ToolCallID)
	if err != nil {
		return err
	}
	if call.Kind != store.KindClient {
		return store.ErrNotFound // a question is decided
	}
	if err := s.about(frame, call.SessionID, call.TurnID); err != nil {
		return err
	}
	settled, err := s.h.sessions.ToolResult(s.ctx, s.caller.Principal, call.ID, body.answer())
	return s.settled(*frame, settled, err)
}

func (b toolResultFrame) answer() inbox.Answer {
	a := inbox.Answer{QuestionID: b.ToolCallID, Payload: b.Result}
	if b.OK != nil && !*b.OK || b.OK == nil && there(b.Error) {
		a.Error = "the tool failed"
		if there(b.Error) {
			a.Error = string(b.Error)
			_ = json.Unmarshal(b.Error, &a.Error) // what is no text stays as it is
		}
	}
	if len(a.Payload) == 0 {
		a.Payload = rawJSON("null")
	}
	return a
}

// decisionFrame is a person's decision. Beside the contract's words it takes an option, and
// for an input its value.
type decisionFrame struct {
	ApprovalID string `json:"approval_id" validate:"required,max=128"`
	decisionBody
}

func (s *ingressSocket) decision(frame *ingressFrame, raw []byte) error {
	var body decisionFrame
	if err := s.h.in.message(raw, &body); err != nil {
		return err
	}
	a, err := s.h.store.Approval(s.ctx, s.in, body.ApprovalID)
	if err != nil {
		return err
	}
	if err := s.about(frame, a.SessionID, a.TurnID); err != nil {
		return err
	}
	answer, err := body.answer(a)
	if err != nil {
		return err
	}
	settled, err := s.h.sessions.Decide(s.ctx, s.caller.Principal, a.ID, answer, viaIngress)
	return s.settled(*frame, settled, err)
}

// settled answers who came too late with what was decided, and who says the same again with
// where the Turn stands. What a first answer leads to is told by the log.
func (s *ingressSocket) settled(frame ingressFrame, settled inbox.Settled, err error) error {
	var refusal *bridge.Refusal
	late := errors.As(err, &refusal) && refusal.Code == bridge.RefusedDecided
	if err != nil && !late || settled.Won {
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

// turn finds the Turn that a message names.
func (s *ingressSocket) turn(frame *ingressFrame) (store.Turn, error) {
	if frame.RunID == "" {
		return store.Turn{}, refuse(codeInvalidBody, "run_id: required.")
	}
	return s.h.store.Turn(s.ctx, s.in, frame.RunID)
}

// cancelRun asks for the end of a Turn. To one that is over the answer is how it ended.
func (s *ingressSocket) cancelRun(frame *ingressFrame) error {
	turn, err := s.turn(frame)
	if err != nil {
		return err
	}
	if err := s.about(frame, turn.SessionID, turn.ID); err != nil {
		return err
	}
	if turn.Status.Terminal() {
		s.say(*frame, ingressMessage{Type: ingressState, State: wireState(turn.Status)})
		return nil
	}
	_, err = s.h.sessions.Cancel(s.ctx, s.caller.Principal, turn.ID)
	return err
}

// replayRun tells a Turn again from its start to where it is.
func (s *ingressSocket) replayRun(frame *ingressFrame) error {
	turn, err := s.turn(frame)
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
