package server

import (
	"errors"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/server/brake"
	"aqueduct/store"
)

// addressShare is how many principals' worth one address may do: an office behind one NAT, or
// a reverse proxy, is one address to us.
const addressShare = 4

// brakes are the limits on how often something may be done.
type brakes struct {
	runs, decisions, invokes actionBrake
	failures                 *brake.Brake // by address
	meter                    *limitMetrics
}

// actionBrake limits one kind of action, by principal and by address.
type actionBrake struct {
	name        string
	byPrincipal *brake.Brake
	byAddress   *brake.Brake
}

func newBrakes(l Limits, meter *limitMetrics) *brakes {
	of := func(name string, r brake.Rate) actionBrake {
		wider := brake.Rate{PerSecond: addressShare * r.PerSecond, Burst: addressShare * r.Burst}
		return actionBrake{name, brake.New(r), brake.New(wider)}
	}
	return &brakes{
		runs: of("runs", l.Runs), decisions: of("decisions", l.Decisions), invokes: of("invokes", l.Invokes),
		failures: brake.New(l.Failures), meter: meter,
	}
}

// take counts one action of a principal that came from an address. The error says when to try again.
func (b *brakes) take(a actionBrake, who store.Principal, remote string) error {
	wait, ok := a.byPrincipal.Take(who.Tenant + "\x00" + who.User)
	if ok {
		wait, ok = a.byAddress.Take(brake.Address(remote))
	}
	if ok {
		return nil
	}
	b.meter.refused(a.name)
	return refuseFor(codeTooManyRequests, wait)
}

// mayRun and mayDecide count an action of a principal, which the request, or the socket that it
// became, asks for.
func (in *intake) mayRun(c echo.Context, who store.Principal) error {
	return in.brakes.take(in.brakes.runs, who, c.Request().RemoteAddr)
}

func (in *intake) mayDecide(c echo.Context, who store.Principal) error {
	return in.brakes.take(in.brakes.decisions, who, c.Request().RemoteAddr)
}

// refused is what becomes of a refusal of a credential: after too many from one address it says
// so. Good credentials from that address still pass, because people behind one NAT share it; the
// secrets are too long to be found by trying.
func (in *intake) refused(c echo.Context, err error) error {
	if err == nil || errors.Is(err, auth.ErrNoCredential) || problemOf(err).Code != codeUnauthorized {
		return err
	}
	return in.failed(c, err)
}

// failed counts a credential that was refused, and gives err or, after too many, that there were
// too many.
func (in *intake) failed(c echo.Context, err error) error {
	in.brakes.meter.refused("credentials")
	if wait, ok := in.brakes.failures.Take(brake.Address(c.Request().RemoteAddr)); !ok {
		return refuseFor(codeTooManyTries, max(wait, time.Second))
	}
	return err
}

// known is called when a request has shown a good credential: its connection is one of those of
// known callers from then on.
func (in *intake) known(c echo.Context) error {
	if Authenticated(c.Request().Context()) {
		return nil
	}
	in.brakes.meter.refused("connections")
	c.Response().Header().Set("Connection", "close")
	return refuse(codeTooManyConns, "")
}

// agent is whose agent shows a run or session token. It is checked before a body is read.
func (in *intake) agent(c echo.Context, sessions *bridge.Sessions, token string) (store.Principal, error) {
	who, err := sessions.AgentOf(c.Request().Context(), token)
	if err != nil {
		return who, in.refused(c, err)
	}
	return who, in.known(c)
}

// mayInvoke is agent, and counts a tool call.
func (in *intake) mayInvoke(c echo.Context, sessions *bridge.Sessions, token string) error {
	who, err := in.agent(c, sessions, token)
	if err != nil {
		return err
	}
	return in.brakes.take(in.brakes.invokes, who, c.Request().RemoteAddr)
}
