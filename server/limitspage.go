package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/brake"
)

// limitsPage is GET /api/limits: what a client may count on, so that it need not find out by
// being refused.
type limitsPage struct {
	limits   Limits
	sessions *bridge.Sessions
}

func (h *limitsPage) mount(to *routes) { to.deciders(http.MethodGet, "/api/limits", h.get) }

// rateJSON is a token bucket: burst at once, per_second in the long run.
type rateJSON struct {
	PerSecond float64 `json:"per_second"`
	Burst     int     `json:"burst"`
}

func rateOut(r brake.Rate) rateJSON { return rateJSON{r.PerSecond, r.Burst} }

type ratesJSON struct {
	Runs              rateJSON `json:"runs"`
	Decisions         rateJSON `json:"decisions"`
	ToolCalls         rateJSON `json:"tool_calls"`
	FailedCredentials rateJSON `json:"failed_credentials"`
}

type limitsJSON struct {
	BodyBytes           int64     `json:"body_bytes"`
	HistoryBytes        int64     `json:"history_bytes"`
	SmallBodyBytes      int64     `json:"small_body_bytes"`
	EventBytes          int       `json:"event_bytes"`
	RunBytes            int64     `json:"run_bytes"`
	ThreadBytes         int64     `json:"thread_bytes"`
	TenantBytes         int64     `json:"tenant_bytes"` // 0 is no limit
	Streams             int64     `json:"streams"`
	Sockets             int       `json:"sockets"`
	SocketsPerPrincipal int       `json:"sockets_per_principal"`
	TurnsPerUser        int       `json:"turns_per_user"`
	QuestionsPerTurn    int       `json:"questions_per_turn"`
	QuestionsPerUser    int       `json:"questions_per_user"`
	AddressFactor       int       `json:"address_factor"` // how many users' worth one address may do
	Rates               ratesJSON `json:"rates"`
}

func (h *limitsPage) get(c echo.Context) error {
	l, b := h.limits, h.sessions.Limits()
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(http.StatusOK, limitsJSON{
		BodyBytes: l.Body, HistoryBytes: l.History, SmallBodyBytes: smallBody,
		EventBytes: b.EventBytes, RunBytes: int64(b.RunBytes), ThreadBytes: b.ThreadBytes, TenantBytes: b.TenantBytes,
		Streams: l.Streams, Sockets: l.Sockets, SocketsPerPrincipal: l.SocketsPerPrincipal,
		TurnsPerUser: b.TurnsPerUser, QuestionsPerTurn: b.QuestionsPerTurn, QuestionsPerUser: b.QuestionsPerUser,
		AddressFactor: addressShare,
		Rates:         ratesJSON{rateOut(l.Runs), rateOut(l.Decisions), rateOut(l.Invokes), rateOut(l.Failures)},
	})
}
