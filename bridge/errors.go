package bridge

import (
	"errors"
)

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
	CodeChildCancelled   = "child_cancelled" // of a SUBAGENT_ERROR
)

// ErrCannotResume means that a Turn's upstream can not be taken up again.
var ErrCannotResume = errors.New("bridge: turn cannot be resumed")

// ErrUnsent means that nothing of a call has reached the Agent, which may so be called again without being called twice.
var ErrUnsent = errors.New("bridge: nothing was sent to the agent")

// Codes of Refusals.
const (
	RefusedRunInProgress  = "run_in_progress"
	RefusedRunIDConflict  = "run_id_conflict"
	RefusedNothingToDo    = "nothing_to_do"
	RefusedBeyondLog      = "beyond_log"
	RefusedUnknownAgent   = "agent_unknown"
	RefusedInvalidID      = "invalid_id"
	RefusedForbiddenAgent = "agent_forbidden"
	RefusedNotShared      = "share_forbidden"
	RefusedTooManyShares  = "too_many_shares"
	RefusedTooManyTurns   = "too_many_turns"
	RefusedTenantFull     = "tenant_full"
	RefusedMessageID      = "message_id_conflict"
)
