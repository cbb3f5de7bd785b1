package inbox

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"aqueduct/bridge/trace"
	"aqueduct/internal/jsonequal"
	"aqueduct/policy"
	"aqueduct/store"
)

// Settled is what became of an attempt to settle a Question.
type Settled struct {
	Question Question // as it stands now, whoever won
	Won      bool     // this Decision took effect
	Repeated bool     // it did not, but says the same as the one that did
	// MessageID is the client's own tool message that answered, if that is how it came.
	MessageID string
}

// Settle applies a Decision, once: a compare-and-set decides between contenders. The
// caller holds the Session's lock and must go on as the Question's Turn demands.
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
func lost(ctx context.Context, tx store.Tx, q Question, d Decision, now time.Time) (Settled, error) {
	said, err := Load(store.WithOriginals(ctx), tx, store.System(), q.Call.ID) // what is shown of two different answers may be the same
	if err != nil {
		return Settled{}, err
	}
	s := Settled{Question: q, Repeated: same(said, d)}
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
	return q.Approval.Status == d.Status && jsonequal.Texts(q.Approval.Decision, heard(d))
}

// heard is a Decision as the agent will hear it, kept with the Approval.
func heard(d Decision) json.RawMessage {
	return mustJSON(struct {
		Status  string          `json:"status"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}{d.ResumeStatus(), d.Payload})
}

func toolCallMove(q Question, d Decision, now time.Time) store.ToolCallMove {
	m := store.ToolCallMove{
		ID: q.Call.ID, From: q.Call.Status, ErrorCode: d.ErrorCode, Told: d.Told, EndedAt: now, Args: d.Edited, ArgsSHA256: d.SHA256,
	}
	switch {
	case d.Status == store.ApprovalExpired:
		m.To = store.ToolTimeout
	case d.Status != store.ApprovalApproved:
		m.To = store.ToolFailed
	case q.ClientTool():
		m.To, m.Result = store.ToolSucceeded, d.Result
	default:
		m.To, m.EndedAt, m.Result = store.ToolDispatched, time.Time{}, d.Result
	}
	if m.Result == nil {
		m.Result = d.Result
	}
	if q.Proxied() && q.Call.Kind != store.KindQuestion && !q.ClientTool() {
		m.Result = nil // that will be the tool's own
	}
	if q.Proxied() && m.ErrorCode != "" {
		m.Error = mustJSON(map[string]string{"code": m.ErrorCode, "message": whyNot(d)})
	}
	return m
}

// whyNot is what an Agent hears of a call that did not run.
func whyNot(d Decision) string {
	if d.Reason != "" {
		return d.Reason
	}
	switch d.Status {
	case store.ApprovalExpired:
		return "Nobody decided in time."
	case store.ApprovalCancelled:
		return "It was cancelled."
	}
	return "A person rejected it."
}

// Told is the content of the TOOL_CALL_RESULT that tells how a Question was settled.
func Told(q Question) json.RawMessage {
	if q.Approval.ID == "" || q.Call.Kind == store.KindQuestion {
		return q.Call.Result
	}
	if status, payload := Answered(q); status == "resolved" {
		var chosen Option
		_ = json.Unmarshal(payload, &struct {
			ID   *string `json:"optionId"`
			Kind *string `json:"kind"`
		}{&chosen.ID, &chosen.Kind}) // of our own writing
		if q.Approval.Status == store.ApprovalApproved {
			return permissionResult("approved", chosen)
		}
		if q.Approval.Status == store.ApprovalRejected {
			return permissionResult("rejected", chosen)
		}
	}
	return object("status", strings.ToLower(string(q.Approval.Status)))
}

func approvalMove(q Question, d Decision, now time.Time) store.ApprovalMove {
	return store.ApprovalMove{
		ID: q.Call.ID, To: d.Status, DecidedAt: now, DecidedBy: d.By, DecidedVia: d.Via,
		Decision: heard(d), Reason: d.Reason, EditedArgs: d.Edited,
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
		Decision: heard(d), By: d.By, Via: d.Via, Reason: d.Reason, EditedSHA256: d.SHA256,
		WaitedMS: max(0, now.Sub(q.Approval.CreatedAt).Milliseconds()),
	})
}

// resultOf is the payload of tool_result for a call that a Decision, or a client, ended. A call that a client was given
// for an approved one is told as that.
func resultOf(call store.ToolCall, d Decision) trace.Result {
	r := trace.ResultOf(call)
	r.By, r.Via = d.By, d.Via
	if id, ok := strings.CutPrefix(call.UpstreamID, ApprovedPrefix); ok && call.ArgsSHA256 != "" {
		r.ToolCallID, r.ClientCallID = id, call.ID
	}
	return r
}

// lateResult is on record of what a client's tool gave after its call had ended.
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

// Answered is what the agent is told about a settled Question.
func Answered(q Question) (status string, payload json.RawMessage) {
	if q.ClientTool() {
		if q.Call.Status == store.ToolSucceeded {
			return "resolved", object("content", textOf(q.Call.Result))
		}
		if q.Call.ErrorCode == "client_tool_failed" {
			return "resolved", q.Call.Result
		}
		return "cancelled", nil
	}
	var d struct {
		Status  string          `json:"status"`
		Payload json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(q.Approval.Decision, &d) != nil || d.Status == "" {
		return "cancelled", nil
	}
	return d.Status, d.Payload
}

// Heard is Answered, for the agent: an "always" stays ours, as a Grant, where the agent also
// offers to allow once. It would otherwise remember what nobody could revoke.
func Heard(q Question) (status string, payload json.RawMessage) {
	status, payload = Answered(q)
	var chosen struct{ Kind string }
	if q.Approval.Kind != store.ApprovalPermission || json.Unmarshal(payload, &chosen) != nil || chosen.Kind != AllowAlways || chosenAlways(q) == policy.AlwaysAgent {
		return status, payload
	}
	if once, ok := first(q.Options(), AllowOnce); ok {
		payload = permissionPayload(once)
	}
	return status, payload
}

// ChosenOption is the id of the option a settled permission was answered with.
func ChosenOption(q Question) string {
	_, payload := Answered(q)
	var chosen struct {
		OptionID string `json:"optionId"`
	}
	if json.Unmarshal(payload, &chosen) != nil {
		return ""
	}
	return chosen.OptionID
}
