// Counting: how often one caller may do something, and how often one address may fail. Handlers call these after a
// request is known to be good and before anything is written.

package decode

import (
	"errors"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
	"aqueduct/server/limit"
	"aqueduct/server/problem"
	"aqueduct/store"
)

// MayRun counts a Run of a principal, or refuses it. The principal asks for it with the request, or on the socket that the
// request became.
func (in *Decoder) MayRun(c echo.Context, who store.Principal) error {
	return in.Brakes.Take(in.Brakes.Runs, who, c.Request().RemoteAddr)
}

// MayDecide counts a decision of a principal, or refuses it.
func (in *Decoder) MayDecide(c echo.Context, who store.Principal) error {
	return in.Brakes.Take(in.Brakes.Decisions, who, c.Request().RemoteAddr)
}

// Refused counts a refusal of a credential. After too many from one address the error is TooManyTries instead. Good
// credentials from that address still pass, because people behind one NAT share it; the secrets are too long to
// guess. A request without any credential is not counted, since every page makes one to find out whether it is signed
// in.
func (in *Decoder) Refused(c echo.Context, err error) error {
	if err == nil || errors.Is(err, auth.ErrNoCredential) || problem.Of(err).Code != problem.Unauthorized {
		return err
	}
	return in.Failed(c, err)
}

// Failed counts a credential that was refused, and gives err or, after too many, that there were too many. It is for
// credentials whose refusal has another code than unauthorized, such as a link's signature.
func (in *Decoder) Failed(c echo.Context, err error) error {
	in.Brakes.Meter.Refused("credentials")
	if wait, ok := in.Brakes.Failures.Take(limit.Address(c.Request().RemoteAddr)); !ok {
		return problem.RefuseFor(problem.TooManyTries, max(wait, time.Second))
	}
	return err
}

// Known is called when a request has shown a good credential: its connection is one of those of known callers from
// then on. A connection that was evicted while its request was read, or is one too many, is closed by the answer.
func (in *Decoder) Known(c echo.Context) error {
	if limit.Authenticated(c.Request().Context()) {
		return nil
	}
	in.Brakes.Meter.Refused("connections")
	c.Response().Header().Set("Connection", "close")
	return problem.Refuse(problem.TooManyConns, "")
}

// MayInvoke counts a tool call of a principal's agent, or refuses it.
func (in *Decoder) MayInvoke(c echo.Context, who store.Principal) error {
	return in.Brakes.Take(in.Brakes.Invokes, who, c.Request().RemoteAddr)
}
