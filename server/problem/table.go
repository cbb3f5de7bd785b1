// The table of codes. It decides the status of every refusal in the project. A test compares it with the constants of
// the rooms that return them, and another causes each code that has a status by a request.

package problem

import (
	"net/http"
	"slices"

	"aqueduct/internal/schema"
	"aqueduct/server/limit"
)

// Code is one thing that can go wrong, under a name that stays. The same name is the code of a problem and of a
// RUN_ERROR. Meaning is what a client gets as detail when the error has no words of its own.
type Code struct {
	Name    string
	Status  int // of the HTTP answer; 0 when it only ever ends a stream, or stands behind '#' in the page's address
	Meaning string
}

// Codes is the one table of everything that can go wrong, by what it is about. A failure that is not in it is
// internal_error. The codes of the engine stand here as they are on the wire, so that this room does not depend on
// the engine; a test compares them with the engine's constants. It is made anew for each call: a table in a variable
// could be changed by any package.
func Codes() []Code {
	return slices.Concat(requests(), callers(), conversations(), control(), decisions(), links(), schemas(), limits(), faults(), endings(), signIns(), upstreams())
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

// requests is what is about the form of a request.
func requests() []Code {
	return []Code{
		{AmbiguousMember, http.StatusBadRequest, "A member of the body is spelled in another case than the route takes it, or stands twice."},
		{UnknownMember, http.StatusBadRequest, "The route does not take this member of a body, or this query parameter; the detail names it and those that it takes."},
		{InvalidBody, http.StatusBadRequest, "The body is not what the route takes; the detail says where."},
		{InvalidQuery, http.StatusBadRequest, "A query parameter is not what the route takes."},
		{InvalidCursor, http.StatusBadRequest, "Last-Event-ID or ?after= is not a position."},
		{InvalidVersion, http.StatusBadRequest, "The protocolVersion has a major version that is not spoken here."},
		{InvalidID, http.StatusBadRequest, "An id has a form that is not accepted."},
		{Method, http.StatusMethodNotAllowed, "The route does not take this method."},
		{TooSlow, http.StatusRequestTimeout, "The body did not arrive in time."},
		{TooLarge, http.StatusRequestEntityTooLarge, "The body is larger than is accepted."},
		{MediaType, http.StatusUnsupportedMediaType, "Writes are application/json, uncompressed, in UTF-8; /v1/context and /api/attachments take other types too."},
		{BeyondLog, http.StatusRequestedRangeNotSatisfiable, "The position lies beyond the end of the log."},
		{Upgrade, http.StatusUpgradeRequired, "The route is a WebSocket."},
		{NotFound, http.StatusNotFound, "Nothing of that name is here for this caller."},
	}
}

// callers is what is about who calls, from where, and with which credential.
func callers() []Code {
	return []Code{
		{Unauthorized, http.StatusUnauthorized, "A token of a user, service account or operator is needed as Authorization: Bearer (the server's own: aqueduct token show), or a browser's session (POST /api/session): its cookie and, on plain http and on this machine, the page's secret as X-Aqueduct-Page, or ?ticket= of POST /api/tickets for a WebSocket, an EventSource, a picture, a download. The one given is not good."},
		{Issuer, http.StatusServiceUnavailable, "The OpenID provider does not answer as it must; nothing is wrong with the credential."},
		{SignInLink, http.StatusUnauthorized, "The sign-in link was used before, or is too old. Sign in with the token, or start the server again for a new link."},
		{CrossSite, http.StatusForbidden, "The page is of another site than this server, so the browser would neither keep nor send the session's cookie. Use one site for both, or send a token."},
		{Forwarded, http.StatusForbidden, "A request that came through a proxy, on a server that asks for no token; see --auth."},
		{NotAdmin, http.StatusForbidden, "The role admin is needed for this."},
		{NotOperator, http.StatusForbidden, "The role operator is needed for this; no token of a tenant carries it."},
		{Role, http.StatusForbidden, "The caller has none of the roles that this needs; the detail names them."},
		{Wider, http.StatusForbidden, "A token or an API key may not have a role that its creator does not have, nor that of an operator."},
		{TokenAgain, http.StatusForbidden, "A browser session of the server's own token makes no tokens and no API keys. Send the token itself with this request, as Authorization: Bearer."},
		{NoSession, http.StatusForbidden, "Tickets are for pages that have signed in (POST /api/session). A program sends its token as Authorization: Bearer with the request itself."},
		{ForeignRun, http.StatusForbidden, "The run token is for another run than the one named."},
		{MessageRole, http.StatusForbidden, "The caller may not write messages of that role: a user's are the user's, an agent's the assistant's."},
		{ForbiddenOrigin, http.StatusForbidden, "Pages of this origin may not call; see --cors-origin."},
		{ForeignHost, http.StatusMisdirectedRequest, "The Host is not one this server goes by; see --allowed-host."},
	}
}

// conversations is what is about threads, runs and their agents.
func conversations() []Code {
	return []Code{
		{"agent_unknown", http.StatusBadRequest, "There is no agent of that name, or the thread belongs to another one."},
		{"nothing_to_do", http.StatusBadRequest, "Neither a new message, nor an answer, nor a thread to join."},
		{"agent_id_taken", http.StatusConflict, "The id or the name of an agent is another's in the caller's tenant or the operator's, or looks like one of the operator's."},
		{"too_many_agents", http.StatusTooManyRequests, "The caller, or its tenant, has as many registered agents as it may have. Remove some."},
		{"agent_forbidden", http.StatusForbidden, "The policy does not let this user use the agent."},
		{"agent_call_forbidden", http.StatusForbidden, "The policy does not let the one agent call the other."},
		{"agent_call_loop", http.StatusConflict, "The agent that is called is on the way to the call already; the detail has the way."},
		{"agent_call_depth", http.StatusConflict, "Too many agents would stand between the user and the one that is called."},
		{"agent_call_breadth", http.StatusTooManyRequests, "The run has as many agents at work, or its prompt led to as many calls, as may be."},
		{"child_thread", http.StatusConflict, "The thread belongs to the call of an agent by another, and takes no messages."},
		{"share_forbidden", http.StatusForbidden, "The thread is shared with the caller, but not for this."},
		{"run_in_progress", http.StatusConflict, "The thread is still answering."},
		{"too_many_shares", http.StatusConflict, "The thread is shared with as many users and roles as it can be."},
		{"run_id_conflict", http.StatusConflict, "The runId was used for another request."},
		{"message_id_conflict", http.StatusConflict, "The thread has another message of that id."},
		{"thread_too_large", http.StatusConflict, "The thread holds as much as one may. Go on in a new one."},
		{"attachment_unknown", http.StatusUnprocessableEntity, "The message names an attachment that is not there, has expired, or is one too many."},
		{"part_url_refused", http.StatusUnprocessableEntity, "A part of a message has an address that is not http or https, or that readers would take for different ones."},
		{"context_owner_forbidden", http.StatusForbidden, "A context entry belongs to the caller: an agent's session, run or user, or itself."},
		{"version_conflict", http.StatusPreconditionFailed, "The entry has another version than If-Match names; the detail has it."},
		{"state_too_large", http.StatusRequestEntityTooLarge, "The state is larger than 256 KiB; in a state_not_applied event: it would be with the change."},
	}
}

// control is what is about agents and proxies that are steered.
func control() []Code {
	return []Code{
		{"proxy_unknown", http.StatusNotFound, "There is no such proxy."},
		{"proxy_connected", http.StatusConflict, "The proxy is connected. Stop it first: it would register again."},
		{"no_agent_running", http.StatusConflict, "The thread has no agent running now."},
		{"control_rejected", http.StatusForbidden, "Somebody had to approve it, and did not: rejected, expired or taken back."},
		{"control_not_offered", http.StatusUnprocessableEntity, "The thread's agent does not offer that."},
		{"control_unsupported", http.StatusUnprocessableEntity, "The thread's agent does not know how."},
		{"control_failed", http.StatusBadGateway, "The agent, or its proxy, said no."},
		{"agent_offline", http.StatusServiceUnavailable, "The agent's proxy is not connected here. Try again."},
		{"control_timeout", http.StatusGatewayTimeout, "The agent, or its proxy, did not answer in time."},
	}
}

// decisions is what is about Questions and what decides them.
func decisions() []Code {
	return []Code{
		{"already_decided", http.StatusConflict, "Somebody decided otherwise before; the problem holds that decision."},
		{"asker_gone", http.StatusConflict, "The agent that asked is gone, or has not been found again after a restart: nobody waits for the decision."},
		{"already_delivered", http.StatusConflict, "The agent has been told; its approval cannot be taken back."},
		{"already_dispatched", http.StatusConflict, "The call has been dispatched; its approval cannot be taken back."},
		{"not_approver", http.StatusForbidden, "Somebody else has to decide this."},
		{"four_eyes", http.StatusForbidden, "Who prompted the agent may not approve this."},
		{"policy_blocks", http.StatusForbidden, "The policy in force blocks the call. It can only be rejected."},
		{"edit_not_allowed", http.StatusUnprocessableEntity, "The arguments may not be changed, or not to these."},
		{"unknown_option", http.StatusUnprocessableEntity, "The question offered no such option."},
		{"invalid_answer", http.StatusUnprocessableEntity, "The answer does not fit the question."},
	}
}

// links is what is about signed links to one decision.
func links() []Code {
	return []Code{
		{LinkForeign, http.StatusForbidden, "The link is for somebody else than who is signed in."},
		{LinkPage, http.StatusForbidden, "The page was opened too long ago. Open the link again."},
		{LinkInvalid, http.StatusNotFound, "The link is not one that this server made, or what it was for is gone."},
		{LinkChanged, http.StatusConflict, "The arguments are not those the link was made for. Look at the question anew."},
		{LinkExpired, http.StatusGone, "The time to decide is over."},
		{LinkUsed, http.StatusGone, "The link has been used. It works once."},
	}
}

// schemas is what is about JSON Schemas that were sent.
func schemas() []Code {
	return []Code{
		{schema.CodeTooLarge, http.StatusUnprocessableEntity, "A JSON Schema is larger than 64 KiB."},
		{schema.CodeInvalid, http.StatusUnprocessableEntity, "A JSON Schema is not one, or is nested too deep."},
		{schema.CodeReference, http.StatusUnprocessableEntity, "A JSON Schema refers to something outside of itself."},
		{schema.CodeTooComplex, http.StatusUnprocessableEntity, "A JSON Schema has more than 10 000 nodes with its references followed, or refers to itself for the same value."},
		{schema.CodePattern, http.StatusUnprocessableEntity, "A regular expression of a JSON Schema is too large, or is not valid."},
		{schema.CodeValueTooComplex, http.StatusUnprocessableEntity, "A value is too large, or too expensive to check against its schema."},
	}
}

// limits is what is about limits.
func limits() []Code {
	return []Code{
		{limit.TooManyRequests, http.StatusTooManyRequests, "Too many of these in a short time. Retry-After says when to try again."},
		{TooManyTries, http.StatusTooManyRequests, "Too many credentials from this address were refused. Retry-After says when to try again."},
		{"too_many_turns", http.StatusTooManyRequests, "This user has too many turns under way."},
		{"tenant_full", http.StatusTooManyRequests, "The tenant's threads hold as much as they may. Delete some, or have the limit raised."},
		{"context_full", http.StatusTooManyRequests, "The context entries of this user hold as much as they may. Delete some."},
		{TooManyQuestions, http.StatusTooManyRequests, "Too many questions of the turn, or of the user, are open."},
		{limit.TooManySockets, http.StatusTooManyRequests, "This user has too many WebSockets open."},
		{limit.TooManyStreams, http.StatusServiceUnavailable, "Too many streams are open."},
		{TooManyConns, http.StatusServiceUnavailable, "Too many connections are open."},
		{limit.BusyBodies, http.StatusServiceUnavailable, "Too many bodies are being read. Try again."},
	}
}

// faults is what is the server itself.
func faults() []Code {
	return []Code{
		{Unavailable, http.StatusServiceUnavailable, "The database, or the store of blobs, cannot be reached. Try again."},
		{Full, http.StatusServiceUnavailable, "The disk of the database is full, and nothing was written. Make room on it, or enlarge it, and try again. " +
			"With SQLite you can also delete threads, which works on a full disk; PostgreSQL needs room for that first."},
		{limit.ShuttingDown, http.StatusServiceUnavailable, "This server is going away. Try again."},
		{Internal, http.StatusInternalServerError, "A fault of the server; its log has the error id."},
	}
}

// endings is what only ends a stream, or stands in an event of one.
func endings() []Code {
	return []Code{
		{"server_restarted", 0, "The server was restarted and the agent could not take the work up again."},
		{"child_cancelled", 0, "An agent that was called by another was cancelled: of a SUBAGENT_ERROR, and of the error that its caller gets."},
		{"agent_gone", 0, "The agent stopped before it had finished and cannot go on where it was."},
		{"tool_failed", 0, "A tool failed that ends the run when it does."},
		{"owner_unavailable", 0, "The replica that owns the thread did not begin the run in time (--owner-wait)."},
		{"upstream_protocol_error", 0, "The agent broke its protocol."},
		{"storage_refused", 0, "The answer could not be kept."},
		{"invalid_state", 0, "A change of the state does not apply; in a state_not_applied event only."},
		{"run_too_large", 0, "The agent said more than one answer may hold."},
		{"queue_full", http.StatusTooManyRequests, "As many tasks wait in the queue as one user, or one tenant, may have."},
		{"task_too_large", http.StatusRequestEntityTooLarge, "A task for the queue has at most 1 MiB."},
		{"task_unreadable", 0, "A task waited in the queue, and its request, or a file that it names, cannot be read any more."},
		{"budget_exhausted", http.StatusPaymentRequired, "A budget for models is used up, and it was not added to."},
		{"model_failed", 0, "The model of the assistant refused, or its answer broke off."},
		{"too_many_steps", 0, "The model of the assistant called tools again and again, without an answer."},
		{"agent_error", 0, "The agent reported an error and gave no code of its own."},
	}
}

// signIns is what ends a sign-in at an OpenID provider; the page at "/" gets it after '#'.
func signIns() []Code {
	return []Code{
		{SignInFailed, 0, "The sign-in failed; the server's log says why."},
		{SignInDenied, 0, "The OpenID provider refused to sign in."},
		{SignInState, 0, "The sign-in was not begun in this browser, or too long ago."},
		{SignInUnknown, 0, "The provider knows who this is, and the mapping gives them no place here."},
	}
}

// upstreams is what is about agents that are called by HTTP.
func upstreams() []Code {
	return []Code{
		{"model_unknown", http.StatusNotFound, "No upstream answers for that model."},
		{"model_unreachable", http.StatusBadGateway, "No upstream of that model could be reached."},
		{"model_timeout", http.StatusGatewayTimeout, "The upstream did not answer in time."},
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
		{"agent_cancelled", 0, "An agent that speaks AG-UI ended its run as cancelled, which nobody had asked for."},
	}
}
