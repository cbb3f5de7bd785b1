// The shapes that handlers of several resources share: an id from the path or a body before the work, an answer or an error
// behind it, and pages of rows. A handler mounts itself through withID or withBody where its first act is that of the helper.

package server

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/store"
)

// withID reads the id that a path names before it calls the handler. An id of an impossible form never reaches it.
func withID(name string, handle func(c echo.Context, id string) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := decode.PathID(c, name)
		if err != nil {
			return err
		}
		return handle(c, id)
	}
}

// withBody reads the JSON body of a request and checks its rules before it calls the handler. It suits handlers that need
// nothing else first: where an unknown id has to be answered before a bad body, the handler reads the body by itself.
func withBody[Body any](in *decode.Decoder, handle func(c echo.Context, body Body) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		var body Body
		if err := in.JSON(c, &body); err != nil {
			return err
		}
		return handle(c, body)
	}
}

// reply answers with body, or returns err for the error handler. body is evaluated in both cases, so what makes it must take
// the zero values that come with an error.
func reply(c echo.Context, status int, body any, err error) error {
	if err != nil {
		return err
	}
	return c.JSON(status, body)
}

// done answers a request that changes something and has nothing to show, or returns err.
func done(c echo.Context, err error) error {
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// callerOf returns the context of a request and who makes it. In a thread that is shared with the caller both are those of
// the share, so a handler asks again after it has found the thread.
func callerOf(c echo.Context) (context.Context, auth.Caller) {
	ctx := c.Request().Context()
	return ctx, auth.From(ctx)
}

// scoped returns the context of a request and what its caller may see.
func scoped(c echo.Context) (context.Context, store.Scope) {
	ctx, caller := callerOf(c)
	return ctx, caller.Scope()
}

// listPage reads one page of rows that have UUIDs as ids, newest first. next is what ?after= takes to get the page behind
// it; it is "" when this page was not full.
func listPage[Row, JSON any](c echo.Context, in *decode.Decoder, read func(context.Context, store.Scope, store.Page) ([]Row, error), out func(Row) JSON, id func(Row) string) (list []JSON, next string, err error) {
	var q struct {
		Limit int    `query:"limit" validate:"gte=0,lte=1000"`
		After string `query:"after" validate:"omitempty,uuid"`
	}
	if err := in.Query(c, &q); err != nil {
		return nil, "", err
	}
	ctx := c.Request().Context()
	page := store.Page{Limit: q.Limit, After: q.After}
	// Reading reaches further than deciding: an auditor sees the lists of the tenant.
	rows, err := read(ctx, auth.From(ctx).ReviewInbox(), page)
	if err != nil {
		return nil, "", err
	}
	return eachOut(rows, out), nextOf(rows, page.Size(), id), nil
}

// nextOf is the position behind a page of rows; zero for a page that was not full, because nothing comes after it.
func nextOf[Row any, Position int64 | string](rows []Row, size int, of func(Row) Position) (next Position) {
	if len(rows) == size {
		next = of(rows[size-1])
	}
	return next
}

// eachOut is the JSON of rows; an empty array, and not null, for none.
func eachOut[Row, JSON any](rows []Row, out func(Row) JSON) []JSON {
	list := make([]JSON, 0, len(rows))
	for _, row := range rows {
		list = append(list, out(row))
	}
	return list
}

// revokes handles a DELETE of what a person gave. What is revoked already, or not the caller's to end, is not found.
func revokes(revoke func(ctx context.Context, who store.Principal, id string) error) echo.HandlerFunc {
	return withID("id", func(c echo.Context, id string) error {
		ctx := c.Request().Context()
		return done(c, revoke(ctx, auth.From(ctx).Principal, id))
	})
}
