package server

import (
	"context"
	"errors"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// shareRecheck is how often a request that reads a shared thread looks whether it still may: with the time a
// look takes, a stream ends within 15 s of the end of its share.
const shareRecheck = 5 * time.Second

// shared finds what is not the caller's own among what is shared with it. From then on the request's context
// has a Caller that sees that thread alone, and it ends when the share does.
//
// Without access the error is store.ErrNotFound, as for an id that there is not: nobody learns of threads of others.
func shared(c echo.Context, r store.ShareReader, by store.AccessBy) (store.Access, error) {
	caller := auth.From(c.Request().Context())
	a, err := r.Access(c.Request().Context(), caller.Principal, by)
	if err != nil {
		return store.Access{}, err
	}
	lend(c, r, caller, a)
	return a, nil
}

// lend gives the request the eyes of an Access, as long as that lasts.
func lend(c echo.Context, r store.ShareReader, caller auth.Caller, a store.Access) {
	ctx, cancel := context.WithCancel(auth.With(c.Request().Context(), caller.Within(a.Scope())))
	c.SetRequest(c.Request().WithContext(ctx))
	var look *time.Timer
	armed := make(chan struct{})
	look = time.AfterFunc(shareRecheck, func() {
		<-armed
		if ctx.Err() != nil {
			return
		}
		// An error of the store is no end of a share: the next look tells.
		_, err := r.Access(ctx, caller.Principal, store.AccessBy{SessionID: a.Session.ID})
		if errors.Is(err, store.ErrNotFound) {
			cancel()
			return
		}
		look.Reset(shareRecheck)
	})
	close(armed)
	// The server ends the request's context when its handler returns; the timer goes with it.
	context.AfterFunc(ctx, func() { look.Stop(); cancel() })
}

// sessionFor finds a thread by the client's id or ours among the caller's own, and by ours among those that are
// shared with it.
func sessionFor(c echo.Context, st store.Store, id string) (store.Session, error) {
	ctx := c.Request().Context()
	in := auth.From(ctx).Scope()
	s, err := st.SessionByExternalID(ctx, in, id)
	if errors.Is(err, store.ErrNotFound) {
		s, err = st.Session(ctx, in, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		var a store.Access
		a, err = shared(c, st, store.AccessBy{SessionID: id})
		s = a.Session
	}
	return s, err
}

// own refuses what only the owner of a thread may do.
func own(c echo.Context, s store.Session) error {
	if auth.From(c.Request().Context()).Scope().Session() != "" {
		return &bridge.Refusal{Code: bridge.RefusedNotShared, Message: "Only the owner of this thread may do that."}
	}
	return nil
}

// mayWrite refuses to change a thread that is shared for reading alone.
func mayWrite(c echo.Context, r store.ShareReader, s store.Session) error {
	ctx := c.Request().Context()
	caller := auth.From(ctx)
	if caller.Scope().Session() == "" {
		return nil
	}
	a, err := r.Access(ctx, caller.Principal, store.AccessBy{SessionID: s.ID})
	if err == nil && !a.Write {
		err = bridge.NotShared("write")
	}
	return err
}
