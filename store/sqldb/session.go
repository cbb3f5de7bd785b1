package sqldb

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"aqueduct/store"
)

const (
	sessionColumns = `s.session_id, s.tenant, s.user_id, s.external_id, s.agent_id, s.title, s.state, s.owner,
	s.created_at, s.updated_at`
	selectSession = `SELECT ` + sessionColumns + ` FROM sessions s`
)

func sessionInto(s *store.Session) []any {
	return []any{
		&s.ID, &s.Tenant, &s.User, &s.ExternalID, &s.AgentID, &s.Title, &s.State, &s.Owner,
		timeInto{&s.CreatedAt}, timeInto{&s.UpdatedAt},
	}
}

func scanSession(at row) (store.Session, error) {
	var s store.Session
	err := at.Scan(sessionInto(&s)...)
	return s, err
}

// Session implements store.SessionReader.
func (r *Reader) Session(ctx context.Context, in store.Scope, id string) (store.Session, error) {
	q := selecting(selectSession, in).and("s.session_id = ", id)
	return one(ctx, r, scanSession, q.sql.String(), q.args...)
}

// SessionByExternalID implements store.SessionReader. Under a Scope of many users the
// newest Session of that name is meant, for names are unique per tenant and user only.
func (r *Reader) SessionByExternalID(ctx context.Context, in store.Scope, externalID string) (store.Session, error) {
	q := selecting(selectSession, in).raw(living).and("s.external_id = ", externalID)
	if in.All() || in.Wide() {
		q.raw(" ORDER BY s.session_id DESC LIMIT 1")
	}
	return one(ctx, r, scanSession, q.sql.String(), q.args...)
}

// Sessions implements store.SessionReader. What is the caller's own and what is shared are two queries: one with OR
// would walk the whole table.
func (r *Reader) Sessions(ctx context.Context, in store.Scope, page store.Page) ([]store.Session, error) {
	q := selecting(selectSession, in).raw(living)
	if !in.All() && !in.Wide() {
		q.and("s.tenant || ':' || s.user_id = ", in.Tenant()+":"+in.User())
	}
	got, err := r.sessionsPage(ctx, q, in, page)
	if err != nil || len(in.Reached()) == 0 {
		return got, err
	}
	q = from("SELECT "+sessionColumns+" FROM sessions s").raw(living).and("s.tenant = ", in.Tenant()).and("s.user_id <> ", in.User())
	q.raw(" AND s.session_id IN (SELECT h.session_id FROM shares h WHERE ").sharedWith(in.Tenant(), in.Reached()).raw(")")
	shared, err := r.sessionsPage(ctx, q, in, page)
	if err != nil || len(shared) == 0 {
		return got, err
	}
	got = append(got, shared...)
	slices.SortFunc(got, func(a, b store.Session) int {
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(b.ID, a.ID))
	})
	if size := page.Size(); len(got) > size && page.Before != "" && page.After == "" {
		got = got[len(got)-size:] // the nearest to the place
	} else if len(got) > size {
		got = got[:size]
	}
	return got, nil
}

// sessionsPage reads one page of the query's Sessions, newest first.
func (r *Reader) sessionsPage(ctx context.Context, q *query, in store.Scope, page store.Page) ([]store.Session, error) {
	// The expressions are those of the index sessions_listing, which is for this alone.
	const place = "(s.updated_at, s.session_id || '')"
	if page.After != "" {
		q.raw(" AND "+place+" < ").placeOf(in, page.After)
	}
	if page.Before != "" {
		q.raw(" AND "+place+" > ").placeOf(in, page.Before)
	}
	// Going back takes the rows nearest to the place, so the order is turned round.
	back := page.Before != "" && page.After == ""
	if back {
		q.raw(" ORDER BY s.updated_at, s.session_id || ''")
	} else {
		q.raw(" ORDER BY s.updated_at DESC, s.session_id || '' DESC")
	}
	q.limit(page.Size())
	got, err := list(ctx, r, scanSession, q.sql.String(), q.args...)
	if back {
		slices.Reverse(got)
	}
	return got, err
}

// placeOf is a Session's place in the listing. A deleted one still has it, else a page
// that ended with it could not be gone on from.
func (q *query) placeOf(in store.Scope, id string) *query {
	q.raw("(SELECT c.updated_at, c.session_id || '' FROM sessions c WHERE c.session_id = ").bind(id)
	if !in.All() {
		q.and("c.tenant = ", in.Tenant())
	}
	switch names := in.Reached(); {
	case in.All() || in.Wide():
	case len(names) > 0:
		q.and("(c.user_id = ", in.User()).raw(" OR EXISTS (SELECT 1 FROM shares h WHERE h.session_id = c.session_id AND ")
		q.sharedWith(in.Tenant(), names).raw("))")
	default:
		q.and("c.user_id = ", in.User())
	}
	return q.raw(")")
}

