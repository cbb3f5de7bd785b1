// The audit as people read it. Entries are written where things are done (bridge/approval/audit); this file lists
// them. What was refused at the edge itself is written by auditrefused.go.

package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/approval/audit"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/route"
	"aqueduct/store"
)

// auditPage is GET /api/audit: who decided what, each entry holding the hash of the one before.
type auditPage struct {
	store store.Store
	in    *decode.Decoder
}

// Mount adds the route. A user sees the entries of what is the user's own, an administrator or auditor those of the
// tenant and those that concern every tenant.
func (h *auditPage) Mount(to *route.Routes) { to.Deciders(http.MethodGet, "/api/audit", h.list) }

// auditJSON is one entry. The chain can be checked from the entries alone: Hash covers the entry and PrevHash. MAC is
// there when the server has an audit key: who can rewrite the table, but has no key, cannot make it.
type auditJSON struct {
	Seq         int64           `json:"seq"`
	TS          time.Time       `json:"ts"`
	Actor       string          `json:"actor"`
	Action      string          `json:"action"`
	SubjectType string          `json:"subject_type"`
	SubjectID   string          `json:"subject_id"`
	Details     json.RawMessage `json:"details,omitempty"`
	Remote      string          `json:"remote,omitempty"`
	PrevHash    string          `json:"prev_hash"`
	Hash        string          `json:"hash"`
	MAC         string          `json:"mac,omitempty"`
}

// auditOut is the JSON of a stored entry.
func auditOut(e store.AuditEntry) auditJSON {
	return auditJSON{
		Seq: e.Seq, TS: e.TS.UTC(), Actor: e.Actor, Action: e.Action, SubjectType: e.SubjectType, SubjectID: e.SubjectID,
		Details: e.Payload, Remote: e.Remote, MAC: e.MAC, PrevHash: e.PrevHash, Hash: e.Hash,
	}
}

// withAllTenants adds the entries that concern every tenant, as a change of the policy does.
func (h *auditPage) withAllTenants(ctx context.Context, rows []store.AuditEntry, after int64, size int) ([]store.AuditEntry, error) {
	all, err := h.store.Audit(ctx, store.Within(audit.AllTenants), after, size)
	if err != nil || len(all) == 0 {
		return rows, err
	}
	rows = append(rows, all...)
	slices.SortFunc(rows, func(a, b store.AuditEntry) int { return cmp.Compare(a.Seq, b.Seq) })
	return rows[:min(len(rows), size)], nil
}

// list gives the entries that the caller may see, oldest first. next is a number, the seq of the last entry: entries
// are never removed and never get a seq before one that exists, so a page can be asked for again and stays the same.
// The position is a number and not an id, because entries form one chain over the whole installation.
func (h *auditPage) list(c echo.Context) error {
	var q struct {
		Limit int   `query:"limit" validate:"gte=0,lte=1000"`
		After int64 `query:"after" validate:"gte=0"`
	}
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	ctx := c.Request().Context()
	// The size has the same default and bound as every other list.
	size := store.Page{Limit: q.Limit}.Size()
	in := audit.VisibleTo(auth.From(ctx).Principal)
	rows, err := h.store.Audit(ctx, in, q.After, size)
	if err == nil && in.Wide() && !in.All() {
		rows, err = h.withAllTenants(ctx, rows, q.After, size)
	}
	if err != nil {
		return err
	}
	out := struct {
		Entries []auditJSON `json:"entries"`
		Next    int64       `json:"next,omitempty"`
	}{eachOut(rows, auditOut), nextOf(rows, size, func(e store.AuditEntry) int64 { return e.Seq })}
	return c.JSON(http.StatusOK, out)
}
