package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"aqueduct/bridge/audit"
	"aqueduct/policy"
	"aqueduct/store"
)

// Settler settles Questions. It is the one way: whoever decides, a person on any surface, an expiry, a cancel, the
// Agent itself or the end of one, calls Apply.
type Settler struct {
	Notices Notices
	// Calls does what follows for a ToolCall that we run; nil without any.
	Calls Calls
	// Policy is the one in force; nil for none.
	Policy func() *policy.Policy
	// AskerThere says whether the Agent that a ToolCall of ours is for can still get its result.
	AskerThere func(ctx context.Context, tx store.Tx, turn store.Turn) (bool, error)
	// NewID makes the id of a Grant.
	NewID func() string
	// Once is told when an "always" was taken for once: the call cannot be told apart from others.
	Once func(approvalID string, why error)
}

// Calls is what settling a Question means for the ToolCall it is about.
type Calls interface {
	// Settled carries on in the same transaction.
	Settled(ctx context.Context, tx store.Tx, q Question, now time.Time) error
	// Judged is what the policy in force says of the call that a Question is about.
	Judged(ctx context.Context, r store.Reader, session store.Session, q Question) (policy.Verdict, error)
	// Edited brings changed arguments into the form they will run in.
	Edited(ctx context.Context, r store.Reader, session store.Session, q Question, edited json.RawMessage) (args json.RawMessage, sha string, err error)
}

// Apply settles one Question, once, in the caller's transaction: it authorizes, moves the rows by compare-and-set,
// keeps a Grant, takes the consequence for a ToolCall of ours, and writes notice and audit. The caller has locked the
// Session, whose Question q is as read since. who is the deciding person; with no User it is the system.
//
// The audit comes last: it holds up every other transaction that writes one.
func (s *Settler) Apply(ctx context.Context, tx store.Tx, session store.Session, q Question, d Decision, who store.Principal) (Settled, error) {
	if q.Open() {
		if err := s.authorize(ctx, tx, session, q, &d, who); err != nil {
			return Settled{Question: q}, err
		}
	}
	now := time.Now()
	settled, err := Settle(ctx, tx, q, d, now)
	if err != nil || !settled.Won {
		return settled, err
	}
	grant := ""
	if d.Option.Kind == AllowAlways && d.Status == store.ApprovalApproved {
		if grant, err = s.createGrant(ctx, tx, session, settled.Question, d, now); err != nil {
			return settled, err
		}
	}
	if q.Proxied() && s.Calls != nil {
		if err := s.Calls.Settled(ctx, tx, settled.Question, now); err != nil {
			return settled, err
		}
	}
	if err := EndTurnOn(ctx, tx, settled.Question.Call, s.NewID, now); err != nil {
		return settled, err
	}
	if err := s.Notices.Insert(ctx, tx, settled.Question, session); err != nil {
		return settled, err
	}
	return settled, writeAudit(ctx, tx, session, settled.Question, d, who, grant, now)
}

// authorize says whether the decider may decide so. It reads by the transaction: a further connection, which all
// others may hold while they wait for this one, might never come.
func (s *Settler) authorize(ctx context.Context, tx store.Tx, session store.Session, q Question, d *Decision, who store.Principal) (err error) {
	if who.User != "" && d.CancelledBy == "" {
		if err := MayDecideFor(ctx, tx, q, *d, who); err != nil {
			return err
		}
	}
	if d.Status == store.ApprovalApproved && q.Proxied() && !q.Outlives() {
		turn, err := tx.Turn(ctx, store.System(), q.Call.TurnID)
		if err != nil {
			return err
		}
		if turn.Status.Terminal() {
			return &Unclear{Code: AskerLost, Message: "The run this call belongs to has ended: nobody waits for it."}
		}
		there, err := s.AskerThere(ctx, tx, turn)
		if err != nil {
			return err
		}
		if !there {
			return &Unclear{Code: AskerLost, Message: "The agent that asked is gone: nobody waits for this call."}
		}
	}
	if d.Edited == nil {
		return s.judgeAgain(ctx, tx, session, q, *d)
	}
	if !q.Approval.MayEdit || !q.Proxied() || s.Calls == nil {
		return &Unclear{Code: EditRefused, Message: "The arguments of this call may not be changed."}
	}
	d.Edited, d.SHA256, err = s.Calls.Edited(ctx, tx, session, q, d.Edited)
	return err
}

// judgeAgain refuses an approval of what the policy in force blocks: the Question was asked under the policy of its time,
// which may have been replaced because of it.
func (s *Settler) judgeAgain(ctx context.Context, r store.Reader, session store.Session, q Question, d Decision) error {
	if d.Status != store.ApprovalApproved || q.Approval.Kind != store.ApprovalPermission {
		return nil
	}
	v, err := s.judged(ctx, r, session, q)
	if err != nil || v.Action != policy.Block {
		return err
	}
	return &Unclear{Code: PolicyBlocks, Message: "The policy in force blocks this: " + v.Reason}
}

