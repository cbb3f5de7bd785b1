// Two routes for load balancers and process managers. /healthz is answered without looking at anything, so that an
// outage of the database does not make a manager restart every replica; /readyz takes a replica out of rotation.

package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/server/limit"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

const (
	// pingKept is how long one answer of the database serves all who ask: anybody may ask.
	pingKept = time.Second
	// pingTime is when a database that does not answer counts as away: below the second that balancers wait by default.
	pingTime = 800 * time.Millisecond
)

// health is /healthz, "the process lives", and /readyz, "it can take work". mu guards the fields below it.
type health struct {
	store   store.Store
	leaving context.Context
	started <-chan struct{} // nil: it does not wait

	mu sync.Mutex
	// asked and err are the last answer of the database and when it came.
	asked time.Time
	err   error
	// asking is closed when the answer of the query under way is there; nil: there is no such query.
	asking chan struct{}
}

// Mount adds both routes without a credential: a load balancer has none.
func (h *health) Mount(to *route.Routes) {
	to.Open(http.MethodGet, "/healthz", func(c echo.Context) error { return status(c, http.StatusOK, "ok") })
	to.Open(http.MethodGet, "/readyz", h.ready)
}

// A draining server is not ready before its listeners close, so that a balancer sends no request into the closing.
func (h *health) ready(c echo.Context) error {
	switch {
	// It comes before the database, which may be well while this server leaves.
	case h.leaving.Err() != nil:
		return status(c, http.StatusServiceUnavailable, limit.ShuttingDown)
	case !h.hasStarted():
		return status(c, http.StatusServiceUnavailable, starting)
	}
	switch err := h.ping(c.Request().Context()); {
	case errors.Is(err, store.ErrFull):
		return status(c, http.StatusServiceUnavailable, problem.Full)
	case err != nil:
		return status(c, http.StatusServiceUnavailable, problem.Unavailable)
	}
	return status(c, http.StatusOK, "ok")
}

// starting is the status of a server whose own agents and MCP servers are not there yet.
const starting = "starting"

func (h *health) hasStarted() bool {
	if h.started == nil {
		return true
	}
	select {
	case <-h.started:
		return true
	default:
		return false
	}
}

// ping asks the database whether a write could be made, at most once in pingKept. A burst of requests makes one query.
// Ping tries whether a write could be made, because a database that turned read-only is of no use to a chat.
//
// No request waits longer than pingTime, although Ping itself may: SQLite waits for the lock of another program however the
// context ends, and a request that came during a query has waited for that one. Such a query ends later, by itself.
func (h *health) ping(ctx context.Context) error {
	h.mu.Lock()
	if !h.asked.IsZero() && time.Since(h.asked) < pingKept {
		defer h.mu.Unlock()
		return h.err
	}
	if h.asking == nil {
		h.asking = make(chan struct{})
		// The answer serves others too: it does not end with the one request. A cancelled request must not mark the
		// database as away for all who ask within the same second.
		go h.ask(context.WithoutCancel(ctx), h.asking)
	}
	asking := h.asking
	h.mu.Unlock()
	late := time.NewTimer(pingTime)
	defer late.Stop()
	select {
	case <-asking:
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.err
	case <-late.C:
		return store.ErrUnavailable
	}
}

// ask makes the query of ping.
func (h *health) ask(ctx context.Context, asking chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	err := h.store.Ping(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err, h.asked, h.asking = err, time.Now(), nil
	close(asking)
}

// The body is {"status":"ok"} or a code.
func status(c echo.Context, code int, text string) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(code, map[string]string{"status": text})
}
