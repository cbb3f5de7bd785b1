package server

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// Rights of a share.
const (
	rightRead   = "read"
	rightWrite  = "write"
	rightDecide = "decide"
)

// shares is /api/threads/{id}/shares: with whom of the tenant a thread is shared, and for what. It is its
// owner's alone.
type shares struct {
	threads  *threads
	sessions *bridge.Sessions
	store    store.Store
	in       *intake
}

func (h *shares) mount(to *routes) {
	to.callers(http.MethodGet, "/api/threads/:id/shares", h.list)
	to.callers(http.MethodPost, "/api/threads/:id/shares", h.create)
	to.callers(http.MethodDelete, "/api/threads/:id/shares/:share", h.remove)
}

type shareJSON struct {
	ID        string    `json:"id"`
	User      string    `json:"user,omitempty"`
	Role      string    `json:"role,omitempty"`
	Rights    []string  `json:"rights"`
	CreatedBy string    `json:"createdBy"`
	CreatedAt time.Time `json:"createdAt"`
}

func shareOut(h store.Share) shareJSON {
	out := shareJSON{ID: h.ID, Rights: rightsOf(h.Write, h.Decide), CreatedBy: h.CreatedBy, CreatedAt: h.CreatedAt.UTC()}
	if role, is := strings.CutPrefix(h.To, "role:"); is {
		out.Role = role
	} else {
		out.User = strings.TrimPrefix(h.To, "user:")
	}
	return out
}

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

// found is the thread, which must be the caller's own.
func (h *shares) found(c echo.Context) (store.Session, error) {
	s, err := h.threads.find(c)
	if err == nil {
		err = own(c, s)
	}
	return s, err
}

func (h *shares) list(c echo.Context) error {
	s, err := h.found(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	rows, err := h.store.Shares(ctx, auth.From(ctx).Scope(), s.ID)
	if err != nil {
		return err
	}
	out := struct {
		Shares []shareJSON `json:"shares"`
	}{Shares: make([]shareJSON, 0, len(rows))}
	for _, row := range rows {
		out.Shares = append(out.Shares, shareOut(row))
	}
	return c.JSON(http.StatusOK, out)
}

type shareBody struct {
	User   string   `json:"user" validate:"required_without=Role,excluded_with=Role,max=128"`
	Role   string   `json:"role" validate:"max=128"`
	Rights []string `json:"rights" validate:"required,min=1,max=3,dive,oneof=read write decide"`
}

func (h *shares) create(c echo.Context) error {
	var body shareBody
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	s, err := h.found(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	who := auth.From(ctx).Principal
	to := "user:" + body.User
	if body.Role != "" {
		to = "role:" + body.Role
	}
	if body.User == who.User {
		return refuse(codeInvalidBody, "At /user: the thread is this user's own.")
	}
	row, err := h.sessions.Share(ctx, who, s, to, slices.Contains(body.Rights, rightWrite), slices.Contains(body.Rights, rightDecide))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, shareOut(row))
}

func (h *shares) remove(c echo.Context) error {
	s, err := h.found(c)
	if err != nil {
		return err
	}
	id, err := pathID(c, "share")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := h.sessions.Unshare(ctx, auth.From(ctx).Principal, s, id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
