// The codes of errors that the edge itself makes, by where they come from. They are part of the API: a client
// compares them, so a code is never renamed. Their status and meaning are in table.go.

package problem

// Codes of the HTTP edge itself. limit, bridge, approval and schema have theirs.
const (
	InvalidBody      = "invalid_body"
	AmbiguousMember  = "ambiguous_member"
	UnknownMember    = "unknown_member"
	InvalidQuery     = "invalid_query"
	InvalidCursor    = "invalid_cursor"
	InvalidVersion   = "unsupported_protocol_version"
	Unauthorized     = "unauthorized"
	SignInLink       = "sign_in_link_spent"
	CrossSite        = "cross_site_session"
	Forwarded        = "forwarded_request"
	ForbiddenOrigin  = "forbidden_origin"
	NotAdmin         = "not_admin"
	NotOperator      = "not_operator"
	Role             = "role_required"
	Wider            = "wider_than_own"
	TokenAgain       = "token_required_again"
	NoSession        = "session_required"
	NotFound         = "not_found"
	Method           = "method_not_allowed"
	TooLarge         = "body_too_large"
	TooSlow          = "body_too_slow"
	MediaType        = "unsupported_media_type"
	BeyondLog        = "beyond_log"
	ForeignHost      = "foreign_host"
	Unavailable      = "storage_unavailable"
	Full             = "storage_full"
	Upgrade          = "upgrade_required"
	InvalidID        = "invalid_id"
	Internal         = "internal_error"
	TooManyQuestions = "too_many_questions"
	ForeignRun       = "foreign_run"
	MessageRole      = "message_role_forbidden"
	TooManyTries     = "too_many_failed_credentials"
	TooManyConns     = "too_many_connections"
)

// Codes of links.
const (
	LinkInvalid = "link_invalid"
	LinkExpired = "link_expired"
	LinkUsed    = "link_used"
	LinkChanged = "link_args_changed"
	LinkForeign = "link_foreign"
	LinkPage    = "link_page_expired"
)

// Codes of a sign-in at an OpenID provider. The page at "/" gets them after '#'; issuer_unavailable is also that of a problem,
// when a bearer token cannot be checked.
const (
	SignInFailed  = "signin_failed"
	SignInDenied  = "signin_denied"
	SignInState   = "signin_expired"
	SignInUnknown = "signin_not_mapped"
	Issuer        = "issuer_unavailable"
)

// Codes of errors that only this channel has.
const (
	UnknownType     = "unknown_type"
	HelloTwice      = "already_authenticated"
	MessageNotTaken = "message_not_taken"
	ForeignUser     = "forbidden_user"
	Replaying       = "replay_in_progress"
)
