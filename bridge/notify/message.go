package notify

import (
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// The types of Messages.
const (
	QuestionOpened  = "question.opened"
	QuestionSettled = "question.settled"
	QuestionExpired = "question.expired"
)

// Types lists them.
func Types() []string {
	return []string{QuestionOpened, QuestionSettled, QuestionExpired, AuditHead, PolicyChanged}
}

// Message is the body of a notice about a Question. It holds no argument's value, because that may be secret: a reader who
// needs the arguments opens the Question here.
type Message struct {
	Type       string     `json:"type"`
	ID         string     `json:"id"`
	ThreadID   string     `json:"thread_id"`
	Kind       string     `json:"kind"`
	Tool       string     `json:"tool,omitempty"`
	Title      string     `json:"title,omitempty"`
	Risk       string     `json:"risk,omitempty"`
	ArgsSHA256 string     `json:"args_sha256,omitempty"`
	Warnings   []string   `json:"warnings,omitempty"` // codes alone: they hold no value
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	Status     string     `json:"status,omitempty"`
	DecidedBy  string     `json:"decided_by,omitempty"`
	DecidedVia string     `json:"decided_via,omitempty"`
	DecidedAt  *time.Time `json:"decided_at,omitempty"`
	Link       string     `json:"link,omitempty"`
}

// messageOf is a Question as it stands.
func messageOf(q approval.Question, s store.Session) Message {
	a := q.Approval
	m := Message{
		Type: QuestionOpened, ID: a.ID, ThreadID: s.ExternalID, Kind: string(a.Kind), Tool: a.Tool, Title: a.Title, Risk: a.Risk,
		ArgsSHA256: a.ArgsSHA256, Warnings: approval.ShownOf(a).Warnings, CreatedAt: a.CreatedAt.UTC(), ExpiresAt: moment(a.ExpiresAt),
	}
	if a.Status == store.ApprovalPending {
		return m
	}
	m.Type = QuestionSettled
	if a.Status == store.ApprovalExpired {
		m.Type = QuestionExpired
	}
	m.Status, m.DecidedBy, m.DecidedVia, m.DecidedAt = string(a.Status), a.DecidedBy, a.DecidedVia, moment(a.DecidedAt)
	return m
}

// moment is a time in UTC, nil for none: omitempty leaves out a nil pointer, but no zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// approverOf is the user a decision link may be made for: the owner of the Question, or its delegate. It is "" where the
// prompter may not decide (four eyes, named approvers), and where the answer needs more than a click.
func approverOf(a store.Approval, s store.Session, now time.Time) string {
	switch {
	case a.Kind != store.ApprovalPermission || a.Status != store.ApprovalPending:
		return ""
	case a.DelegatedTo != "" && (a.DelegatedUntil.IsZero() || now.Before(a.DelegatedUntil)):
		return a.DelegatedTo
	case a.FourEyes || len(a.Approvers) > 0:
		return ""
	}
	return s.User
}
