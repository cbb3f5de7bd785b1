package tools

import (
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/trace"
	"aqueduct/policy"
	"aqueduct/store"
)

// approvalOf is the Approval that a call waits for. The hash binds the arguments that are shown to those that will be
// executed.
func approvalOf(call store.ToolCall, v policy.Verdict, asked string) store.Approval {
	a := store.Approval{
		ID: call.ID, SessionID: call.SessionID, TurnID: call.TurnID, Kind: store.ApprovalPermission, Status: store.ApprovalPending,
		Tool: call.Name, Title: call.Name, Args: call.Args, ArgsSHA256: call.ArgsSHA256, Options: mustJSON(approval.StandingOptions()),
		Risk: call.Risk, CreatedAt: call.CreatedAt, ExpiresAt: call.ExpiresAt,
	}
	approval.SetTerms(&a, v.Terms, asked)
	return a
}

// recordsOf are the Records of a call that was taken: that it was made, the policy's verdict, and the state it led to.
func recordsOf(call store.ToolCall, v judged, asked *store.Approval, span trace.Context) []store.Record {
	decided := policy.Decided(v.call, v.Verdict)
	decided.SHA256 = call.ArgsSHA256 // which may be keyed
	records := []store.Record{trace.Created(call), trace.Record(trace.PolicyDecision, call.SessionID, call.TurnID, call.CreatedAt, struct {
		ToolCallID string `json:"tool_call_id"`
		policy.Decision
	}{call.ID, decided})}
	switch {
	case asked != nil:
		records = append(records, trace.ApprovalRecord(*asked))
	case call.Status == store.ToolRunning:
		records = append(records, runningRecord(call, span))
	case call.Status == store.ToolWaitingClient:
		records = append(records, trace.Dispatched(call, "", "", time.Now(), call.ExpiresAt))
	case call.Status.Terminal():
		records = append(records, trace.ResultOf(call).Record(call, call.EndedAt))
	}
	return records
}

// runningRecord is the Record of a call that is executed here, with the span that its tool is given.
func runningRecord(call store.ToolCall, span trace.Context) store.Record {
	return trace.Dispatched(call, "", span.Traceparent(), call.RunningAt, call.RunningAt.Add(call.Timeout))
}
