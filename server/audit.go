package server

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// auditPage is GET /api/audit: who decided what, each entry holding the hash of the one before.
type auditPage struct {
	sessions *bridge.Sessions
	in       *intake
}

func (h *auditPage) mount(to *routes) { to.deciders(http.MethodGet, "/api/audit", h.list) }

type auditJSON struct {
	Seq         int64     `json:"seq"`
	TS          time.Time `json:"ts"`
	Actor       string    `json:"actor"`
	Action      string    `json:"action"`
	SubjectType string    `json:"subject_type"`
	SubjectID   string    `json:"subject_id"`
	Details     rawJSON   `json:"details,omitempty"`
	Remote      string    `json:"remote,omitempty"`
	PrevHash    string    `json:"prev_hash"`
	Hash        string    `json:"hash"`
	MAC         string    `json:"mac,omitempty"`
}

func (h *auditPage) list(c echo.Context) error {
	var q struct {
		Limit int   `query:"limit" validate:"gte=0,lte=1000"`
		After int64 `query:"after" validate:"gte=0"`
	}
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	ctx := c.Request().Context()
	size := store.Page{Limit: q.Limit}.Size()
	rows, err := h.sessions.Audit(ctx, auth.From(ctx).Principal, q.After, size)
	if err != nil {
		return err
	}
	out := struct {
		Entries []auditJSON `json:"entries"`
		Next    int64       `json:"next,omitempty"`
	}{Entries: make([]auditJSON, 0, len(rows))}
	for _, e := range rows {
		out.Entries = append(out.Entries, auditJSON{
			Seq: e.Seq, TS: e.TS.UTC(), Actor: e.Actor, Action: e.Action, SubjectType: e.SubjectType, SubjectID: e.SubjectID,
			Details: e.Payload, Remote: e.Remote, MAC: e.MAC, PrevHash: e.PrevHash, Hash: e.Hash,
		})
	}
	if len(rows) == size {
		out.Next = rows[len(rows)-1].Seq
	}
	return c.JSON(http.StatusOK, out)
}
