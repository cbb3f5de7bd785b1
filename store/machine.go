package store

import "slices"

// TurnStatus is where a Turn stands (platform contract §8.3, plus QUEUED).
type TurnStatus string

// The states of a Turn.
const (
	TurnQueued         TurnStatus = "QUEUED"
	TurnRunning        TurnStatus = "RUNNING"
	TurnPausedApproval TurnStatus = "PAUSED_WAITING_APPROVAL"
	TurnPausedTool     TurnStatus = "PAUSED_WAITING_TOOL"
	TurnDone           TurnStatus = "DONE"
	TurnFailed         TurnStatus = "FAILED"
	TurnCancelled      TurnStatus = "CANCELLED"
)

// RunStatus is where a Run, a slice of the log, stands.
type RunStatus string

// The states of a Run. A reserved Run is work for the Session's owner.
const (
	RunReserved    RunStatus = "RESERVED"
	RunRunning     RunStatus = "RUNNING"
	RunFinished    RunStatus = "FINISHED"
	RunInterrupted RunStatus = "INTERRUPTED"
	RunCancelled   RunStatus = "CANCELLED"
	RunFailed      RunStatus = "FAILED"
)

// ToolCallStatus is where a ToolCall stands (platform contract §8.1, plus UNKNOWN).
type ToolCallStatus string

// The states of a ToolCall.
const (
	ToolCreated         ToolCallStatus = "CREATED"
	ToolPolicyChecked   ToolCallStatus = "POLICY_CHECKED"
	ToolBlocked         ToolCallStatus = "BLOCKED"
	ToolWaitingApproval ToolCallStatus = "WAITING_APPROVAL"
	ToolDispatched      ToolCallStatus = "DISPATCHED"
	ToolRunning         ToolCallStatus = "RUNNING"
	ToolWaitingClient   ToolCallStatus = "WAITING_CLIENT"
	ToolSucceeded       ToolCallStatus = "SUCCEEDED"
	ToolFailed          ToolCallStatus = "FAILED"
	ToolTimeout         ToolCallStatus = "TIMEOUT"
	ToolUnknown         ToolCallStatus = "UNKNOWN"
)

// ApprovalStatus is where an Approval stands (platform contract §8.2, plus CANCELLED).
type ApprovalStatus string

// The states of an Approval.
const (
	ApprovalPending   ApprovalStatus = "PENDING"
	ApprovalApproved  ApprovalStatus = "APPROVED"
	ApprovalRejected  ApprovalStatus = "REJECTED"
	ApprovalExpired   ApprovalStatus = "EXPIRED"
	ApprovalCancelled ApprovalStatus = "CANCELLED"
)

// AllTurnStatuses lists every state of a Turn, for tests and documentation.
func AllTurnStatuses() []TurnStatus {
	return []TurnStatus{TurnQueued, TurnRunning, TurnPausedApproval, TurnPausedTool, TurnDone, TurnFailed, TurnCancelled}
}

// AllRunStatuses lists every state of a Run.
func AllRunStatuses() []RunStatus {
	return []RunStatus{RunReserved, RunRunning, RunFinished, RunInterrupted, RunCancelled, RunFailed}
}

// AllToolCallStatuses lists every state of a ToolCall.
func AllToolCallStatuses() []ToolCallStatus {
	return []ToolCallStatus{
		ToolCreated, ToolPolicyChecked, ToolBlocked, ToolWaitingApproval, ToolDispatched, ToolRunning,
		ToolWaitingClient, ToolSucceeded, ToolFailed, ToolTimeout, ToolUnknown,
	}
}

// AllApprovalStatuses lists every state of an Approval.
func AllApprovalStatuses() []ApprovalStatus {
	return []ApprovalStatus{ApprovalPending, ApprovalApproved, ApprovalRejected, ApprovalExpired, ApprovalCancelled}
}

// CanBecome is the Turn machine.
func (s TurnStatus) CanBecome(to TurnStatus) bool {
	switch s {
	case TurnQueued:
		return slices.Contains([]TurnStatus{TurnRunning, TurnFailed, TurnCancelled}, to)
	case TurnRunning:
		return slices.Contains([]TurnStatus{TurnPausedApproval, TurnPausedTool, TurnDone, TurnFailed, TurnCancelled}, to)
	case TurnPausedApproval, TurnPausedTool:
		return slices.Contains([]TurnStatus{TurnRunning, TurnFailed, TurnCancelled}, to)
	case TurnDone, TurnFailed, TurnCancelled: // final
	}
	return false
}

// Terminal reports whether the Turn is over.
func (s TurnStatus) Terminal() bool { return s == TurnDone || s == TurnFailed || s == TurnCancelled }

// Paused reports whether the Turn waits for an answer.
func (s TurnStatus) Paused() bool { return s == TurnPausedApproval || s == TurnPausedTool }

// CanBecome is the Run machine.
func (s RunStatus) CanBecome(to RunStatus) bool {
	switch s {
	case RunReserved:
		return to == RunRunning
	case RunRunning:
		return to == RunFinished || to == RunInterrupted || to == RunCancelled || to == RunFailed
	case RunFinished, RunInterrupted, RunCancelled, RunFailed: // final
	}
	return false
}

// Terminal reports whether the slice has its terminal event.
func (s RunStatus) Terminal() bool { return s != RunReserved && s != RunRunning }

// CanBecome is the ToolCall machine. A call that is itself a Question (a permission
// or an input) goes from DISPATCHED, "the answer is on its way to the agent", straight
// to its end: nothing of ours runs for it.
func (s ToolCallStatus) CanBecome(to ToolCallStatus) bool {
	switch s {
	case ToolCreated:
		return to == ToolPolicyChecked || to == ToolFailed
	case ToolPolicyChecked:
		return to == ToolBlocked || to == ToolWaitingApproval || to == ToolDispatched || to == ToolFailed
	case ToolWaitingApproval:
		return to == ToolDispatched || to == ToolFailed || to == ToolTimeout
	case ToolDispatched:
		return to == ToolRunning || to == ToolWaitingClient || to == ToolSucceeded || to == ToolFailed ||
			to == ToolTimeout || to == ToolUnknown
	case ToolRunning:
		return to == ToolSucceeded || to == ToolFailed || to == ToolTimeout || to == ToolUnknown
	case ToolWaitingClient:
		return to == ToolSucceeded || to == ToolFailed || to == ToolTimeout
	case ToolUnknown:
		return to == ToolSucceeded || to == ToolFailed || to == ToolDispatched
	case ToolBlocked, ToolSucceeded, ToolFailed, ToolTimeout: // final
	}
	return false
}

// Terminal reports whether the ToolCall is over.
func (s ToolCallStatus) Terminal() bool {
	return s == ToolBlocked || s == ToolSucceeded || s == ToolFailed || s == ToolTimeout
}

// CanBecome is the Approval machine. An approval that has not been acted on yet may be revoked.
func (s ApprovalStatus) CanBecome(to ApprovalStatus) bool {
	return s == ApprovalPending && to.Terminal() || s == ApprovalApproved && (to == ApprovalCancelled || to == ApprovalExpired)
}

// Terminal reports whether the Approval is decided.
func (s ApprovalStatus) Terminal() bool {
	return s == ApprovalApproved || s == ApprovalRejected || s == ApprovalExpired || s == ApprovalCancelled
}