// free says that nobody who could still write owns the Session.
const free = "NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = s.owner AND NOT r.fenced)"

// SessionsWithWork implements store.SessionReader.
func (r *Reader) SessionsWithWork(ctx context.Context, in store.Scope, replica string) ([]string, error) {
	q := selecting("SELECT s.session_id FROM sessions s", in)
	q.raw(` AND s.session_id IN (SELECT session_id FROM runs WHERE status IN ('RESERVED', 'RUNNING')
		UNION SELECT session_id FROM commands WHERE done_at = 0
		UNION SELECT t.session_id FROM turns t WHERE t.status IN ('RUNNING', 'PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL')
			AND (` + passOn + ` OR t.upstream NOT IN ('', 'waits', `).bind(replica).raw(`)))`)
	q.and("("+free+" OR s.owner = ", replica).raw(") ORDER BY s.session_id")
	return list(ctx, r, scanString, q.sql.String(), q.args...)
}

// AbandonedSessions implements store.SessionReader.
func (r *Reader) AbandonedSessions(ctx context.Context, in store.Scope) ([]string, error) {
	q := selecting("SELECT s.session_id FROM sessions s", in)
	q.raw(` AND s.session_id IN (SELECT session_id FROM runs WHERE status IN ('RESERVED', 'RUNNING')
		UNION SELECT session_id FROM commands WHERE done_at = 0
		UNION SELECT session_id FROM turns
			WHERE status IN ('QUEUED', 'RUNNING', 'PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL'))`)
	q.raw(" AND " + free + " ORDER BY s.session_id")
	return list(ctx, r, scanString, q.sql.String(), q.args...)
}

// InsertSession implements store.SessionTx.
func (t *Tx) InsertSession(ctx context.Context, s store.Session) error {
	return t.insert(ctx, `INSERT INTO sessions (session_id, tenant, user_id, external_id, agent_id, title, state,
		owner, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		s.ID, s.Tenant, s.User, s.ExternalID, s.AgentID, s.Title, jsonText(s.State), s.Owner,
		millis(s.CreatedAt), millis(s.UpdatedAt))
}

// LockSession implements store.SessionTx.
func (t *Tx) LockSession(ctx context.Context, in store.Scope, id string) (store.Session, error) {
	q := selecting(selectSession, in).and("s.session_id = ", id).raw(t.d.LockRow)
	return one(ctx, t.Reader, scanSession, q.sql.String(), q.args...)
}

// ClaimSession implements store.SessionTx. A replica that is itself fenced gets
// ErrFenced: nothing it claims could ever be driven.
func (t *Tx) ClaimSession(ctx context.Context, id, replica string) (bool, error) {
	n, err := t.exec(ctx, `UPDATE sessions AS s SET owner = $2 WHERE s.session_id = $1 AND s.deleted_at = 0
		AND (`+free+` OR s.owner = $2)
		AND EXISTS (SELECT 1 FROM replicas r WHERE r.id = $2 AND NOT r.fenced)`, id, replica)
	if err != nil || n > 0 {
		return n > 0, err
	}
	return false, t.living(ctx, replica)
}

// ReplicaLives implements store.SessionTx.
func (t *Tx) ReplicaLives(ctx context.Context, replica string) (bool, error) {
	err := t.living(ctx, replica)
	if errors.Is(err, store.ErrFenced) {
		return false, nil
	}
	return err == nil, err
}

// SetSessionTitle implements store.SessionTx.
func (t *Tx) SetSessionTitle(ctx context.Context, id, title string) error {
	return t.must(ctx, "UPDATE sessions SET title = $2 WHERE session_id = $1 AND deleted_at = 0", id, title)
}

// NoteDropped implements store.SessionTx.
func (t *Tx) NoteDropped(ctx context.Context, id string) (bool, error) {
	n, err := t.exec(ctx, "UPDATE sessions SET dropped_noted = TRUE WHERE session_id = $1 AND NOT dropped_noted", id)
	return n > 0, err
}

// DeleteSession implements store.SessionTx.
func (t *Tx) DeleteSession(ctx context.Context, id string, at time.Time) error {
	return t.must(ctx, "UPDATE sessions SET deleted_at = $2 WHERE session_id = $1 AND deleted_at = 0",
		id, millis(at))
}

func sessionMove(m store.SessionMove) Statement {
	return Statement{
		SQL: `UPDATE sessions SET state = COALESCE($2, state), title = COALESCE(NULLIF($3, ''), title),
			updated_at = $4, bytes = bytes + $5 WHERE session_id = $1`,
		Args: []any{m.ID, jsonText(m.State), m.Title, millis(m.UpdatedAt), m.Bytes},
	}
}
