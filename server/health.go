package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/store"
)

const (
	// pingKept is how long one answer of the database serves all who ask: anybody may ask.
	pingKept = time.Second
	// pingTime is when a database that does not answer counts as away.
	pingTime = 2 * time.Second
)

// health is /healthz, "the process lives", and /readyz, "it can take work".
type health struct {
	store    store.Store
	draining context.Context

	mu    sync.Mutex
	asked time.Time
	err   error
}

func newHealth(s store.Store, draining context.Context) *health {
	return &health{store: s, draining: draining}
}

func (h *health) mount(to *routes) {
	to.open(http.MethodGet, "/healthz", func(c echo.Context) error { return status(c, http.StatusOK, "ok") })
	to.open(http.MethodGet, "/readyz", h.ready)
}

func (h *health) ready(c echo.Context) error {
	switch {
	case h.draining.Err() != nil:
		return status(c, http.StatusServiceUnavailable, codeShuttingDown)
	case h.ping(c.Request().Context()) != nil:
		return status(c, http.StatusServiceUnavailable, codeUnavailable)
	}
	return status(c, http.StatusOK, "ok")
}

// ping asks the database whether a write could be made, at most once in pingKept.
func (h *health) ping(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked.IsZero() || time.Since(h.asked) >= pingKept {
		// The answer serves others too: it does not end with the one request.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTime)
		defer cancel()
		h.err, h.asked = h.store.Ping(ctx), time.Now()
	}
	return h.err
}

func status(c echo.Context, code int, text string) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(code, map[string]string{"status": text})
}
