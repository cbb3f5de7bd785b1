package tools

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/internal/failpoint"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// keepWait bounds how long the end of a call may take to be kept after ours is near.
const keepWait = 5 * time.Second

// claimAndRun runs an approved call, if nobody else does. That it runs is kept before it
// runs, so that a crash can never run it twice.
func (s *Service) claimAndRun(ctx context.Context, call store.ToolCall) {
	session, err := s.cfg.Store.Session(ctx, store.System(), call.SessionID)
	if err != nil {
		s.complain(ctx, call, err)
		return
	}
	tool, err := s.cfg.Store.ToolOf(ctx, store.System(), session.Tenant, call.Name)
	if errors.Is(err, store.ErrNotFound) {
		s.unregistered(ctx, call)
		return
	}
	if err != nil {
		s.complain(ctx, call, err)
		return
	}
	approval, err := s.approval(ctx, s.cfg.Store, call)
	if err != nil {
		s.complain(ctx, call, err)
		return
	}
	again := !call.RunningAt.IsZero()
	failpoint.Here("before_tool_dispatch")
	call, span, won, err := s.claim(ctx, session, call)
	if err != nil {
		s.complain(ctx, call, err)
		return
	}
	if won {
		_, _ = s.run(ctx, tool, call, running{asked: true, refused: s.asApproved(ctx, call, approval, again), span: span}) // whoever waits for it reads it
	}
	s.cfg.Ring(call.SessionID)
}

// unregistered ends an approved call whose tool was taken away while a person was asked. It
// would otherwise be looked for, and waited for, for ever.
func (s *Service) unregistered(ctx context.Context, call store.ToolCall) {
	e := &Error{CodeUnknownTool, "The tool is not registered any more."}
	_, _ = s.end(ctx, call, store.ToolCallMove{ // tried again at the next look
		ID: call.ID, From: store.ToolDispatched, To: store.ToolFailed, ErrorCode: e.Code, Error: e.json(), EndedAt: time.Now(),
	}, running{asked: true})
	s.cfg.Ring(call.SessionID)
}

// claim makes an approved call this replica's to run, as it is kept then: perhaps edited. One
// whose Turn was cancelled after it was approved ends instead, if it never began.
func (s *Service) claim(ctx context.Context, session store.Session, call store.ToolCall) (_ store.ToolCall, span trace.Context, won bool, err error) {
	turn, err := s.cfg.Store.Turn(ctx, store.System(), call.TurnID)
	if err != nil {
		return call, span, false, err
	}
	if !s.mayBegin(turn, session, call) {
		return call, span, false, nil
	}
	if turn.Status.Terminal() && call.RunningAt.IsZero() {
		e := &Error{inbox.CodeAskerGone, "The agent was gone before the tool began. It was not run."}
		if turn.Status == store.TurnCancelled {
			e = &Error{CodeCancelled, "The run was cancelled before the tool began."}
		}
		move := store.ToolCallMove{ID: call.ID, From: store.ToolDispatched, To: store.ToolFailed, ErrorCode: e.Code, Error: e.json(), EndedAt: time.Now()}
		_, err := s.cfg.Keep(ctx, call.SessionID, []store.Move{move, trace.Ended(call, move)}, nil)
		return call, span, false, err
	}
	now := time.Now().Truncate(time.Millisecond) // as it is kept
	of, _ := trace.Parse(turn.Traceparent, turn.Tracestate)
	span = spanOf(of)
	move := store.ToolCallMove{
		ID: call.ID, From: store.ToolDispatched, To: store.ToolRunning, Replica: s.cfg.Replica, RunningAt: now,
		WhileTurn: call.RunningAt.IsZero(), // it may have ended since it was read
	}
	call.RunningAt = now
	_, err = s.cfg.Keep(ctx, call.SessionID, []store.Move{move, trace.If(move.To, now, runningRecord(call, span))}, nil)
	if err != nil {
		return call, span, false, err
	}
	// The row tells whose it is, even when the answer to the commit was lost. An earlier attempt
	// of ours that could not keep its end began at another time.
	kept, err := s.cfg.Store.ToolCall(ctx, store.System(), call.ID)
	return kept, span, err == nil && kept.Status == store.ToolRunning && kept.Replica == s.cfg.Replica && kept.RunningAt.Equal(now), err
}

// mayBegin says whether this replica may begin an approved call: it owns the Session, and knows that the Agent is there
// to get the result. What somebody decided to run again runs for no Agent.
func (s *Service) mayBegin(turn store.Turn, session store.Session, call store.ToolCall) bool {
	if session.Owner != s.cfg.Replica {
		return false
	}
	if turn.Status.Terminal() || !call.RunningAt.IsZero() {
		return true
	}
	return turn.Upstream == "" || turn.Upstream == store.UpstreamWaits || turn.Upstream == s.cfg.Replica
}

