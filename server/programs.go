// Service accounts that are bound to an agent: their API key opens the routes by which agents call models, tools and the
// context store, and no other. A framework that makes its client once can hold such a key, where a run token ends with its
// run.

package server

import (
	"context"
	"errors"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
)

// programs exchanges the key of such a request for a token of the engine's own, so that the handlers behind it see an agent
// like any other.
type programs struct {
	auth     *auth.Auth
	sessions *bridge.Sessions
	in       *decode.Decoder
}

// exchange is route.New's: it wraps a handler of a route that is for agents. The request ends when the key is revoked or
// expires, a stream too.
func (p *programs) exchange(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		caller, ok, err := p.auth.Registry().Program(c.Request())
		if err != nil {
			return p.in.Refused(c, fitted(c.Request(), err))
		}
		if !ok {
			return next(c)
		}
		if err := p.in.Known(c); err != nil {
			return err
		}
		ctx, release := p.auth.Watch(c.Request().Context(), caller)
		defer release()
		if !caller.Until.IsZero() {
			var stop context.CancelFunc
			ctx, stop = context.WithDeadlineCause(ctx, caller.Until, auth.ErrTokenExpired)
			defer stop()
		}
		token, err := p.sessions.ClientCalls().TokenFor(ctx, bridge.Program{
			Principal: caller.Principal, KeyID: caller.Credential.ID, AgentID: caller.Credential.AgentID,
		})
		if err != nil {
			return err
		}
		given := c.Request()
		r := given.Clone(ctx)
		r.Header.Set("Authorization", "Bearer "+token)
		c.SetRequest(r)
		err = next(c)
		// The handler takes the end of the context for a client that has left, and answers nothing.
		c.SetRequest(given)
		if ended := context.Cause(ctx); errors.Is(ended, auth.ErrBadCredential) && !c.Response().Committed {
			return ended
		}
		return err
	}
}
