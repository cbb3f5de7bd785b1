package approval

import (
	"time"

	"aqueduct/store"
)

// refusedBecause is the decision of a Question that is settled before any person sees it: cancelled by the system,
// with a code that the agent can act on.
func refusedBecause(code, message string) Decision {
	return Decision{
		By: bySystem, Via: ViaRefused, Status: store.ApprovalCancelled, ErrorCode: code, Reason: message,
		Result: mustJSON(struct {
			Status  string `json:"status"`
			Code    string `json:"code"`
			Message string `json:"message"`
		}{"refused", code, message}),
	}
}

// Refused is a new Question settled before any person is asked: it cannot be asked as it is.
func Refused(q Question, code, message string) Question {
	d, now := refusedBecause(code, message), q.Call.CreatedAt
	q.Call.Status, q.Call.ErrorCode, q.Call.Result, q.Call.EndedAt = store.ToolFailed, code, d.Result, now
	a := &q.Approval
	a.Status, a.DecidedAt, a.DecidedBy, a.DecidedVia, a.Decision, a.Reason = d.Status, now, d.By, d.Via, recordedDecision(d), message
	return q
}

// RefusedRecord is the approval_decision of a refused Question.
func RefusedRecord(q Question, now time.Time) store.Record {
	return DecisionRecord(q, refusedBecause(q.Call.ErrorCode, q.Approval.Reason), now)
}
