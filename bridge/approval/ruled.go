package approval

import (
	"context"
	"encoding/json"
	"time"

	"aqueduct/store"
)

// Ruled is a new permission as the policy has decided it, for an Agent that gets the answer by a call: its row has the
// answer until then. payload is that of the chosen option, nil where none was: that is its cancelling.
func Ruled(ctx context.Context, q Question, payload json.RawMessage, grantID, reason string) (Question, store.Record, error) {
	now := q.Call.CreatedAt
	d, err := OptionIDs{}.Read(ctx, q, Answer{Payload: payload, Cancelled: payload == nil, Reason: reason})
	if err != nil {
		return q, store.Record{}, err
	}
	d.By, d.Via = bySystem, ViaPolicy
	move := toolCallMove(q, d, now)
	q.Call.Status, q.Call.ErrorCode, q.Call.Result, q.Call.EndedAt, q.Call.GrantID = move.To, move.ErrorCode, move.Result, move.EndedAt, grantID
	q.Call.InTranscript = true // no person is shown it
	a := &q.Approval
	a.Status, a.DecidedAt, a.DecidedBy, a.DecidedVia, a.Decision, a.Reason, a.GrantID = d.Status, now, d.By, d.Via, recordedDecision(d), reason, grantID
	return q, DecisionRecord(q, d, time.Now()), nil
}
