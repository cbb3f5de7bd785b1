package bridge

import "errors"

// Codes of RUN_ERROR that the bridge itself gives. They are stable; server's problem
// table documents them all.
const (
	CodeServerRestarted  = "server_restarted"
	CodeAgentUnknown     = "agent_unknown"
	CodeAgentGone        = "agent_gone"
	CodeUpstreamProtocol = "upstream_protocol_error"
	CodeStorageRefused   = "storage_refused"
	CodeStateInvalid     = "invalid_state"
	CodeStateTooLarge    = "state_too_large"
	CodeRunTooLarge      = "run_too_large"
	CodeThreadTooLarge   = "thread_too_large"
	CodeTooManyQuestions = "too_many_questions"
	CodeInternal         = "internal_error"
	CodeOwnerUnavailable = "owner_unavailable"
)

// ErrCannotResume says that a Turn's upstream can not be taken up again.
var ErrCannotResume = errors.New("bridge: turn cannot be resumed")

// Failure is why a Turn failed, in words a user may read and with a stable code. Cause
// is for the log only.
type Failure struct {
	Code    string
	Message string
	Cause   error
}

func (f *Failure) Error() string {
	if f.Cause == nil {
		return f.Code + ": " + f.Message
	}
	return f.Code + ": " + f.Message + ": " + f.Cause.Error()
}

func (f *Failure) Unwrap() error { return f.Cause }

// Refusal is why a request was not taken. Nothing was stored.
type Refusal struct {
	Code    string
	Message string
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Message }

// Codes of Refusals.
const (
	RefusedRunInProgress  = "run_in_progress"
	RefusedRunIDConflict  = "run_id_conflict"
	RefusedNothingToDo    = "nothing_to_do"
	RefusedUnknownAgent   = "agent_unknown"
	RefusedInvalidID      = "invalid_id"
	RefusedDecided        = "already_decided"
	RefusedForbiddenAgent = "agent_forbidden"
	RefusedNotShared      = "share_forbidden"
	RefusedTooManyShares  = "too_many_shares"
	RefusedDispatched     = "already_dispatched"
	RefusedDelivered      = "already_delivered"
	RefusedUnknownOption  = "unknown_option"
	RefusedInvalidAnswer  = "invalid_answer"
	RefusedTooManyStreams = "too_many_streams"
	RefusedTooManyTurns   = "too_many_turns"
	RefusedTenantFull     = "tenant_full"
)
