package approval

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/trace"
	"aqueduct/internal/jsonequal"
	"aqueduct/policy"
	"aqueduct/store"
)

// Settled is what became of an attempt to settle a Question.
//
// Of several attempts at most one has Won. A loser learns what the winner decided, so that its surface can show that;
// Repeated lets a retry of the same answer look like a success.
type Settled struct {
	Question Question      // as it stands now, by whichever settlement won
	Won      bool          // this Decision took effect
	Repeated bool          // it did not, but is the same as the one that did
	Proposed bool          // it changed the arguments, and a second person has to approve them; the Question is open
	Session  store.Session // of one that has won
	// MessageID is the client's own tool message that answered, if that is how it came.
	MessageID string
}

// Settle applies a Decision, once: a compare-and-set decides between contenders. The
// caller holds the Session's lock and must go on as the Question's Turn demands.
//
// Two rows move together, the ToolCall and the Approval, and either moves only out of the state that waits. A
// transaction that holds the Session's lock sees both as they are, so the second move fails only if the first did.
//
// Two replicas that take a decision at the same moment both get here, one after the other, because the lock is the row's.
// The first finds the Question open and wins; the second finds it settled and gets what was decided (lost), which its
// surface shows as the answer that counts. Nothing is undone and none of them waits.
func Settle(ctx context.Context, tx store.Tx, q Question, d Decision, now time.Time) (Settled, error) {
	if !q.Open() {
		return lost(ctx, tx, q, d, now)
	}
	won, err := tx.MoveToolCall(ctx, toolCallMove(q, d, now))
	if err != nil {
		return Settled{}, err
	}
	if won && !q.ClientTool() {
		won, err = tx.MoveApproval(ctx, approvalMove(q, d, now))
		if err != nil {
			return Settled{}, err
		}
	}
	now2, err := Load(ctx, tx, store.System(), q.Call.ID)
	if err != nil {
		return Settled{}, err
	}
	if !won {
		return lost(ctx, tx, now2, d, now)
	}
	for _, r := range recordsOf(now2, d, now) {
		if err := tx.InsertRecord(ctx, r); err != nil {
			return Settled{}, err
		}
	}
	return Settled{Question: now2, Won: true}, nil
}

// lost is what becomes of a Decision that came too late. What a client's tool gave is on record
// all the same: it was done.
// The originals are compared: two secrets are masked to the same text.
func lost(ctx context.Context, tx store.Tx, q Question, d Decision, now time.Time) (Settled, error) {
	said, err := Load(store.WithOriginals(ctx), tx, store.System(), q.Call.ID) // what is shown of two different answers may be the same
	if err != nil {
		return Settled{}, err
	}
	s := Settled{Question: q, Repeated: same(said, d) && sameEdit(q, said, d)}
	if s.Repeated || !q.ClientTool() || d.By == bySystem {
		return s, nil
	}
	return s, tx.InsertRecord(ctx, lateResult(q, d, now))
}

// same reports whether the Question was settled the way d would.
func same(q Question, d Decision) bool {
	if q.ClientTool() {
		ended := store.ToolSucceeded
		if d.Status != store.ApprovalApproved {
			ended = store.ToolFailed
		}
		return q.Call.Status == ended && q.Call.ErrorCode == d.ErrorCode && jsonequal.Texts(q.Call.Result, d.Result)
	}
	return q.Approval.Status == d.Status && jsonequal.Texts(q.Approval.Decision, recordedDecision(d))
}

// sameEdit reports whether the Question was approved with the arguments that d wants. Who came too late with a change, or without
// one, would otherwise take the arguments of another for its own. shown is the masked Question, which a page sends back as it
// has it.
func sameEdit(shown, said Question, d Decision) bool {
	if d.Edited == nil {
		return len(said.Approval.EditedArgs) == 0
	}
	return jsonequal.Texts(said.Call.Args, d.Edited) || jsonequal.Texts(shown.Call.Args, d.Edited)
}

