package approval

import (
	"context"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// Fingerprint identifies what a decision is about: the hex SHA-256 of the tool, its kind, the title and the arguments' own
// hash, each as it is shown. An upstream's id of a Question does not: an agent may use it again for another command.
func Fingerprint(tool, kind, title, argsSHA256 string) string {
	return redact.Hasher{}.Sum(mustJSON([]string{tool, kind, title, argsSHA256})) // without a key: every replica has the same
}

// Fingerprint is the Question's, as it was asked.
func (q Question) Fingerprint() string {
	if q.Approval.ID == "" { // a client's tool
		return Fingerprint(q.Call.Name, "", "", redact.Hasher{}.Sum(q.Call.Args))
	}
	return Fingerprint(q.Approval.Tool, q.Approval.ToolKind, q.Approval.Title, q.Approval.ArgsSHA256)
}

const changedReason = "The agent changed what it asks for. The question is asked anew."

// changed is the decision about a Question that has become another one. It expires without an answer: any answer would
// be to something else.
func changed() Decision {
	d := Decision{By: bySystem, Via: ViaChanged, Reason: changedReason}
	d.decline(store.ApprovalExpired, ViaChanged)
	return d
}

// Replace expires a Question because its asker uses its id for something else now, and writes that down. An approval that
// the Agent does not have yet is taken back. The caller holds the Session's lock and has read q since.
func (s *Settler) Replace(ctx context.Context, tx store.Tx, session store.Session, q Question, fingerprint, argsSHA256 string, now time.Time) (Settled, error) {
	settled := Settled{Question: q}
	var err error
	if q.Open() {
		settled, err = s.Apply(ctx, tx, session, q, changed(), store.Principal{Tenant: session.Tenant})
	} else if q.Call.Status == store.ToolDispatched && q.Call.DeliveredAt.IsZero() && q.Approval.Status == store.ApprovalApproved {
		err = expireApproved(ctx, tx, q, now)
	}
	if err != nil {
		return settled, err
	}
	details := struct {
		ApprovalID   string `json:"approval_id"`
		Tool         string `json:"tool"`
		Before       string `json:"args_sha256_before"`
		After        string `json:"args_sha256_after"`
		Fingerprint  string `json:"fingerprint_before"`
		Fingerprint2 string `json:"fingerprint_after"`
	}{q.Call.ID, q.Approval.Tool, q.Approval.ArgsSHA256, argsSHA256, q.Fingerprint(), fingerprint}
	if err := tx.InsertRecord(ctx, trace.Record(trace.ApprovalChanged, q.Call.SessionID, q.Call.TurnID, now, details)); err != nil {
		return settled, err
	}
	return settled, audit.AppendAt(ctx, tx, audit.Nobody(session.Tenant), audit.ApprovalChanged, audit.OfApproval(q.Call.ID), details, now)
}

// expireApproved takes back an approval that the Agent does not have yet. The compare-and-set loses against an owner that
// is delivering it; then the delivered decision stands.
func expireApproved(ctx context.Context, tx store.Tx, q Question, now time.Time) error {
	d := changed()
	won, err := tx.MoveToolCall(ctx, store.ToolCallMove{
		ID: q.Call.ID, From: store.ToolDispatched, To: store.ToolTimeout, ErrorCode: d.ErrorCode, EndedAt: now, Result: d.Result,
	})
	if err != nil || !won {
		return err
	}
	return revokeApproval(ctx, tx, q, d, now)
}
