// Who else may see a thread. A share names a user or a role of the same tenant and has rights: to read is part of
// all, to write (prompt and cancel) and to decide come with it by name.

package server

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// Rights of a share.
const (
	rightRead   = "read"
	rightWrite  = "write"
	rightDecide = "decide"
)

// shares is /api/threads/{id}/shares: with whom of the tenant a thread is shared, and for what. It is its owner's
// alone. It keeps nothing between requests.
type shares struct {
	threads  *threads
	sessions *bridge.Sessions
	store    store.Store
	in       *decode.Decoder
}

// Mount adds the routes; each of them checks that the thread is the caller's own.
func (h *shares) Mount(to *route.Routes) {
	to.Callers(http.MethodGet, "/api/threads/:id/shares", h.list)
	to.Callers(http.MethodPost, "/api/threads/:id/shares", withBody(h.in, h.create))
	to.Callers(http.MethodDelete, "/api/threads/:id/shares/:share", h.remove)
}

// shareJSON is one share: with a user or with all users of a role. Exactly one of user and role is there.
type shareJSON struct {
	ID        string    `json:"id"`
	User      string    `json:"user,omitempty"`
	Role      string    `json:"role,omitempty"`
	Rights    []string  `json:"rights"`
	CreatedBy string    `json:"createdBy"`
	CreatedAt time.Time `json:"createdAt"`
}

// shareOut is the JSON of a stored Share. The store has "user:ann" or "role:oncall" in one column, so that a user and
// a role of one name are two.
func shareOut(h store.Share) shareJSON {
	out := shareJSON{ID: h.ID, Rights: rightsOf(h.Write, h.Decide), CreatedBy: h.CreatedBy, CreatedAt: h.CreatedAt.UTC()}
	if role, is := strings.CutPrefix(h.To, "role:"); is {
		out.Role = role
	} else {
		out.User = strings.TrimPrefix(h.To, "user:")
	}
	return out
}

// rightsOf names the rights of a share. To read is part of every share. They are in the order read, write, decide, so
// that clients can compare lists.
func rightsOf(write, decide bool) []string {
	rights := []string{rightRead}
	if write {
		rights = append(rights, rightWrite)
	}
	if decide {
		rights = append(rights, rightDecide)
	}
	return rights
}

// list shows with whom the thread is shared now. A share for a role shows the role and not who has it: roles are in
// tokens, and no list of their bearers exists.
func (h *shares) list(c echo.Context) error {
	s, err := h.threads.findOwn(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	rows, err := h.store.Shares(ctx, auth.From(ctx).Scope(), s.ID)
	return reply(c, http.StatusOK, struct {
		Shares []shareJSON `json:"shares"`
	}{eachOut(rows, shareOut)}, err)
}

// shareBody is with whom, by user or by role, and for what.
type shareBody struct {
	User   string   `json:"user" validate:"required_without=Role,excluded_with=Role,max=128"`
	Role   string   `json:"role" validate:"max=128"`
	Rights []string `json:"rights" validate:"required,min=1,max=3,dive,oneof=read write decide"`
}

// create shares the thread, or changes the rights of a share that exists. Only the owner shares: rights are not
// passed on. Sharing with oneself is refused: it would make the owner's own thread appear as one of another user.
func (h *shares) create(c echo.Context, body shareBody) error {
	s, err := h.threads.findOwn(c)
	if err != nil {
		return err
	}
	ctx, caller := callerOf(c)
	who := caller.Principal
	to := "user:" + body.User
	if body.Role != "" {
		to = "role:" + body.Role
	}
	if body.User == who.User {
		return problem.Refuse(problem.InvalidBody, "At /user: the thread is this user's own.")
	}
	row, err := h.sessions.Threads().Share(ctx, who, s, to, slices.Contains(body.Rights, rightWrite), slices.Contains(body.Rights, rightDecide))
	return reply(c, http.StatusCreated, shareOut(row), err)
}

// remove ends a share at once: streams and sockets that were opened with it end as well, because they run in the context
// that shared() lends to them.
func (h *shares) remove(c echo.Context) error {
	s, err := h.threads.findOwn(c)
	if err != nil {
		return err
	}
	id, err := decode.PathID(c, "share")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	return done(c, h.sessions.Threads().Unshare(ctx, auth.From(ctx).Principal, s, id))
}