// recordedDecision is a Decision as the Approval keeps it: what DecisionOf reads back.
func recordedDecision(d Decision) json.RawMessage {
	return mustJSON(struct {
		Status  string          `json:"status"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}{d.ResumeStatus(), d.Payload})
}

// toolCallMove is what the Decision does to the ToolCall's row.
// An approved permission becomes DISPATCHED, not SUCCEEDED: the Agent has yet to get the answer (deliverer). A
// client's tool has run when its result comes, so it ends at once.
func toolCallMove(q Question, d Decision, now time.Time) store.ToolCallMove {
	m := store.ToolCallMove{
		ID: q.Call.ID, From: q.Call.Status, ErrorCode: d.ErrorCode, InTranscript: d.InTranscript, CardAnswered: d.CardAnswered, EndedAt: now,
		Args: d.Edited, Result: d.Result,
	}
	if q.IsToolCall() { // a hash on the call marks those that this server executes
		m.ArgsSHA256 = d.SHA256
	}
	switch {
	case d.Status == store.ApprovalExpired:
		m.To = store.ToolTimeout
	case d.Status != store.ApprovalApproved:
		m.To = store.ToolFailed
	case q.ClientTool():
		m.To = store.ToolSucceeded
	default:
		m.To, m.EndedAt = store.ToolDispatched, time.Time{}
	}
	if q.IsToolCall() && q.Call.Kind != store.KindQuestion && !q.ClientTool() {
		m.Result = nil // that will be the tool's own
	}
	if q.IsToolCall() && m.ErrorCode != "" {
		m.Error = mustJSON(map[string]string{"code": m.ErrorCode, "message": whyNot(d)})
	}
	return m
}

// whyNot is what an Agent gets for a call that did not run.
func whyNot(d Decision) string {
	if d.Reason != "" {
		return d.Reason
	}
	switch d.Status {
	case store.ApprovalExpired:
		return "Nobody decided in time."
	case store.ApprovalCancelled:
		return "It was cancelled."
	default:
		return "A person rejected it."
	}
}

// ResultContent is the content of the TOOL_CALL_RESULT of a settled Question.
//
// For example {"status":"approved","optionId":"allow_once","kind":"allow_once"} of a permission, {"status":"expired"}
// of one that no person answered.
func ResultContent(q Question) json.RawMessage {
	if q.Approval.ID == "" || q.Call.Kind == store.KindQuestion {
		return q.Call.Result
	}
	if status, payload := DecisionOf(q); status == agui.ResumeResolved {
		chosen := optionIn(payload)
		if q.Approval.Status == store.ApprovalApproved {
			return permissionResult("approved", chosen)
		}
		if q.Approval.Status == store.ApprovalRejected {
			return permissionResult("rejected", chosen)
		}
	}
	return object("status", strings.ToLower(string(q.Approval.Status)))
}

// approvalMove is what the Decision does to the Approval's row. It has no From: a move without one starts at PENDING.
func approvalMove(q Question, d Decision, now time.Time) store.ApprovalMove {
	return store.ApprovalMove{
		ID: q.Call.ID, To: d.Status, DecidedAt: now, DecidedBy: d.By, DecidedVia: d.Via,
		Decision: recordedDecision(d), Reason: d.Reason, EditedArgs: d.Edited,
	}
}

// recordsOf is what is on record of a Question that was settled: the decision, and the end of the tool call that it ends.
func recordsOf(q Question, d Decision, now time.Time) (records []store.Record) {
	if q.Approval.ID != "" {
		records = append(records, DecisionRecord(q, d, now))
	}
	if q.Call.Kind != store.KindQuestion && q.Call.Status.Terminal() {
		records = append(records, resultOf(q.Call, d).Record(q.Call, now))
	}
	return records
}

// DecisionRecord is approval_decision.
func DecisionRecord(q Question, d Decision, now time.Time) store.Record {
	return trace.Record(trace.ApprovalDecision, q.Call.SessionID, q.Call.TurnID, now, trace.Decided{
		ApprovalID: q.Call.ID, ToolCallID: q.Call.ID, ToolName: q.Approval.Tool, Kind: string(q.Approval.Kind), Status: string(d.Status),
		Decision: recordedDecision(d), By: d.By, Via: d.Via, Reason: d.Reason, EditedSHA256: d.SHA256,
		WaitedMS: max(0, now.Sub(q.Approval.CreatedAt).Milliseconds()),
	})
}

// resultOf is the payload of tool_result for a call that a Decision, or a client, ended. A call that a client was given
// for an approved one is reported as that.
func resultOf(call store.ToolCall, d Decision) trace.Result {
	r := trace.ResultOf(call)
	r.By, r.Via = d.By, d.Via
	if id, ok := strings.CutPrefix(call.UpstreamID, ApprovedPrefix); ok && call.ArgsSHA256 != "" {
		r.ToolCallID, r.ClientCallID = id, call.ID
	}
	return r
}

// lateResult is on record of what a client's tool gave after its call had ended.
// A client may run its tool although the call has expired meanwhile; that it did must be found in the trace.
func lateResult(q Question, d Decision, now time.Time) store.Record {
	call := q.Call
	call.Status, call.Result, call.ErrorCode, call.Error, call.EndedAt = store.ToolSucceeded, d.Result, d.ErrorCode, nil, now
	if d.Status != store.ApprovalApproved {
		call.Status = store.ToolFailed
	}
	r := resultOf(call, d)
	r.Late = true
	return r.Record(call, now)
}

// DecisionOf is the decision of a settled Question, as the row has it: the status of AG-UI's resume, and its payload.
func DecisionOf(q Question) (status string, payload json.RawMessage) {
	if q.ClientTool() {
		if q.Call.Status == store.ToolSucceeded {
			return agui.ResumeResolved, object("content", textOf(q.Call.Result))
		}
		if q.Call.ErrorCode == "client_tool_failed" {
			return agui.ResumeResolved, q.Call.Result
		}
		return agui.ResumeCancelled, nil
	}
	var d struct {
		Status  string          `json:"status"`
		Payload json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(q.Approval.Decision, &d) != nil || d.Status == "" {
		return agui.ResumeCancelled, nil
	}
	return d.Status, d.Payload
}

// DeliveryOf is the decision as it is delivered to the agent: an "always" stays ours, as a Grant, where the agent also
// offers to allow once. It would otherwise remember what no person could revoke.
func DeliveryOf(q Question) (status string, payload json.RawMessage) {
	status, payload = DecisionOf(q)
	if reason, _ := ExpiryOf(q); reason != "" {
		return agui.ResumeCancelled, nil // an older version chose the reject option
	}
	if q.Approval.Kind != store.ApprovalPermission || optionIn(payload).Kind != AllowAlways || chosenAlways(q) == policy.AlwaysAgent {
		return status, payload
	}
	if once, ok := first(q.Options(), AllowOnce); ok {
		payload = permissionPayload(once)
	}
	return status, payload
}

// ExpiryOf is the Reason and the Reject of a Delivery about a Question that expired; "" of any other.
func ExpiryOf(q Question) (reason string, reject json.RawMessage) {
	expired := q.Approval.Status == store.ApprovalExpired && q.Approval.DecidedVia == ViaExpiry
	if !expired && !(q.ClientTool() && q.Call.Status == store.ToolTimeout) {
		return "", nil
	}
	if o, ok := first(q.Options(), RejectOnce); ok {
		reject = permissionPayload(o)
	}
	return ReasonExpired, reject
}

// ChosenOption is the id of the option a settled permission was answered with.
func ChosenOption(q Question) string {
	_, payload := DecisionOf(q)
	return optionIn(payload).ID
}
