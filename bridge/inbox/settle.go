package inbox

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

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
	return Settled{Question: now2, Won: true}, tx.InsertRecord(ctx, record(q, d, now, false))
}

// lost is what becomes of a Decision that came too late. What a client's tool gave is on record
// all the same: it was done.
func lost(ctx context.Context, tx store.Tx, q Question, d Decision, now time.Time) (Settled, error) {
	s := Settled{Question: q, Repeated: same(q, d)}
	if s.Repeated || !q.ClientTool() || d.By == bySystem {
		return s, nil
	}
	return s, tx.InsertRecord(ctx, record(q, d, now, true))
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

// record is the platform contract's approval_decision or tool_result.
func record(q Question, d Decision, now time.Time, late bool) store.Record {
	kind := "approval_decision"
	if q.ClientTool() {
		kind = "tool_result"
	}
	return store.Record{
		ID: uuid.Must(uuid.NewV7()).String(), SessionID: q.Call.SessionID, TurnID: q.Call.TurnID,
		Source: store.SourcePlatform, Type: kind, TS: now,
		Payload: mustJSON(struct {
			ToolCallID string          `json:"tool_call_id"`
			Status     string          `json:"status"`
			Decision   json.RawMessage `json:"decision"`
			By         string          `json:"decided_by"`
			Via        string          `json:"decided_via"`
			Reason     string          `json:"reason,omitempty"`
			Late       bool            `json:"late,omitempty"` // of no effect
		}{q.Call.ID, string(d.Status), heard(d), d.By, d.Via, d.Reason, late}),
	}
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
