package outbound

import (
	"context"
	"errors"
	"net"
)

// Reason is why a call is not made. The words are stable; clients may see them.
type Reason string

// The reasons.
const (
	ReasonURL       Reason = "malformed_url"
	ReasonScheme    Reason = "scheme_not_allowed"
	ReasonPlain     Reason = "plain_http_not_allowed"
	ReasonUserinfo  Reason = "userinfo_not_allowed"
	ReasonHost      Reason = "host_not_allowed"
	ReasonPort      Reason = "port_not_allowed"
	ReasonLoopback  Reason = "loopback_address"
	ReasonPrivate   Reason = "private_address"
	ReasonLinkLocal Reason = "link_local_address"
	ReasonMetadata  Reason = "metadata_address"
	ReasonReserved  Reason = "reserved_address"
	ReasonRedirects Reason = "too_many_redirects"
	ReasonDowngrade Reason = "redirect_to_plain_http"
)

// Refused is the error of a call that was not made. It has the reason and never what a name resolved to: a caller could
// map our network by asking.
type Refused struct{ Reason Reason }

// Error implements error.
func (r *Refused) Error() string { return "outbound: " + string(r.Reason) }

// ErrTooLarge: the answer is larger than Limits.Body.
var ErrTooLarge = errors.New("outbound: answer too large")

// Cause is a word for what went wrong with a call, safe to be shown to the caller. The error itself may hold addresses and
// is for the log.
func Cause(err error) string {
	var (
		refused *Refused
		timeout net.Error
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return string(refused.Reason)
	case errors.Is(err, ErrTooLarge):
		return "answer_too_large"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return "unreachable"
}
