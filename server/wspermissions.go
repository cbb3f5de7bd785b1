// The permission sockets: one page, one thread, and its questions as they are asked, answered and run. The socket
// reads rows of the store after each ring of the thread's bell and compares them with what the page knows, so a lost
// ring or a restart loses nothing. Messages and answers are in wspermissions_message.go, the socket across all
// threads in wspermissions_inbox.go.

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
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/internal/retry"
	"aqueduct/server/auth"
	"aqueduct/server/channel"
	"aqueduct/server/decode"
	"aqueduct/server/limit"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/server/wsconn"
	"aqueduct/store"
)

// permissionSockets is /ws/permissions/{session_id}, and the same under the name that the permission contract has:
// the questions of one thread apart from its chat. One serves all sockets and keeps nothing of them; what a page
// knows is in its permissionSocket.
type permissionSockets struct {
	sessions  *bridge.Sessions
	approvals *approval.Service
	store     store.Store
	auth      *auth.Auth
	in        *decode.Decoder
	open      *limit.Sockets
	log       *slog.Logger
}

// Mount adds the sockets under both of their names, for users and approvers.
func (h *permissionSockets) Mount(to *route.Routes) {
	to.Deciders(http.MethodGet, "/ws/permissions/:session_id", withID("session_id", h.get))
	to.Deciders(http.MethodGet, "/agent_backend/ws/:session_id", withID("session_id", h.get))
	to.Deciders(http.MethodGet, "/ws/permissions", h.inbox)
	to.Deciders(http.MethodGet, "/agent_backend/ws", h.inbox)
}

// The thread need not exist yet, and may be another user's of which the caller may decide some questions.
func (h *permissionSockets) get(c echo.Context, id string) error {
	return h.serve(c, func(conn *wsconn.Conn, caller auth.Caller) {
		s := &permissionSocket{
			Conn: conn, h: h, c: c, thread: id, caller: caller, in: caller.Scope(),
			pending: make(map[string]bool), running: make(map[string]bool), others: newInboxView(h, conn, caller),
		}
		s.serve()
	})
}

// serve makes the request a socket of its caller and runs talk until the socket ends. The place of the socket is
// taken before the upgrade: afterwards a refusal could only be a close code, which pages do not show.
func (h *permissionSockets) serve(c echo.Context, talk func(*wsconn.Conn, auth.Caller)) error {
	if err := wsconn.CheckUpgrade(c.Request()); err != nil {
		return err
	}
	caller := auth.From(c.Request().Context())
	slot, err := h.open.Admit(caller.Principal)
	if err != nil {
		return err
	}
	defer slot.Leave()
	conn, err := wsconn.Open(c, h.in.Limits)
	if err != nil {
		return err
	}
	conn.EndAt(caller.Until)
	conn.EndWith(c.Request().Context())
	conn.Serve(h.open.Draining, func() { talk(conn, caller) })
	return nil
}

// permissionPage is what a page's messages act on: one thread, or everything that its caller may decide. Both are
// called by the socket's reading goroutine.
type permissionPage interface {
	respond(r permissionResponse) error
	status() error
}

// handle does what one message asks for, and sends why it was not done. A message that cannot be done does not end
// the socket; the page gets an error with the execution's id and may try again.
func (h *permissionSockets) handle(c echo.Context, conn *wsconn.Conn, page permissionPage, raw []byte) {
	var frame permissionFrame
	err := h.in.Message(raw, &frame)
	if err == nil {
		switch frame.Type {
		case typePermissionResponse:
			err = page.respond(frame.Data)
		case typeGetStatus:
			err = page.status()
		case typeTicket: // of a page that sends one wherever it runs; none was needed
		default:
			err = fault.New(problem.UnknownType, "There is no message of that type.")
		}
	}
	if err != nil {
		h.fail(c, conn, frame.Data.ExecutionID, err)
	}
}

// fail sends an error in the form of this socket. Faults of the server are logged, and the page gets the id of the
// log line.
func (h *permissionSockets) fail(c echo.Context, conn *wsconn.Conn, executionID string, err error) {
	out := failureJSON{ExecutionID: executionID}
	out.Code, out.Message = problem.OnChannel(h.log, c, err)
	_ = conn.Send(permissionMessage{Type: typeError, Data: out}) // the connection ends by itself when it cannot be sent
}

// viaPermissions is the surface that decisions of this socket come through. It stands in decided_via and in the
// audit.
const viaPermissions = "permissions"

// permissionSocket is one page's. Two goroutines use it: the reader answers messages, the watcher owns pending,
// running and looked. Its end is that of the connection.
type permissionSocket struct {
	*wsconn.Conn
	h      *permissionSockets
	c      echo.Context
	thread string
	caller auth.Caller
	in     store.Scope

	// What the page knows; the watcher's alone.
	pending map[string]bool // asked and not known to be settled
	running map[string]bool // approved, and run by us
	looked  time.Time       // whether the thread is there

	// others are the questions of a thread of that name which is not the caller's own. It is followed only when the
	// caller has no thread of that name.
	others *inboxView
}

