package server

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/bridge/inbox"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// statusGone is that of a question which is not the page's to decide any more: it was delegated
// to somebody else, the delegation has ended, or the thread was deleted.
const statusGone = "GONE"

// inbox is /ws/permissions without a session: the questions of every thread that the caller
// may decide.
func (h *permissionSockets) inbox(c echo.Context) error {
	if err := upgrades(c.Request()); err != nil {
		return err
	}
	slot, err := h.open.admit(auth.From(c.Request().Context()).Principal)
	if err != nil {
		return err
	}
	defer slot.leave()
	l, err := openLine(c, h.in.limits)
	if err != nil {
		return err
	}
	caller := auth.From(c.Request().Context())
	s := &inboxSocket{inboxView: newInboxView(h, l, caller), c: c}
	l.endAt(caller.Until)
	l.endWith(c.Request().Context())
	l.serve(h.open.draining, s.talk)
	return nil
}

// inboxSocket is one page's.
type inboxSocket struct {
	*inboxView
	c echo.Context
}

func (s *inboxSocket) talk() {
	s.tasks.Go(func() { s.follow(func(store.ApprovalChange) bool { return true }) })
	_ = s.read(func(raw []byte) error {
		s.handle(raw)
		return s.ctx.Err()
	})
}

// handle does what one message asks for.
func (s *inboxSocket) handle(raw []byte) {
	var frame permissionFrame
	err := s.h.in.message(raw, &frame)
	if err == nil {
		switch frame.Type {
		case typePermissionResponse:
			err = s.respond(frame.Data)
		case typeGetStatus:
			err = s.status()
		default:
			err = &channelError{codeUnknownType, "There is no message of that type."}
		}
	}
	if err != nil {
		out := failureJSON{ExecutionID: frame.Data.ExecutionID}
		out.Code, out.Message = channelProblem(s.h.log, s.c, err)
		_ = s.send(permissionMessage{Type: typeError, Data: out}) // the line ends by itself when it cannot be sent
	}
}

func (s *inboxSocket) status() error {
	out := statusJSON{State: stateIdle, Pending: s.open()}
	if len(out.Pending) > 0 {
		out.State = wireState(store.TurnPausedApproval)
	}
	return s.send(permissionMessage{Type: typeStatus, Data: out})
}

// inboxView shows one page what its caller may decide, in any user's thread.
type inboxView struct {
	*line
	h      *permissionSockets
	caller auth.Caller

	mu    sync.Mutex
	shown map[string]requestJSON // the open ones that the page was sent
	ended map[string]bool        // the settled ones; they may be answered the same way again
}

func newInboxView(h *permissionSockets, l *line, caller auth.Caller) *inboxView {
	return &inboxView{line: l, h: h, caller: caller, shown: make(map[string]requestJSON), ended: make(map[string]bool)}
}

// follow sends what is open, opened and settled, of what is wanted, until the line ends.
func (v *inboxView) follow(wanted func(store.ApprovalChange) bool) {
	follower := v.h.sessions.Inbox().Follow(v.caller.Inbox(), 0)
	defer follower.Close()
	for {
		steps, err := follower.Next(v.ctx)
		switch {
		case v.ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrUnavailable):
			select {
			case <-after(storeRest):
			case <-v.ctx.Done():
				return
			}
			continue
		case err != nil:
			v.end(websocket.CloseTryAgainLater, "")
			return
		}
		for _, step := range steps {
			if step.Kind == inbox.StepSynced || step.Kind != inbox.StepGone && !wanted(step.Change) {
				continue
			}
			if err := v.show(step); err != nil {
				return // the line has ended
			}
		}
	}
}

// maxEnded bounds how many settled questions a page may answer again.
const maxEnded = 1000

// show sends one Step.
func (v *inboxView) show(step inbox.Step) error {
	if step.Kind == inbox.StepGone {
		v.mu.Lock()
		request, known := v.shown[step.ID]
		delete(v.shown, step.ID)
		v.mu.Unlock()
		if !known {
			return nil
		}
		return v.send(permissionMessage{Type: typePermissionDenied, Data: executionJSON{ExecutionID: step.ID, ToolName: request.ToolName, Status: statusGone}})
	}
	q := questionOf(step.Change.Approval)
	if step.Kind == inbox.StepOpened {
		request := requestOf(step.Change.Thread, q)
		v.mu.Lock()
		v.shown[q.Call.ID] = request
		v.mu.Unlock()
		return v.send(permissionMessage{Type: typePermissionRequest, Data: request})
	}
	v.mu.Lock()
	delete(v.shown, q.Call.ID)
	if len(v.ended) >= maxEnded {
		clear(v.ended)
	}
	v.ended[q.Call.ID] = true
	v.mu.Unlock()
	return v.send(settledMessage(q))
}

// questionOf is an Approval as a Question, for those who see nothing else of it.
func questionOf(a store.Approval) inbox.Question {
	return inbox.Question{Call: store.ToolCall{ID: a.ID, SessionID: a.SessionID, TurnID: a.TurnID, Name: a.Tool, Kind: store.KindQuestion}, Approval: a}
}

// open are the questions that the page was sent and that are open, oldest first.
func (v *inboxView) open() []requestJSON {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]requestJSON, 0, len(v.shown))
	for _, request := range v.shown {
		all = append(all, request)
	}
	slices.SortFunc(all, func(a, b requestJSON) int { return strings.Compare(a.ExecutionID, b.ExecutionID) })
	return all
}

// shows reports whether the page was sent the question.
func (v *inboxView) shows(id string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, open := v.shown[id]
	return open || v.ended[id]
}

// respond settles a question that the caller may decide, whether or not the page was sent it yet.
func (v *inboxView) respond(r permissionResponse) error {
	a, err := approvalFor(v.ctx, v.h.store, v.h.sessions, v.caller, v.caller.Inbox(), r.ExecutionID)
	if err != nil {
		return err
	}
	reply, err := v.h.decide(v.ctx, v.caller, v.remote(), a, r)
	if err == nil && reply != nil {
		err = v.send(*reply)
	}
	return err
}
