package inbox

import (
	"time"

	"aqueduct/store"
)

// ViaRevoke is how an Approval ended that was taken back.
const ViaRevoke = "revoke"

// codeRevoked is the code of a call whose approval was taken back.
const codeRevoked = "revoked"

// RevokedCall moves an approved Question whose Agent has not been told: one that has is not DISPATCHED any more.
func RevokedCall(q Question, now time.Time) store.ToolCallMove {
	return store.ToolCallMove{
		ID: q.Call.ID, From: store.ToolDispatched, To: store.ToolFailed, ErrorCode: codeRevoked, EndedAt: now,
		Result: object("status", codeRevoked),
	}
}

// RevokedApproval moves its record: the Agent is told that it was cancelled.
func RevokedApproval(q Question, by string, now time.Time) store.ApprovalMove {
	return store.ApprovalMove{
		ID: q.Call.ID, From: store.ApprovalApproved, To: store.ApprovalCancelled, DecidedAt: now, DecidedBy: by, DecidedVia: ViaRevoke,
		Decision: heard(Decision{}),
	}
}
