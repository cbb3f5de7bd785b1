// Threads of others that are shared with the caller. Every route that takes a thread's id looks among the caller's
// own first and then here. From there on handlers need no special case: the context has a Caller who sees that one
// thread.

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

// shareRecheck is how often a request that reads a shared thread looks whether it still may: with the time a look
// takes, a stream ends within 15 s of the end of its share. It is one indexed read for each open stream of a shared
// thread. The timer stops with the request, so closed streams cost nothing.
const shareRecheck = 5 * time.Second

// shared finds a thread that is not the caller's own among those shared with the caller. From then on the request's
// context has a Caller that sees that thread alone, and it ends when the share does. Without access the error is
// store.ErrNotFound, as for an unknown id: the existence of other users' threads stays hidden. by names the thread by
// its own id or by that of a Run in it.
func shared(c echo.Context, r store.ShareReader, by store.AccessBy) (store.Access, error) {
	caller := auth.From(c.Request().Context())
	a, err := r.Access(c.Request().Context(), caller.Principal, by)
	if err != nil {
		return store.Access{}, err
	}
	lend(c, r, caller, a)
	return a, nil
}

// lend gives the request the eyes of an Access, as long as that lasts. The callback waits for armed, which closes
// after look was assigned: the timer could otherwise fire before the assignment and re-arm nil.
func lend(c echo.Context, r store.ShareReader, caller auth.Caller, a store.Access) {
	// All that the handler opens from here on hangs on this context: streams, sockets and waits end with the share.
	ctx, cancel := context.WithCancel(auth.With(c.Request().Context(), caller.Within(a.Scope())))
	c.SetRequest(c.Request().WithContext(ctx))
	var look *time.Timer
	armed := make(chan struct{})
	look = time.AfterFunc(shareRecheck, func() {
		<-armed
		if ctx.Err() != nil {
			return
		}
		// An error of the store does not end a share: the next check decides.
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
// shared with it. A client's id goes first among the caller's own, since that is what clients send; an id of the
// server is unique.
func sessionFor(c echo.Context, st store.Store, id string) (store.Session, error) {
	ctx, in := scoped(c)
	s, err := st.SessionByExternalID(ctx, in, id)
	if errors.Is(err, store.ErrNotFound) {
		s, err = st.Session(ctx, in, id)
	}
	return orShared(c, st, id, s, err)
}

// orShared is what a look for a Session among the caller's own has found, or else the Session of that id that is
// shared with the caller. Its own come first: an id that a client chose may be equal to one in another user's thread.
// When it is found through a share, the request's context is the share's from then on.
func orShared(c echo.Context, r store.ShareReader, id string, s store.Session, err error) (store.Session, error) {
	if !errors.Is(err, store.ErrNotFound) {
		return s, err
	}
	a, err := shared(c, r, store.AccessBy{SessionID: id})
	return a.Session, err
}

// mayWrite refuses to change a thread that is shared for reading alone. The right is read again for each request,
// since a share may be narrowed while its stream is open.
func mayWrite(c echo.Context, r store.ShareReader, s store.Session) error {
	ctx, caller := callerOf(c)
	if caller.Scope().Session() == "" {
		return nil
	}
	a, err := r.Access(ctx, caller.Principal, store.AccessBy{SessionID: s.ID})
	if err == nil && !a.Write {
		err = bridge.NotShared("write")
	}
	return err
}
