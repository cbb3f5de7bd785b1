package approval

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/internal/schema"
	"aqueduct/policy"
	"aqueduct/store"
)

// Settler settles Questions. It is the one way: for a person on any surface, an expiry, a cancel, the
// Agent itself or the end of one, calls Apply.
type Settler struct {
	Notices Notices
	// Calls does what follows for a ToolCall that we run; nil without any.
	Calls Calls
	// Policy is the one in force; nil for none.
	Policy func() *policy.Policy
	// Hash binds decisions to arguments that a person changed.
	Hash redact.Hasher
	// Replica is this one: an Agent that it called is there.
	Replica string
	// NewID makes the id of a Grant.
	NewID func() string
	// Once is called when an "always" was taken for once, because the call cannot be distinguished from others.
	Once func(approvalID string, why error)
}

// OptionIDs returns the ids that options have on pages.
func (s *Settler) OptionIDs() OptionIDs { return OptionIDs{s.Hash} }

// Calls is what settling a Question means for the ToolCall it is about.
type Calls interface {
	// Settled applies what follows, in the same transaction. who decided; with no User it is the system.
	Settled(ctx context.Context, tx store.Tx, session store.Session, q Question, who store.Principal, now time.Time) error
	// Judged is the verdict of the policy in force on the call that a Question is about.
	Judged(ctx context.Context, r store.Reader, session store.Session, q Question) (policy.Verdict, error)
	// Edited brings changed arguments into the form they will run in. terms are what the policy wants of these.
	Edited(ctx context.Context, r store.Reader, session store.Session, q Question, edited json.RawMessage) (args json.RawMessage, sha string, terms policy.Terms, err error)
	// Revoke cancels an approved call that has not begun; false when it has.
	Revoke(ctx context.Context, tx store.Tx, call store.ToolCall, now time.Time) (bool, error)
	// Decided starts what Settled prepared. It is called after the commit.
	Decided(q Question)
}

// Apply settles one Question, once, in the caller's transaction: it authorizes, moves the rows by compare-and-set,
// keeps a Grant, takes the consequence for a ToolCall of ours, and writes notice and audit. The caller has locked the
// Session, whose Question q is as read since. who is the deciding person; with no User it is the system.
//
// The audit comes last: it holds up every other transaction that writes one.
func (s *Settler) Apply(ctx context.Context, tx store.Tx, session store.Session, q Question, d Decision, who store.Principal) (Settled, error) {
	now := time.Now()
	if q.Open() {
		terms, err := s.authorize(ctx, tx, session, q, &d, who)
		if err != nil {
			return Settled{Question: q}, err
		}
		if needsSecond(q, d, terms, who) {
			return s.propose(ctx, tx, session, q, d, who, now)
		}
	}
	settled, err := Settle(ctx, tx, q, d, now)
	if err != nil || !settled.Won {
		return settled, err
	}
	grant := ""
	// The Grant of a relayed Question is the child's, for the calls of its agent.
	if _, relayed := q.Relayed(); relayed {
		if err := endRelayed(ctx, tx, settled.Question, now); err != nil {
			return settled, err
		}
	} else if d.Option.Kind == AllowAlways && d.Status == store.ApprovalApproved {
		if grant, err = s.createGrant(ctx, tx, session, settled.Question, d, now); err != nil {
			return settled, err
		}
	}
	if q.IsToolCall() && s.Calls != nil {
		if err := s.Calls.Settled(ctx, tx, session, settled.Question, who, now); err != nil {
			return settled, err
		}
	}
	if err := EndTurnOn(ctx, tx, settled.Question.Call, s.NewID, now); err != nil {
		return settled, err
	}
	if err := s.Notices.Insert(ctx, tx, settled.Question, session); err != nil {
		return settled, err
	}
	settled.Session = session
	return settled, writeAudit(ctx, tx, session, settled.Question, d, who, grant, now)
}

// authorize reports whether the decider may decide so. It returns the terms of changed arguments: the policy may want more of
// them than of those that were asked about. It reads by the transaction: a further connection, which all
// others may hold while they wait for this one, might never come.
func (s *Settler) authorize(ctx context.Context, tx store.Tx, session store.Session, q Question, d *Decision, who store.Principal) (terms policy.Terms, err error) {
	if who.User != "" && d.CancelledBy == "" {
		if err := MayDecideFor(ctx, tx, q, *d, who); err != nil {
			return terms, err
		}
	}
	if from, relayed := q.Relayed(); relayed {
		return s.authorizeRelayed(ctx, tx, from, d, who)
	}
	if d.Status == store.ApprovalApproved && q.IsToolCall() && !q.SurvivesTurn() {
		turn, err := tx.Turn(ctx, store.System(), q.Call.TurnID)
		if err != nil {
			return terms, err
		}
		if turn.Status.Terminal() {
			return terms, fault.New(AskerLost, "The run this call belongs to has ended: nobody waits for it.")
		}
		there, err := s.askerThere(ctx, tx, turn)
		if err != nil {
			return terms, err
		}
		if !there {
			return terms, fault.New(AskerLost, "The agent that asked is gone: nobody waits for this call.")
		}
	}
	if d.Edited == nil {
		return terms, s.judgeAgain(ctx, tx, session, q, *d)
	}
	offer, ok := OfferOf(q.Approval.ResponseSchema)
	switch {
	case q.Approval.MayEdit && q.IsToolCall() && s.Calls != nil:
		d.Edited, d.SHA256, terms, err = s.Calls.Edited(ctx, tx, session, q, d.Edited)
	case q.Approval.MayEdit && !q.IsToolCall() && ok && offer.Edited != "":
		terms, err = s.editForAgent(ctx, tx, session, q, d, offer)
	default:
		err = fault.New(EditRefused, "The arguments of this call may not be changed.")
	}
	if err == nil && who.User != "" {
		err = mayApprove(ctx, tx, terms, q, who)
	}
	return terms, err
}

