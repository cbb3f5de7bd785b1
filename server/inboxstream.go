// The inbox as a stream: GET /api/approvals with Accept: text/event-stream. It is lossless for a client that comes
// back with its last id: approval.Feed keeps the order of changes in the database, and this file only turns its steps
// into frames.

package server

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/problem"
	"aqueduct/server/wsconn"
	"aqueduct/store"
)

// The events of GET /api/approvals as a stream. openapi.json has a schema for the data of each (InboxEvent, InboxGone,
// InboxSynced, InboxPolicy), which openapi_schema_test.go compares with the types below. Their ids are positions in the changes of
// approvals and not in a thread's log.
const (
	eventApprovalOpened  = "approval_opened"
	eventApprovalSettled = "approval_settled"
	eventApprovalGone    = "approval_gone"
	eventInboxSynced     = "inbox_synced"
	eventPolicyChanged   = "policy_changed"
)

// inboxQuery narrows the stream. What selects a page of a list has no meaning here. Those members are refused and not
// ignored, so that a client does not believe to follow settled questions alone.
type inboxQuery struct {
	Kind     string `query:"kind" validate:"omitempty,oneof=permission input"`
	Tool     string `query:"tool" validate:"max=200"`
	ThreadID string `query:"thread_id" validate:"max=128"`
	RunID    string `query:"run_id" validate:"omitempty,uuid"`
	Status   string `query:"status" validate:"isdefault"`
	Mine     string `query:"delegated" validate:"isdefault"`
	Limit    string `query:"limit" validate:"isdefault"`
}

// wants reports whether a change is of what the client asked for. An empty member of the query selects all.
func (q inboxQuery) wants(c store.ApprovalChange) bool {
	a := c.Approval
	return (q.Kind == "" || q.Kind == string(a.Kind)) && (q.Tool == "" || q.Tool == a.Tool) &&
		(q.ThreadID == "" || q.ThreadID == c.Thread) && (q.RunID == "" || q.RunID == a.TurnID)
}

// inboxEventJSON is an Approval as the stream gives it: as GET /api/approvals/{id} does, and what a caller who does
// not see its thread wants to know. type repeats the event's name, for clients that read data alone.
type inboxEventJSON struct {
	Type string `json:"type"`
	answer.Approval
	AgentID string `json:"agent_id"`
	User    string `json:"user"` // whose thread it is
	// MayApprove, of an open one: the caller may approve it, and not only reject it.
	MayApprove *bool `json:"may_approve,omitempty"`
}

// inboxGoneJSON is sent for a question that left the caller's inbox without being settled: it was handed to another
// user, or its thread was deleted.
type inboxGoneJSON struct {
	Type       string `json:"type"`
	ApprovalID string `json:"approval_id"`
}

// inboxSyncedJSON ends the beginning of a stream: Open are all questions that are open now. A client drops those that
// it shows and that are not among them; they are not open any more, or not the caller's to decide.
type inboxSyncedJSON struct {
	Type string   `json:"type"`
	Open []string `json:"open"`
	// PolicySHA256 is the hash of the policy file in force; "" is the default, without a file.
	PolicySHA256 string `json:"policy_sha256"`
}

// inboxPolicyJSON is sent when another policy is in force: calls that were asked about may be allowed now, or the reverse.
type inboxPolicyJSON struct {
	Type      string    `json:"type"`
	Before    string    `json:"before_sha256"`
	After     string    `json:"after_sha256"`
	ChangedAt time.Time `json:"changed_at"`
}

// stream is the inbox live: what the caller may decide, as it is opened and settled. A client that comes back gets
// what it missed. A Follower gives each step once. Where the store is away between the step and its frames (who may
// approve has to be read), the steps are kept and tried again; without that the client would never see them.
func (h *approvals) stream(c echo.Context) error {
	var q inboxQuery
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	// A stream that is refused for want of places must not have opened a follower.
	if err := h.out.admit(); err != nil {
		return err
	}
	after, err := h.inboxCursor(c)
	if err != nil {
		return err
	}
	caller := auth.From(c.Request().Context())
	// The follower is opened with the position, so what changed since then comes first and nothing in between is
	// lost.
	follower := h.approvals.Feed.Follow(caller.ReviewInbox(), after)
	defer follower.Close()
	w := &inboxWriter{store: h.store, caller: caller, wants: q.wants}
	// They belong to the one goroutine that streams.
	var steps []approval.Step // that could not be written yet: a follower gives each once
	return h.out.frames(c, caller.Until, func(ctx context.Context) (frames []byte, err error) {
		if len(steps) == 0 {
			if steps, err = follower.Next(ctx); err != nil {
				return nil, err
			}
		}
		// Frames are made of all steps or of none. On an error the steps stay, and the next call tries them again.
		if frames, err = w.frames(ctx, steps); err == nil {
			steps = nil
		}
		return frames, err
	})
}

