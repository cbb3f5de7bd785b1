package server

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/inbox"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// The events of GET /api/approvals as a stream.
const (
	eventApprovalOpened  = "approval_opened"
	eventApprovalSettled = "approval_settled"
	eventApprovalGone    = "approval_gone"
	eventInboxSynced     = "inbox_synced"
)

// inboxQuery narrows the stream. What selects a page of a list has no meaning here.
type inboxQuery struct {
	Kind     string `query:"kind" validate:"omitempty,oneof=permission input"`
	Tool     string `query:"tool" validate:"max=200"`
	ThreadID string `query:"thread_id" validate:"max=128"`
	RunID    string `query:"run_id" validate:"omitempty,uuid"`
	Status   string `query:"status" validate:"isdefault"`
	Mine     string `query:"delegated" validate:"isdefault"`
	Limit    string `query:"limit" validate:"isdefault"`
}

func (q inboxQuery) wants(c store.ApprovalChange) bool {
	a := c.Approval
	return (q.Kind == "" || q.Kind == string(a.Kind)) && (q.Tool == "" || q.Tool == a.Tool) &&
		(q.ThreadID == "" || q.ThreadID == c.Thread) && (q.RunID == "" || q.RunID == a.TurnID)
}

// inboxEventJSON is an Approval as the stream gives it: as GET /api/approvals/{id} does, and
// what a caller who does not see its thread wants to know.
type inboxEventJSON struct {
	Type string `json:"type"`
	approvalJSON
	AgentID string `json:"agent_id"`
	User    string `json:"user"` // whose thread it is
	// MayApprove, of an open one: the caller may approve it, and not only reject it.
	MayApprove *bool `json:"may_approve,omitempty"`
}

type inboxGoneJSON struct {
	Type       string `json:"type"`
	ApprovalID string `json:"approval_id"`
}

type inboxSyncedJSON struct {
	Type string   `json:"type"`
	Open []string `json:"open"`
}

// stream is the inbox live: what the caller may decide, as it is opened and settled. A client
// that comes back gets what it missed.
func (h *approvals) stream(c echo.Context) error {
	var q inboxQuery
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	if err := h.out.admit(); err != nil {
		return err
	}
	after, err := h.inboxCursor(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	caller := auth.From(ctx)
	follower := h.sessions.Inbox().Follow(caller.ReviewInbox(), after)
	defer follower.Close()
	w := &inboxWriter{store: h.store, caller: caller, wants: q.wants}
	var steps []inbox.Step // that could not be written yet: a follower gives each once
	return h.out.frames(c, caller.Until, func(ctx context.Context) (frames []byte, err error) {
		if len(steps) == 0 {
			if steps, err = follower.Next(ctx); err != nil {
				return nil, err
			}
		}
		if frames, err = w.frames(ctx, steps); err == nil {
			steps = nil
		}
		return frames, err
	})
}

// inboxCursor is the position that the client has; one that nothing has yet is refused.
func (h *approvals) inboxCursor(c echo.Context) (int64, error) {
	after, err := cursorOf(c)
	if err != nil || after == 0 {
		return after, err
	}
	last, err := h.sessions.Inbox().Last(c.Request().Context())
	if err == nil && after > last {
		err = refuse(codeBeyondLog, "The inbox ends at "+strconv.FormatInt(last, 10)+".")
	}
	return after, err
}

// inboxWriter makes frames of what one caller may decide.
type inboxWriter struct {
	store  store.Store
	caller auth.Caller
	wants  func(store.ApprovalChange) bool
}

func (w *inboxWriter) frames(ctx context.Context, steps []inbox.Step) ([]byte, error) {
	var out []byte
	for _, step := range steps {
		kind, body, err := w.event(ctx, step)
		if err != nil {
			return nil, err
		}
		if body == nil {
			continue
		}
		data, err := plainText(body)
		if err != nil {
			return nil, err
		}
		out = appendFrame(out, position(step.Seq), kind, bytes.TrimSuffix(data, []byte("\n")))
	}
	return out, nil
}

// event is a Step in the stream's words; nil for one that the client did not ask for.
func (w *inboxWriter) event(ctx context.Context, step inbox.Step) (kind string, body any, err error) {
	switch step.Kind {
	case inbox.StepSynced:
		synced := inboxSyncedJSON{Type: eventInboxSynced, Open: []string{}}
		for _, c := range step.Open {
			if w.wants(c) {
				synced.Open = append(synced.Open, c.Approval.ID)
			}
		}
		return eventInboxSynced, synced, nil
	case inbox.StepGone:
		return eventApprovalGone, inboxGoneJSON{Type: eventApprovalGone, ApprovalID: step.ID}, nil
	}
	if !w.wants(step.Change) {
		return "", nil, nil
	}
	kind = eventApprovalSettled
	a := step.Change.Approval
	out := inboxEventJSON{AgentID: step.Change.AgentID, User: step.Change.User}
	if step.Kind == inbox.StepOpened {
		kind, a = eventApprovalOpened, asOpened(a)
		may, err := mayApprove(ctx, w.store, a, w.caller.Principal)
		if err != nil {
			return "", nil, err
		}
		out.MayApprove = &may
	}
	out.Type, out.approvalJSON = kind, approvalOut(a, step.Change.Thread)
	return kind, out, nil
}

// asOpened is an Approval as it was when it was opened: the decision comes with the event that
// follows.
func asOpened(a store.Approval) store.Approval {
	a.Status, a.DecidedAt, a.DecidedBy, a.DecidedVia = store.ApprovalPending, time.Time{}, "", ""
	a.Decision, a.EditedArgs, a.GrantID, a.Reason = nil, nil, "", ""
	return a
}

// mayApprove reports whether a caller who sees an Approval may also approve it, by the rule of
// the decision.
func mayApprove(ctx context.Context, r store.DelegationReader, a store.Approval, who store.Principal) (bool, error) {
	err := inbox.MayDecideFor(ctx, r, inbox.Question{Approval: a}, inbox.Decision{Status: store.ApprovalApproved}, who)
	var unclear *inbox.Unclear
	if errors.As(err, &unclear) {
		return false, nil
	}
	return err == nil, err
}
