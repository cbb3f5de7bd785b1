// The limits as clients see them. An official client or a page reads them once and can then size its bodies and pace
// its requests; a refusal names only the limit that was met.

package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/contextstore"
	"aqueduct/server/limit"
	"aqueduct/server/route"
)

// limitsPage is GET /api/limits: what a client may count on, so that it need not find out by
// being refused.
type limitsPage struct {
	limits   limit.Limits
	sessions *bridge.Sessions
	contexts *contextstore.Service
}

// Mount adds the route, for every role: each caller can run into a limit.
func (h *limitsPage) Mount(to *route.Routes) { to.Deciders(http.MethodGet, "/api/limits", h.get) }

// rateJSON is a token bucket: burst at once, per_second in the long run.
type rateJSON struct {
	PerSecond float64 `json:"per_second"`
	Burst     int     `json:"burst"`
}

// rateOut is the JSON of a rate of the limits.
func rateOut(r limit.Rate) rateJSON { return rateJSON{r.PerSecond, r.Burst} }

// ratesJSON is how often one user may do what.
type ratesJSON struct {
	Runs              rateJSON `json:"runs"`
	Decisions         rateJSON `json:"decisions"`
	ToolCalls         rateJSON `json:"tool_calls"`
	FailedCredentials rateJSON `json:"failed_credentials"`
}

// limitsJSON is every limit that a client can run into. Bytes and counts are the settings as they are; rates are
// token buckets.
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
	ContextEntryBytes   int64     `json:"context_entry_bytes"` // and of an attachment
	ContextBytes        int64     `json:"context_bytes"`
	AddressFactor       int       `json:"address_factor"` // how many users' worth one address may do
	Rates               ratesJSON `json:"rates"`
}

// get sends the limits of this replica; all replicas should have the same settings.
func (h *limitsPage) get(c echo.Context) error {
	l, b := h.limits, h.sessions.Limits()
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(http.StatusOK, limitsJSON{
		BodyBytes: l.Body, HistoryBytes: l.History, SmallBodyBytes: limit.SmallBody,
		EventBytes: b.EventBytes, RunBytes: int64(b.RunBytes), ThreadBytes: b.ThreadBytes, TenantBytes: b.TenantBytes,
		Streams: l.Streams, Sockets: l.Sockets, SocketsPerPrincipal: l.SocketsPerPrincipal,
		TurnsPerUser: b.TurnsPerUser, QuestionsPerTurn: b.QuestionsPerTurn, QuestionsPerUser: b.QuestionsPerUser,
		ContextEntryBytes: contextstore.MaxContent, ContextBytes: h.contexts.UserBytes(),
		AddressFactor: limit.AddressShare,
		Rates:         ratesJSON{rateOut(l.Runs), rateOut(l.Decisions), rateOut(l.Invokes), rateOut(l.Failures)},
	})
}