// inboxCursor is the position that the client has; one that nothing has yet is refused. Such a position is of another
// database: waiting for it would look like an inbox without news.
func (h *approvals) inboxCursor(c echo.Context) (int64, error) {
	after, err := cursorOf(c)
	if err != nil || after == 0 {
		return after, err
	}
	last, err := h.approvals.Feed.Last(c.Request().Context())
	if err == nil && after > last {
		err = problem.Refuse(problem.BeyondLog, "The inbox ends at "+strconv.FormatInt(last, 10)+".")
	}
	return after, err
}

// inboxWriter makes frames of what one caller may decide. One stream's goroutine uses it.
type inboxWriter struct {
	store  store.Store
	caller auth.Caller
	wants  func(store.ApprovalChange) bool
}

// A step without a position, such as the end of the beginning, has no id: the client's last id stays that of the last
// change.
func (w *inboxWriter) frames(ctx context.Context, steps []approval.Step) ([]byte, error) {
	var out []byte
	for _, step := range steps {
		kind, body, err := w.event(ctx, step)
		if err != nil {
			return nil, err
		}
		if body == nil {
			continue
		}
		data, err := wsconn.Marshal(body)
		if err != nil {
			return nil, err
		}
		out = appendFrame(out, position(step.Seq), kind, bytes.TrimSuffix(data, []byte("\n")))
	}
	return out, nil
}

// event is a Step in the stream's words; nil for one that the client did not ask for. A question that is open is
// shown with whether the caller may approve it: four eyes, or a policy that names approvers, may leave only
// rejecting.
func (w *inboxWriter) event(ctx context.Context, step approval.Step) (kind string, body any, err error) {
	switch step.Kind {
	case approval.StepSynced:
		synced := inboxSyncedJSON{Type: eventInboxSynced, Open: []string{}, PolicySHA256: step.Policy.After}
		for _, c := range step.Open {
			if w.wants(c) {
				synced.Open = append(synced.Open, c.Approval.ID)
			}
		}
		return eventInboxSynced, synced, nil
	case approval.StepPolicy:
		p := step.Policy
		return eventPolicyChanged, inboxPolicyJSON{eventPolicyChanged, p.Before, p.After, p.At.UTC()}, nil
	case approval.StepGone:
		return eventApprovalGone, inboxGoneJSON{Type: eventApprovalGone, ApprovalID: step.ID}, nil
	default:
	}
	if !w.wants(step.Change) {
		return "", nil, nil
	}
	kind = eventApprovalSettled
	a := step.Change.Approval
	out := inboxEventJSON{AgentID: step.Change.AgentID, User: step.Change.User}
	// Read now and not kept with the step: a delegation may have begun or ended since the Question was opened.
	if step.Kind == approval.StepOpened {
		kind, a = eventApprovalOpened, asOpened(a)
		may, err := mayApprove(ctx, w.store, a, w.caller.Principal)
		if err != nil {
			return "", nil, err
		}
		out.MayApprove = &may
	}
	out.Type, out.Approval = kind, answer.ApprovalOf(a, step.Change.Thread)
	return kind, out, nil
}

// asOpened is an Approval as it was when it was opened: the decision comes with the event that follows. A client that
// comes back reads an old opening and its settlement one after the other; without this the opening would show the
// decision already.
func asOpened(a store.Approval) store.Approval {
	a.Status, a.DecidedAt, a.DecidedBy, a.DecidedVia = store.ApprovalPending, time.Time{}, "", ""
	a.Decision, a.EditedArgs, a.GrantID, a.Reason = nil, nil, "", ""
	return a
}

// mayApprove reports whether a caller who sees an Approval may also approve it, by the rule of the decision. A
// refusal of the rule is an answer here; any other error is one.
func mayApprove(ctx context.Context, r store.DelegationReader, a store.Approval, who store.Principal) (bool, error) {
	err := approval.MayDecideFor(ctx, r, approval.Question{Approval: a}, approval.Decision{Status: store.ApprovalApproved}, who)
	if fault.CodeOf(err) != "" {
		return false, nil
	}
	return err == nil, err
}