func (s *Settler) judged(ctx context.Context, r store.Reader, session store.Session, q Question) (v policy.Verdict, err error) {
	switch {
	case q.Proxied() && s.Calls != nil:
		return s.Calls.Judged(ctx, r, session, q)
	case q.Proxied() || s.Policy == nil:
		return v, nil
	}
	turn, err := r.Turn(ctx, store.System(), q.Call.TurnID)
	if err != nil {
		return v, err
	}
	session.AgentID = turn.AgentID
	call := CallOf(q, session)
	call.Kind, call.By = q.Approval.ToolKind, Prompter(session, turn)
	return s.Policy().Decide(call, nil, time.Now()), nil
}

// createGrant keeps an "always" as a Grant: for this call, in this Session. What cannot be told
// apart from other calls is allowed this once only.
func (s *Settler) createGrant(ctx context.Context, tx store.Tx, session store.Session, q Question, d Decision, now time.Time) (id string, err error) {
	turn, err := tx.Turn(ctx, store.System(), q.Call.TurnID)
	if err != nil {
		return "", err
	}
	session.AgentID = turn.AgentID // the one that asked
	g, err := policy.GrantFor(CallOf(q, session), policy.ForSession)
	if err != nil {
		s.Once(q.Call.ID, err)
		return "", nil
	}
	id = s.NewID()
	return id, tx.InsertGrant(ctx, GrantRow(id, g, d.By, now))
}

// EndTurnOn asks the Session's owner to end the Turn of a ToolCall that failed, where its tool wants that, however it
// failed: run, blocked, rejected, expired or with nobody there to run it.
func EndTurnOn(ctx context.Context, tx store.Tx, call store.ToolCall, newID func() string, now time.Time) error {
	failed := call.Status == store.ToolFailed || call.Status == store.ToolTimeout || call.Status == store.ToolBlocked
	if call.OnFailure != store.FailureEndsRun || !failed || call.ErrorCode == CodeAskerGone {
		return nil
	}
	return tx.InsertCommand(ctx, store.Command{
		ID: newID(), SessionID: call.SessionID, TurnID: call.TurnID, Kind: store.CommandFail, CreatedAt: now,
		Payload: mustJSON(map[string]string{"code": "tool_failed", "message": "The tool " + call.Name + " failed (" + call.ErrorCode + ")."}),
	})
}

// writeAudit writes down who decided what. A client's tool gave a result; that is no decision.
func writeAudit(ctx context.Context, tx store.Tx, session store.Session, q Question, d Decision, who store.Principal, grant string, now time.Time) error {
	if q.Approval.ID == "" {
		return nil
	}
	reason, hashed := d.Reason, ""
	if who.User == "" {
		who = audit.Nobody(session.Tenant)
	} else if reason != "" { // a person's words: they go with their thread when that is deleted, and the audit stays
		sum := sha256.Sum256([]byte(reason))
		reason, hashed = "", hex.EncodeToString(sum[:])
	}
	return audit.AppendAt(ctx, tx, who, actionOf(q, d), audit.OfApproval(q.Call.ID), struct {
		Status string `json:"status"`
		Option string `json:"option,omitempty"`
		Via    string `json:"via"`
		Tool   string `json:"tool"`
		SHA256 string `json:"args_sha256"`
		Edited string `json:"edited_sha256,omitempty"`
		Grant  string `json:"grant_id,omitempty"`
		Reason string `json:"reason,omitempty"`
		Hashed string `json:"reason_sha256,omitempty"`
	}{string(d.Status), d.Option.Kind, d.Via, q.Approval.Tool, q.Approval.ArgsSHA256, d.SHA256, grant, reason, hashed}, now)
}

func actionOf(q Question, d Decision) string {
	switch {
	case d.Status == store.ApprovalExpired:
		return audit.ApprovalExpired
	case q.Outlives():
		return audit.ToolCallSettled
	case d.Via == ViaCancel, d.Via == ViaAgent, d.Via == ViaGone:
		return audit.ApprovalCancelled
	}
	return audit.ApprovalDecided
}

// AuditRefusal writes down that somebody tried to decide who may not.
func AuditRefusal(ctx context.Context, tx store.Tx, who store.Principal, questionID, code string, now time.Time) error {
	return audit.AppendAt(ctx, tx, who, audit.ApprovalRefused, audit.OfApproval(questionID), map[string]string{"code": code}, now)
}

// AuditGrantUse writes down that a Grant let a call through.
func AuditGrantUse(ctx context.Context, tx store.Tx, session store.Session, grantID, tool, argsSHA256 string, now time.Time) error {
	return audit.AppendAt(ctx, tx, audit.Nobody(session.Tenant), audit.GrantUsed, audit.OfGrant(grantID), map[string]string{
		"tool": tool, "args_sha256": argsSHA256, "session_id": session.ID,
	}, now)
}
