// This file handles service accounts that are bound to an agent. Their API key opens the routes by which agents call models,
// tools and the context store, and no other route. A framework that creates its client once can use such a key; a run token
// ends with its run.

package server

import (
	"context"
	"errors"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
)

// programs exchanges the key of such a request for a token of the engine's own, so that the handlers after it see an ordinary
// agent.
type programs struct {
	auth     *auth.Auth
	sessions *bridge.Sessions
	in       *decode.Decoder
}

// exchange is the exchange argument of route.New: it wraps a handler of a route for agents. The request, also a stream, ends
// when the key is revoked or expires.
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
		// The handler treats the end of the context as a client that has left, and sends no answer.
		c.SetRequest(given)
		if ended := context.Cause(ctx); errors.Is(ended, auth.ErrBadCredential) && !c.Response().Committed {
			return ended
		}
		return err
	}
}