// editForAgent applies changed arguments to a call that the agent runs itself, if its schema offers that. They are unmasked
// and must fit the agent's schema. The policy judges them like a new call: a rule may block them, or forbid edits by
// may_edit: false.
func (s *Settler) editForAgent(ctx context.Context, r store.Reader, session store.Session, q Question, d *Decision, offer Offer) (terms policy.Terms, err error) {
	edited, err := Unmasked(ctx, r, q, d.Edited)
	if err != nil {
		return terms, err
	}
	edited = Compact(edited)
	whole := offer.Answer(true, edited, nil, d.Reason)
	if err := schema.Of(q.Approval.ResponseSchema).CheckIn(ctx, whole); err != nil {
		return terms, schema.Fault(err, InvalidAnswer)
	}
	q.Call.Args, q.Approval.Args = edited, edited
	v, err := s.judged(ctx, r, session, q)
	switch {
	case err != nil:
		return terms, err
	case v.Action == policy.Block:
		return terms, fault.New(PolicyBlocks, "The policy in force blocks this: "+v.Reason)
	case v.ForbidsEdit():
		return terms, fault.New(EditRefused, "The arguments of this call may not be changed.")
	}
	d.Edited, d.SHA256 = edited, s.Hash.Sum(edited)
	// Every reader of the card sees the approved arguments.
	var result map[string]json.RawMessage
	_ = json.Unmarshal(d.Result, &result) // of our own writing
	result["editedArgs"] = edited
	d.Result = mustJSON(result)
	return v.Terms, nil
}

// askerThere reports whether the Agent of a Turn can still get the result of a ToolCall: it ended to wait, it can be
// called again, or the replica that called it lives. Any other is there again after a restart once its Turn has been
// taken up.
func (s *Settler) askerThere(ctx context.Context, tx store.Tx, turn store.Turn) (bool, error) {
	if turn.Resumable || turn.Waiting() || turn.Upstream == "" || turn.Upstream == s.Replica {
		return true, nil
	}
	return tx.ReplicaLives(ctx, turn.Upstream)
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
	return fault.New(PolicyBlocks, "The policy in force blocks this: "+v.Reason)
}

// judged asks what has judged the call when the Question was made: the tools service for a call that we run, else the
// policy itself. The zero Verdict, which blocks nothing, is of a Question that no policy was asked about. A Question
// about an agent's settings (SteerPrefix) has a hash of arguments like a tool call of ours, and no tool.
func (s *Settler) judged(ctx context.Context, r store.Reader, session store.Session, q Question) (v policy.Verdict, err error) {
	steers := strings.HasPrefix(q.Call.UpstreamID, SteerPrefix)
	switch {
	case q.IsToolCall() && !steers && s.Calls != nil:
		return s.Calls.Judged(ctx, r, session, q)
	case q.IsToolCall() && !steers || s.Policy == nil:
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

// createGrant keeps an "always" as a Grant: for this call, in this Session. A call that cannot be distinguished from
// others is allowed this once only; its id is "" then, and the approval itself stands.
func (s *Settler) createGrant(ctx context.Context, tx store.Tx, session store.Session, q Question, d Decision, now time.Time) (id string, err error) {
	if q.Call.Name == BudgetTool {
		s.Once(q.Call.ID, errNoBudgetGrant)
		return "", nil
	}
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
	return id, tx.InsertGrant(ctx, grantRow(id, g, d.By, now))
}

// EndTurnOn asks the Session's owner to end the Turn of a ToolCall that failed, where its tool wants that, however it
// failed: run, blocked, rejected, expired or with no runner there.
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
		reason, hashed = "", redact.Hasher{}.Sum([]byte(reason))
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
		Self   bool   `json:"self,omitempty"` // who was asked for added to a budget by its own decision
	}{string(d.Status), d.Option.Kind, d.Via, q.Approval.Tool, q.Approval.ArgsSHA256, d.SHA256, grant, reason, hashed, ownBudget(q, d, who)}, now)
}

// ownBudget reports whether a person lifted a limit of its own.
func ownBudget(q Question, d Decision, who store.Principal) bool {
	return q.Call.Name == BudgetTool && d.Status == store.ApprovalApproved && who.User != "" && who.User == q.Approval.AskedUser
}

// actionOf is the action of the audit entry. The order matters: an expiry is one whatever expired, and what became of a
// call whose runner died is a fact about that call, so it is not entered as a permission.
func actionOf(q Question, d Decision) string {
	switch {
	case d.Status == store.ApprovalExpired:
		return audit.ApprovalExpired
	case q.SurvivesTurn():
		return audit.ToolCallSettled
	case d.Via == ViaCancel, d.Via == ViaAgent, d.Via == ViaGone:
		return audit.ApprovalCancelled
	}
	return audit.ApprovalDecided
}

// AuditRefusal records an attempt to decide by a person who may not.
func AuditRefusal(ctx context.Context, tx store.Tx, who store.Principal, questionID, code string, now time.Time) error {
	return audit.AppendAt(ctx, tx, who, audit.ApprovalRefused, audit.OfApproval(questionID), map[string]string{"code": code}, now)
}

// AuditGrantUse writes down that a Grant let a call through.
func AuditGrantUse(ctx context.Context, tx store.Tx, session store.Session, grantID, tool, argsSHA256 string, now time.Time) error {
	return audit.AppendAt(ctx, tx, audit.Nobody(session.Tenant), audit.GrantUsed, audit.OfGrant(grantID), map[string]string{
		"tool": tool, "args_sha256": argsSHA256, "session_id": session.ID,
	}, now)
}
