package server

import (
	"net/http"

	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/internal/schema"
)

// Code is one thing that can go wrong, under a name that stays. The same name is the code
// of a problem and of a RUN_ERROR.
type Code struct {
	Name    string
	Status  int // of the HTTP answer; 0 when it only ever ends a stream, or stands behind '#' in the page's address
	Meaning string
}

// Codes of the server itself. bridge and the agents' protocols have theirs.
const (
	codeInvalidBody     = "invalid_body"
	codeAmbiguousMember = "ambiguous_member"
	codeInvalidQuery    = "invalid_query"
	codeInvalidCursor   = "invalid_cursor"
	codeInvalidVersion  = "unsupported_protocol_version"
	codeUnauthorized    = "unauthorized"
	codeSignInLink      = "sign_in_link_spent"
	codeForwarded       = "forwarded_request"
	codeForbiddenOrigin = "forbidden_origin"
	codeNotAdmin        = "not_admin"
	codeNotOperator     = "not_operator"
	codeRole            = "role_required"
	codeWider           = "wider_than_own"
	codeNotFound        = "not_found"
	codeMethod          = "method_not_allowed"
	codeTooLarge        = "body_too_large"
	codeTooSlow         = "body_too_slow"
	codeMediaType       = "unsupported_media_type"
	codeBeyondLog       = "beyond_log"
	codeForeignHost     = "foreign_host"
	codeUnavailable     = "storage_unavailable"
	codeUpgrade         = "upgrade_required"
	codeForeignRun      = "foreign_run"
	codeShuttingDown    = "shutting_down"
	codeTooManyRequests = "too_many_requests"
	codeTooManyTries    = "too_many_failed_credentials"
	codeBusyBodies      = "too_many_bodies"
	codeTooManySockets  = "too_many_sockets"
	codeTooManyConns    = "too_many_connections"
)

