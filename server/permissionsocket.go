package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// permissionSockets is /ws/permissions/{session_id}, and the same under the name that the
// permission contract has: the questions of one thread apart from its chat.
type permissionSockets struct {
	sessions *bridge.Sessions
	store    store.Store
	auth     *auth.Auth
	in       *intake
	open     *sockets
	log      *slog.Logger
}

func (h *permissionSockets) mount(to *routes) {
	to.deciders(http.MethodGet, "/ws/permissions/:session_id", h.get)
	to.deciders(http.MethodGet, "/agent_backend/ws/:session_id", h.get)
	to.deciders(http.MethodGet, "/ws/permissions", h.inbox)
	to.deciders(http.MethodGet, "/agent_backend/ws", h.inbox)
}

func (h *permissionSockets) get(c echo.Context) error {
	id, err := pathID(c, "session_id")
	if err != nil {
		return err
	}
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
	s := &permissionSocket{
		line: l, h: h, c: c, thread: id, caller: caller, in: caller.Scope(),
		pending: make(map[string]bool), running: make(map[string]bool), others: newInboxView(h, l, caller),
	}
	l.endAt(caller.Until)
	l.endWith(c.Request().Context())
	l.serve(h.open.draining, s.talk)
	return nil
}

// viaPermissions is the surface that decisions of this socket come through.
const viaPermissions = "permissions"

// permissionSocket is one page's.
type permissionSocket struct {
	*line
	h      *permissionSockets
	c      echo.Context
	thread string
	caller auth.Caller
	in     store.Scope

	// What the page knows; the watcher's alone.
	pending map[string]bool // asked and not known to be settled
	running map[string]bool // approved, and run by us
	looked  time.Time       // whether the thread is there

	// others are the questions of a thread of that name which is not the caller's own.
	others *inboxView
}

func (s *permissionSocket) talk() {
	// Before anything is heard: a thread that is deleted later has then been seen.
	session, err := s.session(s.ctx)
	if errors.Is(err, store.ErrNotFound) {
		s.tasks.Go(func() {
			s.others.follow(func(c store.ApprovalChange) bool {
				return c.User != s.caller.Principal.User && (c.Thread == s.thread || c.Approval.SessionID == s.thread)
			})
		})
	}
	s.tasks.Go(func() {
		if err := s.watch(s.ctx, session, err); err != nil && s.ctx.Err() == nil {
			s.fail("", err)
			s.end(websocket.CloseTryAgainLater, "")
		}
	})
	_ = s.read(func(raw []byte) error {
		s.hear(raw)
		return s.ctx.Err()
	})
}

const (
	// lookForThread is how often a thread is looked for that is not there yet: pages connect
	// before the first message is sent.
	lookForThread = time.Second
	// restBetweenLooks bounds how often a thread that is talking is looked at.
	restBetweenLooks = 50 * time.Millisecond
)

// watch tells the page what is asked and what was settled, until the thread is deleted. One
// that was not found is waited for.
func (s *permissionSocket) watch(ctx context.Context, session store.Session, err error) error {
	for ; err != nil; session, err = s.session(ctx) {
		if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		select {
		case <-after(lookForThread):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	bell, stop := s.h.sessions.Overhear(session.ID)
	defer stop()
	for {
		err := s.look(ctx, session)
		switch {
		case errors.Is(err, store.ErrNotFound):
			s.end(websocket.CloseNormalClosure, codeNotFound)
			return nil
		case err != nil && !errors.Is(err, store.ErrUnavailable): // the bell rings again
			return err
		}
		for _, again := range []<-chan struct{}{after(restBetweenLooks), bell} {
			select {
			case <-again:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func after(d time.Duration) <-chan struct{} {
	ch := make(chan struct{})
	time.AfterFunc(d, func() { close(ch) })
	return ch
}

func (s *permissionSocket) session(ctx context.Context) (store.Session, error) {
	return s.h.store.SessionByExternalID(ctx, s.in, s.thread)
}

// look compares what is open with what the page knows.
func (s *permissionSocket) look(ctx context.Context, session store.Session) error {
	if time.Since(s.looked) > lookForSession {
		s.looked = time.Now()
		if _, err := s.h.store.Session(ctx, s.in, session.ID); err != nil {
			return err
		}
	}
	open, err := s.h.asked(ctx, s.in, session.ID)
	if err != nil {
		return err
	}
	still := make(map[string]bool, len(open))
	for _, q := range open {
		still[q.Call.ID] = true
		if s.pending[q.Call.ID] {
			continue
		}
		s.pending[q.Call.ID] = true
		if err := s.say(typePermissionRequest, s.request(q)); err != nil {
			return err
		}
	}
	return s.settled(ctx, still)
}

// settled tells what became of what is not asked any more.
func (s *permissionSocket) settled(ctx context.Context, still map[string]bool) error {
	for id := range s.pending {
		if still[id] {
			continue
		}
		q, err := inbox.Load(ctx, s.h.store, s.in, id)
		if err != nil {
			return err
		}
		delete(s.pending, id)
		s.running[id] = q.Proxied() && q.Approval.Status == store.ApprovalApproved
		if err := s.tellSettled(q); err != nil {
			return err
		}
	}
	return s.ran(ctx)
}

// ran tells what came of tools that were approved and are run by us.
func (s *permissionSocket) ran(ctx context.Context) error {
	for id, running := range s.running {
		if !running {
			delete(s.running, id)
			continue
		}
		call, err := s.h.store.ToolCall(ctx, s.in, id)
		if err != nil {
			return err
		}
		if !call.Status.Terminal() {
			continue
		}
		delete(s.running, id)
		err = s.say(typeExecutionResult, executionJSON{
			ExecutionID: id, ToolName: call.Name, Status: string(call.Status), Result: call.Result, Code: call.ErrorCode,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// asked are the questions of a Session that wait for a person, oldest first.
func (h *permissionSockets) asked(ctx context.Context, in store.Scope, sessionID string) ([]inbox.Question, error) {
	calls, err := h.store.OpenToolCalls(ctx, in, sessionID)
	if err != nil {
		return nil, err
	}
	var all []inbox.Question
	for _, call := range calls {
		if call.Status != store.ToolWaitingApproval {
			continue // a client's tool: no person is asked
		}
		q, err := inbox.Of(ctx, h.store, in, call)
		if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	return all, nil
}