func (s *Service) complain(ctx context.Context, call store.ToolCall, err error) {
	if ctx.Err() == nil {
		s.cfg.Logger.Error("tool call not seen to, trying again", slog.String("tool_call_id", call.ID), slog.Any("error", err))
	}
}

// running is what is known of a call that runs: what the chat has of it, and its span.
type running struct {
	shown bool // that it runs
	asked bool // that a person was asked for it

	refused *Error        // why it is not run: it is not what was approved
	span    trace.Context // of this attempt
}

// run runs a call that is RUNNING here, and keeps its end. It returns the call as it then is.
func (s *Service) run(ctx context.Context, tool store.Tool, call store.ToolCall, chat running) (store.ToolCall, error) {
	failpoint.Here("after_tool_dispatch")
	began := time.Now()
	if !chat.shown && !chat.asked {
		late := time.AfterFunc(showAfter, func() { s.cfg.Ring(call.SessionID) })
		defer late.Stop()
	}
	result, failure := s.postUnless(ctx, tool, call, chat)
	failpoint.Here("before_tool_result")
	move := store.ToolCallMove{
		ID: call.ID, From: store.ToolRunning, OnlyOf: s.cfg.Replica, To: store.ToolSucceeded, Result: result, EndedAt: time.Now(),
	}
	if failure != nil {
		if ctx.Err() != nil {
			return call, nil // we are leaving: what became of it nobody knows, and the next process says so
		}
		move.To, move.Result, move.ErrorCode, move.Error = store.ToolFailed, nil, failure.Code, failure.json()
		if failure.Code == CodeTimeout {
			move.To = store.ToolTimeout
		}
	}
	won, err := s.end(context.WithoutCancel(ctx), call, move, chat)
	if f := s.cfg.Meter.Ended; f != nil {
		f(call.Name, move.To, time.Since(began))
	}
	if err != nil {
		return call, err
	}
	if !won { // somebody was first, or the answer to our commit was lost
		return s.cfg.Store.ToolCall(ctx, store.System(), call.ID)
	}
	return call.Ended(move), nil
}

// postUnless posts a call within its time, unless it is not what was approved.
func (s *Service) postUnless(ctx context.Context, tool store.Tool, call store.ToolCall, chat running) (json.RawMessage, *Error) {
	if chat.refused != nil {
		return nil, chat.refused
	}
	timed, cancel := context.WithTimeout(ctx, call.Timeout)
	defer cancel()
	return s.post(timed, tool, call, chat.asked, chat.span)
}

// end keeps how a call ended; false when somebody was first.
func (s *Service) end(ctx context.Context, call store.ToolCall, move store.ToolCallMove, chat running) (won bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	if call.OnFailure == store.FailureEndsRun && move.To != store.ToolSucceeded {
		won, err = s.endWithTurn(ctx, call, move)
	} else {
		var kept Kept
		kept, err = s.keep(ctx, Keeping{Call: call.Ended(move), Move: move, Trace: []store.Move{trace.Ended(call, move)}, Asked: chat.asked})
		if won = !kept.Lost; won && err == nil && !kept.Shown {
			s.cfg.Ring(call.SessionID) // the owner shows what it finds in the row
		}
	}
	if err != nil {
		s.cfg.Logger.Error("the end of a tool call was not kept", slog.String("tool_call_id", call.ID), slog.Any("error", err))
		return false, err
	}
	return won, nil
}

// endWithTurn keeps that a call failed, and asks the Session's owner to end the Turn.
func (s *Service) endWithTurn(ctx context.Context, call store.ToolCall, move store.ToolCallMove) (won bool, err error) {
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if won, err = tx.MoveToolCall(ctx, move); err != nil || !won {
			return err
		}
		call := call.Ended(move)
		if err := tx.InsertRecord(ctx, trace.ResultOf(call).Record(call, move.EndedAt)); err != nil {
			return err
		}
		return inbox.EndTurnOn(ctx, tx, call, newID, time.Now())
	})
	s.cfg.Ring(call.SessionID)
	return won, err
}

func orNull(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// giveBack is for a call that was to run at once and for which there is no room: it fails,
// having done nothing.
func (s *Service) giveBack(ctx context.Context, call store.ToolCall) {
	_, _ = s.end(context.WithoutCancel(ctx), call, store.ToolCallMove{ // it is in the log if it could not be kept
		ID: call.ID, From: store.ToolRunning, OnlyOf: s.cfg.Replica, To: store.ToolFailed, ErrorCode: CodeBusy, Error: errBusy.json(), EndedAt: time.Now(),
	}, running{})
}
