package approval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"aqueduct/policy"
	"aqueduct/store"
)

// An agent that another agent called asks in a thread that no person sees. Its Question is relayed: the root, which is the
// thread of the person whose prompt led to it, gets a Question of its own with the same options, arguments and deciders.
// The child's Question stays the one that its agent waits for.
//
// The two are rows of two Sessions, each written under its own Session's lock, so neither settlement can move the other
// row. Each leaves a Command for the owner of the other Session in its own transaction (Notices); that owner compares the
// rows and settles its own in the same way. Settling is a compare-and-set, so looking twice does nothing twice.

// relayPrefix begins the UpstreamID of a relayed Question. What follows are the child's Session, Turn and Question.
const relayPrefix = "child:"

// Relayed is where a relayed Question comes from.
type Relayed struct{ SessionID, TurnID, QuestionID string }

// Relayed reports whether the Question is a root's for a child's.
func (q Question) Relayed() (from Relayed, ok bool) {
	rest, ok := strings.CutPrefix(q.Call.UpstreamID, relayPrefix)
	if !ok || q.Call.Kind != store.KindQuestion || !q.IsToolCall() {
		return from, false
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 3 {
		return from, false
	}
	return Relayed{parts[0], parts[1], parts[2]}, true
}

// RelayID is the id of the root's Question for a child's. It is derived, so that relaying one twice is a conflict and no
// second Question. Its time is that of the child's, because lists are ordered by id.
func RelayID(questionID string) string {
	sum := sha256.Sum256([]byte("relayed\x00" + questionID))
	var id uuid.UUID
	copy(id[:], sum[:])
	if of, err := uuid.Parse(questionID); err == nil {
		copy(id[:6], of[:6]) // UUIDv7: milliseconds
	}
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80 // version 7, and RFC 9562's variant
	return id.String()
}

// Relay makes the root's Question of a child's. root is the caller that the child goes back to, path the agents from there
// to the one that asks. The hash of the arguments is copied: it marks the Question as one that is delivered to no Agent of
// the root's, and binds the decision to the same arguments.
func Relay(q Question, child store.Session, root store.Caller, path []string) Question {
	a := q.Approval
	a.ID, a.SessionID, a.TurnID = RelayID(q.Call.ID), root.SessionID, root.TurnID
	a.Path = mustJSON(path)
	a.Title = PlainTitle(strings.Join(path, " → ") + ": " + cmp.Or(a.Title, a.Tool))
	a.DelegatedTo, a.DelegatedBy, a.DelegatedUntil = "", "", time.Time{}
	name := q.ShownName()
	if a.Kind == store.ApprovalPermission {
		name = PermissionTool
	}
	return Question{Approval: a, Call: store.ToolCall{
		ID: a.ID, SessionID: root.SessionID, TurnID: root.TurnID, Name: name, Kind: store.KindQuestion, Status: store.ToolWaitingApproval,
		UpstreamID: relayPrefix + child.ID + "/" + q.Call.TurnID + "/" + q.Call.ID,
		Args:       q.Call.Args, ArgsSHA256: a.ArgsSHA256, Risk: a.Risk, CreatedAt: q.Call.CreatedAt, ExpiresAt: q.Call.ExpiresAt,
	}}
}

// SameDecision is the Decision that settles one of a pair as the other was settled.
func SameDecision(settled Question) Decision {
	_, payload := DecisionOf(settled)
	d := Decision{
		Status: settled.Approval.Status, Payload: payload, Result: ResultContent(settled), ErrorCode: settled.Call.ErrorCode,
		By: settled.Approval.DecidedBy, Via: settled.Approval.DecidedVia, Reason: settled.Approval.Reason,
	}
	chosen := optionIn(payload)
	for _, o := range settled.Options() {
		if o.ID == chosen.ID {
			d.Option = o
		}
	}
	if d.Status != store.ApprovalApproved && d.ErrorCode == "" {
		d.ErrorCode = strings.ToLower(string(d.Status))
	}
	// The Approval has the changed arguments masked; those of the call are what was approved.
	if len(settled.Approval.EditedArgs) > 0 {
		d.Edited = settled.Call.Args
	}
	return d
}

// authorizeRelayed is authorize for a relayed Question: what was asked is the child's, so the child's is judged, and changed
// arguments must fit the child's tool.
func (s *Settler) authorizeRelayed(ctx context.Context, tx store.Tx, from Relayed, d *Decision, who store.Principal) (terms policy.Terms, err error) {
	session, err := tx.Session(ctx, store.System(), from.SessionID)
	if err != nil {
		return terms, err
	}
	q, err := Load(ctx, tx, store.System(), from.QuestionID)
	if err != nil {
		return terms, err
	}
	terms, err = s.authorize(ctx, tx, session, q, d, store.Principal{})
	if err == nil && d.Edited != nil && who.User != "" {
		err = mayApprove(ctx, tx, terms, q, who)
	}
	return terms, err
}

// endRelayed ends an approved relayed Question: no Agent of the root's gets its answer, so no delivery would end it.
func endRelayed(ctx context.Context, tx store.Tx, q Question, now time.Time) error {
	if q.Call.Status != store.ToolDispatched {
		return nil
	}
	_, err := tx.MoveToolCall(ctx, store.ToolCallMove{ID: q.Call.ID, From: store.ToolDispatched, To: store.ToolSucceeded, EndedAt: now})
	return err
}

// looks are the Commands by which the owner of the other Question of a pair learns of this one.
func looks(q Question, s store.Session) []store.Command {
	if q.Approval.ID == "" {
		return nil
	}
	if from, ok := q.Relayed(); ok && !q.Open() {
		return []store.Command{Look(from.SessionID, from.TurnID)}
	}
	if callers := s.CallerList(); len(callers) > 0 {
		return []store.Command{Look(callers[0].SessionID, callers[0].TurnID)}
	}
	return nil
}

// Look asks the owner of a Session to look at the rows of the Turns that are related to one of its Turns.
func Look(sessionID, turnID string) store.Command {
	return store.Command{
		ID: uuid.Must(uuid.NewV7()).String(), SessionID: sessionID, TurnID: turnID, Kind: store.CommandLook, CreatedAt: time.Now(),
	}
}

// LookBelow asks the owners of the Turns that go back to one for a look, in the transaction of what they have to see.
func LookBelow(ctx context.Context, tx store.Tx, rootTurnID string) error {
	below, err := tx.ChildTurns(ctx, store.System(), rootTurnID)
	if err != nil {
		return err
	}
	for _, t := range below {
		if !t.Status.Terminal() {
			if err := tx.InsertCommand(ctx, Look(t.SessionID, t.ID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// PathOf is the way to the agent that asked a relayed Question; nil for any other.
func PathOf(a store.Approval) (path []string) {
	_ = json.Unmarshal(a.Path, &path) // of our own writing, or none
	return path
}