// serve runs both goroutines until the connection ends. A thread that is not the caller's own, or not there, is
// followed through the inbox as well: the caller may be its approver. Both may be true in turn, so the watcher goes
// on looking for a thread of that name.
func (s *permissionSocket) serve() {
	// Looked up before any message is handled: a thread that is deleted later has then been seen.
	session, err := s.session(s.Ctx)
	if errors.Is(err, store.ErrNotFound) {
		s.Tasks.Go(func() {
			// Questions of the caller's own threads are left to the watcher, or the page would be asked twice once
			// the thread exists.
			s.others.follow(func(c store.ApprovalChange) bool {
				return c.User != s.caller.Principal.User && (c.Thread == s.thread || c.Approval.SessionID == s.thread)
			})
		})
	}
	s.Tasks.Go(func() {
		if err := s.watch(s.Ctx, session, err); err != nil && s.Ctx.Err() == nil {
			s.h.fail(s.c, s.Conn, "", err)
			s.End(websocket.CloseTryAgainLater, "")
		}
	})
	_ = s.Read(func(raw []byte) error {
		s.h.handle(s.c, s.Conn, s, raw)
		return s.Ctx.Err()
	})
}

const (
	// lookForThread is how often a thread is looked for that is not there yet: pages connect before the first message
	// is sent. A page that waits for its first message costs one read a second.
	lookForThread = time.Second
	// restBetweenLooks bounds how often a thread that is talking is looked at.
	restBetweenLooks = 50 * time.Millisecond
)

// watch sends the page what is asked and what was settled, until the thread is deleted. A thread that does not exist
// yet is waited for. A store that is away is waited for in the same way.
func (s *permissionSocket) watch(ctx context.Context, session store.Session, err error) error {
	for ; err != nil; session, err = s.session(ctx) {
		if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		if err := retry.Sleep(ctx, lookForThread); err != nil {
			return err
		}
	}
	// The bell is watched before the first look, so nothing that happens in between is missed.
	bell, stop := s.h.sessions.Feeds().Watch(session.ID)
	defer stop()
	for {
		err := s.look(ctx, session)
		switch {
		case errors.Is(err, store.ErrNotFound):
			s.End(websocket.CloseNormalClosure, problem.NotFound)
			return nil
		case err != nil && !errors.Is(err, store.ErrUnavailable): // the bell rings again
			return err
		}
		if err := awaitRing(ctx, bell); err != nil {
			return err
		}
	}
}

// awaitRing waits for the bell, and for restBetweenLooks before it: rings in that time are one. A running agent rings
// for every delta; without the pause each of them would cost the queries of a look.
func awaitRing(ctx context.Context, bell <-chan struct{}) error {
	if err := retry.Sleep(ctx, restBetweenLooks); err != nil {
		return err
	}
	select {
	case <-bell:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// session reads the page's thread, by the client's id, in the caller's own scope.
func (s *permissionSocket) session(ctx context.Context) (store.Session, error) {
	return s.h.store.SessionByExternalID(ctx, s.in, s.thread)
}

// look compares what is open with what the page knows. A Session that is deleted leaves no open calls and no error,
// which is why it is looked for by itself now and then. It is called again with the same state after an error: what
// was sent is in pending, so nothing is asked twice.
func (s *permissionSocket) look(ctx context.Context, session store.Session) error {
	if time.Since(s.looked) > channel.SessionCheckEvery {
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
		// It is set before the message is sent: when the send fails the socket has ended, and the next one begins
		// anew.
		s.pending[q.Call.ID] = true
		if err := s.send(typePermissionRequest, requestOf(s.thread, q)); err != nil {
			return err
		}
	}
	return s.settled(ctx, still)
}

// settled sends how the questions ended that are no longer open. An id leaves pending only after its row was read;
// when the store fails in between, the next look finds it again.
func (s *permissionSocket) settled(ctx context.Context, still map[string]bool) error {
	for id := range s.pending {
		if still[id] {
			continue
		}
		q, err := approval.Load(ctx, s.h.store, s.in, id)
		if err != nil {
			return err
		}
		delete(s.pending, id)
		// A call that an agent executes itself has no end that is known here, so only calls of this server's own
		// tools are followed.
		s.running[id] = q.IsToolCall() && q.Approval.Status == store.ApprovalApproved
		if err := s.Send(settledMessage(q)); err != nil {
			return err
		}
	}
	return s.ran(ctx)
}

// ran sends the results of approved tools that this server executes. A call that still runs is looked at again after
// the next ring, which its end causes.
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
		err = s.send(typeExecutionResult, executionJSON{
			ExecutionID: id, ToolName: call.Name, Status: string(call.Status), Result: call.Result, Code: call.ErrorCode,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// asked are the questions of a Session that wait for a person, oldest first. A client's own tools are no questions of
// permission and are left out.
func (h *permissionSockets) asked(ctx context.Context, in store.Scope, sessionID string) ([]approval.Question, error) {
	calls, err := h.store.OpenToolCalls(ctx, in, sessionID)
	if err != nil {
		return nil, err
	}
	var all []approval.Question
	for _, call := range calls {
		if call.Status != store.ToolWaitingApproval {
			continue // a client's tool: no person is asked
		}
		q, err := approval.Of(ctx, h.store, in, call)
		if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	return all, nil
}
