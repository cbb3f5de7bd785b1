package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"aqueduct/bridge/audit"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// Fingerprint identifies what a decision is about: the hex SHA-256 of the tool, its kind, the title and the arguments' own
// hash, each as it is shown. An upstream's id of a Question does not: an agent may use it again for another command.
func Fingerprint(tool, kind, title, argsSHA256 string) string {
	sum := sha256.Sum256(mustJSON([]string{tool, kind, title, argsSHA256}))
	return hex.EncodeToString(sum[:])
}

// Fingerprint is the Question's, as it was asked.
func (q Question) Fingerprint() string {
	if q.Approval.ID == "" { // a client's tool
		sum := sha256.Sum256(q.Call.Args)
		return Fingerprint(q.Call.Name, "", "", hex.EncodeToString(sum[:]))
	}
	return Fingerprint(q.Approval.Tool, q.Approval.ToolKind, q.Approval.Title, q.Approval.ArgsSHA256)
}

// ViaChanged settles a Question whose asker uses its id for something else now.
const ViaChanged = "arguments_changed"

const changedReason = "The agent changed what it asks for. The question is asked anew."

func changed() Decision {
	d := Decision{By: bySystem, Via: ViaChanged, Reason: changedReason}
	d.decline(store.ApprovalExpired, ViaChanged)
	return d
}

// Replace expires a Question because its asker uses its id for something else now, and writes that down. An approval that
// the Agent has not been told is taken back. The caller holds the Session's lock; q is as read since.
func (s *Settler) Replace(ctx context.Context, tx store.Tx, session store.Session, q Question, fingerprint, argsSHA256 string, now time.Time) (Settled, error) {
	settled := Settled{Question: q}
	var err error
	if q.Open() {
		settled, err = s.Apply(ctx, tx, session, q, changed(), store.Principal{Tenant: session.Tenant})
	} else if q.Call.Status == store.ToolDispatched && q.Call.DeliveredAt.IsZero() && q.Approval.Status == store.ApprovalApproved {
		err = takeBack(ctx, tx, q, now)
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
	e, err := audit.Entry(audit.Nobody(session.Tenant), audit.ApprovalChanged, audit.OfApproval(q.Call.ID), details, now)
	if err == nil {
		_, err = tx.AppendAudit(ctx, e)
	}
	return settled, err
}

// takeBack expires an approval that the Agent has not been told.
func takeBack(ctx context.Context, tx store.Tx, q Question, now time.Time) error {
	d := changed()
	won, err := tx.MoveToolCall(ctx, store.ToolCallMove{
		ID: q.Call.ID, From: store.ToolDispatched, To: store.ToolTimeout, ErrorCode: d.ErrorCode, EndedAt: now, Result: d.Result,
	})
	if err != nil || !won {
		return err
	}
	_, err = tx.MoveApproval(ctx, store.ApprovalMove{
		ID: q.Call.ID, From: store.ApprovalApproved, To: store.ApprovalExpired, DecidedAt: now, DecidedBy: d.By, DecidedVia: d.Via,
		Decision: heard(d), Reason: d.Reason,
	})
	if err != nil {
		return err
	}
	return tx.InsertRecord(ctx, DecisionRecord(q, d, now))
}
