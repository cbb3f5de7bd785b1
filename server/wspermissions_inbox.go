// The permission socket without a thread: everything that its user may decide. It follows approval.Feed, like the SSE
// inbox, and has no positions: a page that comes back gets all open questions anew.

package server

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/bridge/approval"
	"aqueduct/internal/retry"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/channel"
	"aqueduct/server/wsconn"
	"aqueduct/store"
)

// statusGone is that of a question that the page may no longer decide: it was delegated to another user, the
// delegation has ended, or the thread was deleted. No status of the store has this name: the question itself may
// still be open for others.
const statusGone = "GONE"

// inbox is /ws/permissions without a session: the questions of every thread that the caller may decide. Its messages
// are those of the socket of one thread.
func (h *permissionSockets) inbox(c echo.Context) error {
	return h.serve(c, func(conn *wsconn.Conn, caller auth.Caller) {
		s := &inboxSocket{inboxView: newInboxView(h, conn, caller), c: c}
		s.serve()
	})
}

// inboxSocket is one page's. It answers as well; the view only shows.
type inboxSocket struct {
	*inboxView
	c echo.Context
}

// serve follows the feed in a goroutine of its own while this one reads the page's messages.
func (s *inboxSocket) serve() {
	s.Tasks.Go(func() { s.follow(func(store.ApprovalChange) bool { return true }) })
	_ = s.Read(func(raw []byte) error {
		s.h.handle(s.c, s.Conn, s, raw)
		return s.Ctx.Err()
	})
}

// status answers get_agent_status with all open questions; an inbox has no agent, so its state is only whether any is
// open.
func (s *inboxSocket) status() error {
	out := statusJSON{State: stateIdle, Pending: s.open()}
	if len(out.Pending) > 0 {
		out.State = channel.WireState(store.TurnPausedApproval)
	}
	return s.Send(permissionMessage{Type: typeStatus, Data: out})
}

// inboxView shows one page what its caller may decide, in any user's thread. The following goroutine changes shown
// and ended and the reading one asks for them, so mu guards both. Nothing is sent with mu held: a slow page would
// block the other goroutine.
type inboxView struct {
	*wsconn.Conn
	h      *permissionSockets
	caller auth.Caller

	mu    sync.Mutex
	shown map[string]requestJSON // the open ones that the page was sent
	ended map[string]bool        // the settled ones; they may be answered the same way again
}

// newInboxView makes a view that shows nothing yet; follow fills it. The maps are the view's own and not shared
// between sockets of one user.
func newInboxView(h *permissionSockets, l *wsconn.Conn, caller auth.Caller) *inboxView {
	return &inboxView{Conn: l, h: h, caller: caller, shown: make(map[string]requestJSON), ended: make(map[string]bool)}
}

// follow sends what is open, opened and settled, of what is wanted, until the line ends. An unavailable store is
// waited out, since the follower goes on where it was. Other errors close the socket with a code upon which pages
// connect again.
func (v *inboxView) follow(wanted func(store.ApprovalChange) bool) {
	// From 0 it begins with all that is open now, which a page without a position needs each time it comes.
	follower := v.h.approvals.Feed.Follow(v.caller.Inbox(), 0)
	defer follower.Close()
	for {
		steps, err := follower.Next(v.Ctx)
		switch {
		case v.Ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrUnavailable):
			_ = retry.Sleep(v.Ctx, retry.Pause) // Next returns at once when the context has ended
			continue
		case err != nil:
			v.End(websocket.CloseTryAgainLater, "")
			return
		}
		for _, step := range steps {
			if step.Kind == approval.StepSynced || step.Kind == approval.StepPolicy || step.Kind != approval.StepGone && !wanted(step.Change) {
				continue
			}
			if err := v.show(step); err != nil {
				return // the line has ended
			}
		}
	}
}

// maxEnded bounds how many settled questions a page may answer again. Beyond it the page has to read the decision
// elsewhere; clearing all at once is good enough for a number that no person reaches.
const maxEnded = 1000

// show sends one Step. A question that is gone was sent to this page or not at all: for one that the page does not
// know nothing is sent. The maps are changed before the message goes out, so that an answer which comes at once finds
// its question.
func (v *inboxView) show(step approval.Step) error {
	if step.Kind == approval.StepGone {
		v.mu.Lock()
		request, known := v.shown[step.ID]
		delete(v.shown, step.ID)
		v.mu.Unlock()
		if !known {
			return nil
		}
		return v.Send(permissionMessage{Type: typePermissionDenied, Data: executionJSON{ExecutionID: step.ID, ToolName: request.ToolName, Status: statusGone}})
	}
	q := questionOf(step.Change.Approval)
	if step.Kind == approval.StepOpened {
		request := requestOf(step.Change.Thread, q)
		v.mu.Lock()
		v.shown[q.Call.ID] = request
		v.mu.Unlock()
		return v.Send(permissionMessage{Type: typePermissionRequest, Data: request})
	}
	v.mu.Lock()
	delete(v.shown, q.Call.ID)
	if len(v.ended) >= maxEnded {
		clear(v.ended)
	}
	v.ended[q.Call.ID] = true
	v.mu.Unlock()
	return v.Send(settledMessage(q))
}

// questionOf is an Approval as a Question, for those who see nothing else of it. The arguments, options and schema
// are in the Approval; of the call only the ids and the tool's name are needed here.
func questionOf(a store.Approval) approval.Question {
	return approval.Question{Call: store.ToolCall{ID: a.ID, SessionID: a.SessionID, TurnID: a.TurnID, Name: a.Tool, Kind: store.KindQuestion}, Approval: a}
}

// open are the questions that the page was sent and that are open, oldest first. Ids grow with time, so their order
// is that of asking.
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

// respond settles a question that the caller may decide, whether or not the page was sent it yet. Its scope is the
// caller's inbox, read anew: a delegation may have ended since the question was shown.
func (v *inboxView) respond(r permissionResponse) error {
	a, err := answer.FindApproval(v.Ctx, v.h.store, v.h.approvals, v.caller, v.caller.Inbox(), r.ExecutionID)
	if err != nil {
		return err
	}
	return v.h.decide(v.Conn, v.caller, a, r)
}