// Codes is the one table of everything that can go wrong. A failure that is not in it is
// internal_error.
func Codes() []Code {
	return []Code{
		{codeAmbiguousMember, http.StatusBadRequest, "A member of the body is spelled in another case than the route takes it, or stands twice."},
		{codeInvalidBody, http.StatusBadRequest, "The body is not what the route takes; the detail says where."},
		{codeInvalidQuery, http.StatusBadRequest, "A query parameter is not what the route takes."},
		{codeInvalidCursor, http.StatusBadRequest, "Last-Event-ID or ?after= is not a position."},
		{codeInvalidVersion, http.StatusBadRequest, "The protocolVersion has a major version that is not spoken here."},
		{bridge.RefusedInvalidID, http.StatusBadRequest, "An id has a form that is not accepted."},
		{bridge.RefusedUnknownAgent, http.StatusBadRequest, "There is no agent of that name, or the thread belongs to another one."},
		{bridge.RefusedNothingToDo, http.StatusBadRequest, "Neither a new message, nor an answer, nor a thread to join."},
		{codeUnauthorized, http.StatusUnauthorized, "A token is needed, or the one given is not good."},
		{codeIssuer, http.StatusServiceUnavailable, "The OpenID provider does not answer as it must; nothing is wrong with the credential."},
		{codeSignInLink, http.StatusUnauthorized, "The sign-in link was used before, or is too old. Sign in with the token, or start the server again for a new link."},
		{codeForwarded, http.StatusForbidden, "A request that came through a proxy, on a server that asks for no token; see --auth."},
		{bridge.RefusedForbiddenAgent, http.StatusForbidden, "The policy does not let this user use the agent."},
		{bridge.RefusedNotShared, http.StatusForbidden, "The thread is shared with the caller, but not for this."},
		{codeNotAdmin, http.StatusForbidden, "The role admin is needed for this."},
		{codeNotOperator, http.StatusForbidden, "The role operator is needed for this; no token of a tenant carries it."},
		{codeRole, http.StatusForbidden, "The caller has none of the roles that this needs; the detail names them."},
		{codeWider, http.StatusForbidden, "A token or an API key may not have a role that its creator does not have, nor that of an operator."},
		{codeForeignRun, http.StatusForbidden, "The run token is for another run than the one named."},
		{codeLinkForeign, http.StatusForbidden, "The link is for somebody else than who is signed in."},
		{codeLinkPage, http.StatusForbidden, "The page was opened too long ago. Open the link again."},
		{codeForbiddenOrigin, http.StatusForbidden, "Pages of this origin may not call; see --cors-origin."},
		{codeNotFound, http.StatusNotFound, "Nothing of that name is here for this caller."},
		{codeLinkInvalid, http.StatusNotFound, "The link is not one that this server made, or what it was for is gone."},
		{bridge.ControlUnknown, http.StatusNotFound, "There is no such proxy."},
		{codeMethod, http.StatusMethodNotAllowed, "The route does not take this method."},
		{codeTooSlow, http.StatusRequestTimeout, "The body did not arrive in time."},
		{bridge.RefusedRunInProgress, http.StatusConflict, "The thread is still answering."},
		{bridge.RefusedTooManyShares, http.StatusConflict, "The thread is shared with as many users and roles as it can be."},
		{bridge.RefusedRunIDConflict, http.StatusConflict, "The runId was used for another request."},
		{bridge.ControlConnected, http.StatusConflict, "The proxy is connected. Stop it first: it would register again."},
		{bridge.ControlNoAgent, http.StatusConflict, "The thread has no agent running now."},
		{bridge.RefusedDecided, http.StatusConflict, "Somebody decided otherwise before; the problem holds that decision."},
		{codeLinkChanged, http.StatusConflict, "The arguments are not those the link was made for. Look at the question anew."},
		{codeLinkExpired, http.StatusGone, "The time to decide is over."},
		{codeLinkUsed, http.StatusGone, "The link has been used. It works once."},
		{codeTooLarge, http.StatusRequestEntityTooLarge, "The body is larger than is accepted."},
		{codeMediaType, http.StatusUnsupportedMediaType, "Writes are application/json, uncompressed, in UTF-8."},
		{codeBeyondLog, http.StatusRequestedRangeNotSatisfiable, "The position lies beyond the end of the log."},
		{codeForeignHost, http.StatusMisdirectedRequest, "The Host is not one this server goes by; see --allowed-host."},
		{inbox.AskerLost, http.StatusConflict, "The agent that asked is gone, or has not been found again after a restart: nobody waits for the decision."},
		{bridge.RefusedDelivered, http.StatusConflict, "The agent has been told; its approval cannot be taken back."},
		{bridge.RefusedDispatched, http.StatusConflict, "The call has been dispatched; its approval cannot be taken back."},
		{inbox.NotApprover, http.StatusForbidden, "Somebody else has to decide this."},
		{inbox.FourEyes, http.StatusForbidden, "Who prompted the agent may not approve this."},
		{inbox.PolicyBlocks, http.StatusForbidden, "The policy in force blocks the call. It can only be rejected."},
		{inbox.EditRefused, http.StatusUnprocessableEntity, "The arguments may not be changed, or not to these."},
		{bridge.RefusedUnknownOption, http.StatusUnprocessableEntity, "The question offered no such option."},
		{schema.CodeTooLarge, http.StatusUnprocessableEntity, "A JSON Schema is larger than 64 KiB."},
		{schema.CodeInvalid, http.StatusUnprocessableEntity, "A JSON Schema is not one, or is nested too deep."},
		{schema.CodeReference, http.StatusUnprocessableEntity, "A JSON Schema refers to something outside of itself."},
		{schema.CodeTooComplex, http.StatusUnprocessableEntity, "A JSON Schema has more than 10 000 nodes with its references followed, or refers to itself for the same value."},
		{schema.CodePattern, http.StatusUnprocessableEntity, "A regular expression of a JSON Schema is too large, or RE2 does not know it."},
		{schema.CodeValueTooComplex, http.StatusUnprocessableEntity, "A value is too large, or too expensive to check against its schema."},
		{bridge.RefusedInvalidAnswer, http.StatusUnprocessableEntity, "The answer does not fit the question."},
		{bridge.ControlRejected, http.StatusForbidden, "Somebody had to approve it, and did not: rejected, expired or taken back."},
		{bridge.ControlNotOffered, http.StatusUnprocessableEntity, "The thread's agent does not offer that."},
		{bridge.ControlUnsupported, http.StatusUnprocessableEntity, "The thread's agent does not know how."},
		{codeTooManyRequests, http.StatusTooManyRequests, "Too many of these in a short time. Retry-After says when to try again."},
		{codeTooManyTries, http.StatusTooManyRequests, "Too many credentials from this address were refused. Retry-After says when to try again."},
		{bridge.RefusedTooManyTurns, http.StatusTooManyRequests, "This user has too many turns under way."},
		{bridge.RefusedTenantFull, http.StatusTooManyRequests, "The tenant's threads hold as much as they may. Delete some, or have the limit raised."},
		{bridge.CodeTooManyQuestions, http.StatusTooManyRequests, "Too many questions of the turn, or of the user, are open."},
		{codeTooManySockets, http.StatusTooManyRequests, "This user has too many WebSockets open."},
		{codeUpgrade, http.StatusUpgradeRequired, "The route is a WebSocket."},
		{bridge.ControlFailed, http.StatusBadGateway, "The agent, or its proxy, said no."},
		{bridge.ControlOffline, http.StatusServiceUnavailable, "The agent's proxy is not connected here. Try again."},
		{bridge.ControlTimeout, http.StatusGatewayTimeout, "The agent, or its proxy, did not answer in time."},
		{bridge.RefusedTooManyStreams, http.StatusServiceUnavailable, "Too many streams are open."},
		{codeTooManyConns, http.StatusServiceUnavailable, "Too many connections are open."},
		{codeBusyBodies, http.StatusServiceUnavailable, "Too many bodies are being read. Try again."},
		{codeUnavailable, http.StatusServiceUnavailable, "The database cannot be reached. Try again."},
		{codeShuttingDown, http.StatusServiceUnavailable, "This server is going away. Try again."},
		{bridge.CodeInternal, http.StatusInternalServerError, "A fault of the server; its log has the error id."},

		{bridge.CodeServerRestarted, 0, "The server was restarted and the agent could not take the work up again."},
		{bridge.CodeAgentGone, 0, "The agent stopped before it had finished and cannot go on where it was."},
		{"tool_failed", 0, "A tool failed that ends the run when it does."},
		{bridge.CodeOwnerUnavailable, 0, "The replica that owns the thread did not begin the run in time (--owner-wait)."},
		{bridge.CodeUpstreamProtocol, 0, "The agent broke its protocol."},
		{bridge.CodeStorageRefused, 0, "The answer could not be kept."},
		{bridge.CodeStateInvalid, 0, "A change of the state does not apply; in a state_not_applied event only."},
		{bridge.CodeStateTooLarge, http.StatusRequestEntityTooLarge, "The state is larger than 256 KiB; in a state_not_applied event: it would be with the change."},
		{bridge.CodeRunTooLarge, 0, "The agent said more than one answer may hold."},
		{bridge.CodeThreadTooLarge, 0, "The thread holds as much as one may. Go on in a new one."},
		{"agent_error", 0, "The agent reported an error and gave no code of its own."},
		{codeSignInFailed, 0, "The sign-in failed; the server's log says why."},
		{codeSignInDenied, 0, "The OpenID provider refused to sign in."},
		{codeSignInState, 0, "The sign-in was not begun in this browser, or too long ago."},
		{codeSignInUnknown, 0, "The provider knows who this is, and the mapping gives them no place here."},
		// bridge/httpagent's, which this room does not import; a test compares.
		{"upstream_unreachable", 0, "The agent could not be reached."},
		{"upstream_address_refused", 0, "The agent's address may not be called."},
		{"upstream_status", 0, "The agent answered with another status than 200."},
		{"upstream_not_a_stream", 0, "The agent did not answer with an event stream."},
		{"upstream_first_byte_timeout", 0, "The agent did not begin to answer in time."},
		{"upstream_idle_timeout", 0, "The agent said nothing for too long."},
		{"upstream_total_timeout", 0, "The agent took too long."},
		{"upstream_truncated", 0, "The agent's answer ended before it was complete."},
		{"upstream_malformed", 0, "The agent sent a frame that could not be read."},
		{"upstream_event_too_large", 0, "The agent sent an event that is too large."},
	}
}

// codeOf finds a code in the table.
func codeOf(name string) (Code, bool) {
	for _, c := range Codes() {
		if c.Name == name {
			return c, true
		}
	}
	return Code{}, false
}
