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

type (
	// Reads of Sessions: one user's list, those with work for any replica, those whose owner is gone.
	sessionReader struct{ *conn }

	// LockSession is what requests of one Session queue up behind: whoever holds the row sees its Turn as it is.
	sessionTx struct{ *conn }
)

const (
	sessionColumns = `s.session_id, s.tenant, s.user_id, s.external_id, s.agent_id, s.title, s.state, s.owner,
	s.created_at, s.updated_at, s.parent_turn_id, s.root_turn_id, s.callers, s.archived`
	selectSession = `SELECT ` + sessionColumns + ` FROM sessions s`
)

// sessionInto are the destinations of sessionColumns, in the same order, which scanAgenda and scanAccess read beside
// others.
func sessionInto(s *store.Session) []any {
	return []any{
		&s.ID, &s.Tenant, &s.User, &s.ExternalID, &s.AgentID, &s.Title, &s.State, &s.Owner,
		timeInto{&s.CreatedAt}, timeInto{&s.UpdatedAt}, &s.ParentTurnID, &s.RootTurnID, &s.Callers, &s.Archived,
	}
}

var scanSession = scanning(sessionInto)

// Session implements store.SessionReader.
func (r *sessionReader) Session(ctx context.Context, in store.Scope, id string) (store.Session, error) {
	q := selecting(selectSession, in).and("s.session_id = ", id)
	return one(ctx, r.conn, scanSession, q.sql.String(), q.args...)
}

// SessionByExternalID implements store.SessionReader. Under a Scope of many users the
// newest Session of that name is meant, for names are unique per tenant and user only.
func (r *sessionReader) SessionByExternalID(ctx context.Context, in store.Scope, externalID string) (store.Session, error) {
	q := selecting(selectSession, in).raw(living).and("s.external_id = ", externalID)
	if in.All() || in.Wide() {
		q.raw(" ORDER BY s.session_id DESC LIMIT 1")
	}
	return one(ctx, r.conn, scanSession, q.sql.String(), q.args...)
}

// Sessions implements store.SessionReader.
func (r *sessionReader) Sessions(ctx context.Context, in store.Scope, page store.Page) ([]store.Session, error) {
	return r.listed(ctx, in, nil, page)
}

// SessionsArchived implements store.SessionReader.
func (r *sessionReader) SessionsArchived(ctx context.Context, in store.Scope, archived bool, page store.Page) ([]store.Session, error) {
	return r.listed(ctx, in, &archived, page)
}

// listed reads the user's own Sessions, archived ones and others, and those shared with each of the user's names, by
// separate queries. One query with OR would walk the whole table.
func (r *sessionReader) listed(ctx context.Context, in store.Scope, archived *bool, page store.Page) (got []store.Session, err error) {
	newest := func(a, b store.Session) int {
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(b.ID, a.ID))
	}
	if in.All() || in.Wide() {
		q := selecting(selectSession, in).raw(living + noChild)
		if archived != nil {
			q.and("s.archived = ", *archived)
		}
		return r.sessionsPage(ctx, q, in, page, "s.updated_at", "s.session_id || ''")
	}
	for _, away := range []bool{false, true} {
		if archived != nil && *archived != away {
			continue
		}
		// The expressions are those of the index sessions_listing, which is for this alone.
		q := selecting(selectSession, in).raw(living+noChild).and("s.tenant || ':' || s.user_id = ", in.Tenant()+":"+in.User()).and("s.archived = ", away)
		own, err := r.sessionsPage(ctx, q, in, page, "s.updated_at", "s.session_id || ''")
		if err != nil {
			return nil, err
		}
		got = merged(got, own, page, newest)
	}
	if len(in.Reached()) == 0 || archived != nil && *archived {
		return got, nil
	}
	known := make(map[string]bool) // a Session may be shared with a user and with a role of the user's
	for _, name := range in.Reached() {
		q := from("SELECT "+sessionColumns+" FROM shares h JOIN sessions s ON s.session_id = h.session_id").sharedBy(in.Tenant(), in.User())
		q.and("h.tenant = ", in.Tenant()).and("h.principal = ", name)
		shared, err := r.sessionsPage(ctx, q, in, page, "h.updated_at", "h.session_id")
		if err != nil {
			return nil, err
		}
		shared = slices.DeleteFunc(shared, func(s store.Session) bool { return known[s.ID] })
		for _, s := range shared {
			known[s.ID] = true
		}
		got = merged(got, shared, page, newest)
	}
	return got, nil
}

// sessionsPage reads one page of the query's Sessions, newest first. at and id are the place of a row in the order, in
// the words of an index.
func (r *sessionReader) sessionsPage(ctx context.Context, q *query, in store.Scope, page store.Page, at, id string) ([]store.Session, error) {
	place := "(" + at + ", " + id + ")"
	if page.After != "" {
		placeOf(q.raw(" AND "+place+" < "), in, page.After)
	}
	if page.Before != "" {
		placeOf(q.raw(" AND "+place+" > "), in, page.Before)
	}
	return paged(ctx, r.conn, scanSession, q, at+" DESC, "+id+" DESC", at+", "+id, page)
}

// noChild leaves out Sessions that agents began. The column is in no index of the listing; few rows fail the condition.
const noChild = " AND s.parent_turn_id = ''"

// placeOf adds a Session's place in the listing. A deleted one still has it, else a page
// that ended with it could not be gone on from.
func placeOf(q *query, in store.Scope, id string) *query {
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

// free is the condition that the Session's owner, if any, cannot write any more: it is "", fenced, or not listed.
const free = "NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = s.owner AND NOT r.fenced)"

// SessionsWithWork implements store.SessionReader. It starts from the rows that are work, each found by a partial index,
// of which there are few; from the Sessions it would look at all there are.
func (r *sessionReader) SessionsWithWork(ctx context.Context, in store.Scope, replica string) ([]string, error) {
	q := selecting("SELECT s.session_id FROM sessions s", in)
	q.raw(` AND s.session_id IN (SELECT session_id FROM runs WHERE status IN ('RESERVED', 'RUNNING')
		UNION SELECT session_id FROM commands WHERE done_at = 0
		UNION SELECT t.session_id FROM turns t WHERE t.status IN ('RUNNING', 'PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL')
			AND (` + passOn + ` OR t.upstream NOT IN ('', 'waits', 'lost', `).bind(replica).raw(`)))`)
	q.and("("+free+" OR s.owner = ", replica).raw(") ORDER BY s.session_id")
	return list(ctx, r.conn, scanString, q.sql.String(), q.args...)
}

// SessionsWithCommands implements store.SessionReader. It is asked ten times a second by a replica that drives
// anything and is not alone, so it walks nothing but the partial index commands_pending.
func (r *sessionReader) SessionsWithCommands(ctx context.Context, in store.Scope, replica string) ([]string, error) {
	q := selecting("SELECT s.session_id FROM sessions s", in)
	q.raw(" AND s.session_id IN (SELECT session_id FROM commands WHERE done_at = 0 AND kind <> 'append')")
	q.and("("+free+" OR s.owner = ", replica).raw(") ORDER BY s.session_id")
	return list(ctx, r.conn, scanString, q.sql.String(), q.args...)
}

// AbandonedSessions implements store.SessionReader. Unlike for SessionsWithWork, a Turn that only waits counts: it
// needs a new owner too.
func (r *sessionReader) AbandonedSessions(ctx context.Context, in store.Scope) ([]string, error) {
	q := selecting("SELECT s.session_id FROM sessions s", in)
	q.raw(` AND s.session_id IN (SELECT session_id FROM runs WHERE status IN ('RESERVED', 'RUNNING')
		UNION SELECT session_id FROM commands WHERE done_at = 0
		UNION SELECT session_id FROM turns
			WHERE status IN ('QUEUED', 'RUNNING', 'PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL'))`)
	q.raw(" AND " + free + " ORDER BY s.session_id")
	return list(ctx, r.conn, scanString, q.sql.String(), q.args...)
}

// InsertSession implements store.SessionTx.
func (t *sessionTx) InsertSession(ctx context.Context, s store.Session) error {
	return t.insert(ctx, `INSERT INTO sessions (session_id, tenant, user_id, external_id, agent_id, title, state,
		owner, created_at, updated_at, parent_turn_id, root_turn_id, callers)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		s.ID, s.Tenant, s.User, s.ExternalID, s.AgentID, s.Title, jsonText(s.State), s.Owner,
		millis(s.CreatedAt), millis(s.UpdatedAt), s.ParentTurnID, s.RootTurnID, jsonText(s.Callers))
}

// LockSession implements store.SessionTx. On SQLite LockRow is empty: the one writer holds every row.
func (t *sessionTx) LockSession(ctx context.Context, in store.Scope, id string) (store.Session, error) {
	q := selecting(selectSession, in).and("s.session_id = ", id).raw(t.d.LockRow)
	return one(ctx, t.conn, scanSession, q.sql.String(), q.args...)
}

// ClaimSession implements store.SessionTx. A replica that is itself fenced gets
// ErrFenced: nothing it claims could ever be driven.
func (t *sessionTx) ClaimSession(ctx context.Context, id, replica string) (bool, error) {
	claimed, err := t.change(ctx, `UPDATE sessions AS s SET owner = $2 WHERE s.session_id = $1 AND s.deleted_at = 0
		AND (`+free+` OR s.owner = $2)
		AND EXISTS (SELECT 1 FROM replicas r WHERE r.id = $2 AND NOT r.fenced)`, id, replica)
	if err != nil || claimed {
		return claimed, err
	}
	return false, (&replicaReader{t.conn}).notFenced(ctx, replica)
}

// ReleaseSession implements store.SessionTx.
func (t *sessionTx) ReleaseSession(ctx context.Context, id, replica string) error {
	_, err := t.change(ctx, "UPDATE sessions SET owner = '' WHERE session_id = $1 AND owner = $2 AND parent_turn_id = ''", id, replica)
	return err
}

// HandSession implements store.SessionTx.
func (t *sessionTx) HandSession(ctx context.Context, id, from, to string) (bool, error) {
	return t.change(ctx, `UPDATE sessions SET owner = $3 WHERE session_id = $1 AND owner = $2
		AND EXISTS (SELECT 1 FROM replicas r WHERE r.id = $3 AND NOT r.fenced)`, id, from, to)
}

// ReplicaLives implements store.SessionTx.
func (t *sessionTx) ReplicaLives(ctx context.Context, replica string) (bool, error) {
	err := (&replicaReader{t.conn}).notFenced(ctx, replica)
	if errors.Is(err, store.ErrFenced) {
		return false, nil
	}
	return err == nil, err
}

// SetSessionTitle implements store.SessionTx.
func (t *sessionTx) SetSessionTitle(ctx context.Context, id, title string) error {
	return t.must(ctx, "UPDATE sessions SET title = $2, searched = FALSE WHERE session_id = $1 AND deleted_at = 0", id, title)
}

// SetSessionArchived implements store.SessionTx.
func (t *sessionTx) SetSessionArchived(ctx context.Context, id string, archived bool) error {
	return t.must(ctx, "UPDATE sessions SET archived = $2 WHERE session_id = $1 AND deleted_at = 0", id, archived)
}

// NoteDropped implements store.SessionTx. It is true once for each Session, whichever replica asks.
func (t *sessionTx) NoteDropped(ctx context.Context, id string) (bool, error) {
	return t.change(ctx, "UPDATE sessions SET dropped_noted = TRUE WHERE session_id = $1 AND NOT dropped_noted", id)
}

// DeleteSession implements store.SessionTx. seenBy and the partial indexes leave the row out from then on; the rows of
// other tables stay until PurgeSession takes them, and are hidden by their join with this one.
func (t *sessionTx) DeleteSession(ctx context.Context, id string, at time.Time) error {
	// What its agents called goes with it: it belongs to this thread.
	_, err := t.exec(ctx, `UPDATE sessions SET deleted_at = $2 WHERE root_turn_id <> '' AND COALESCE(deleted_at = 0, FALSE)
		AND root_turn_id IN (SELECT t.turn_id FROM turns t WHERE t.session_id = $1)`, id, millis(at))
	if err != nil {
		return err
	}
	return t.must(ctx, "UPDATE sessions SET deleted_at = $2 WHERE session_id = $1 AND deleted_at = 0",
		id, millis(at))
}

// sessionMoves make a SessionMove, which is never lost.
var sessionMoves = newUpdate[*store.SessionMove]("sessions", "", nil,
	textField("session_id", unset, func(m *store.SessionMove) string { return m.ID }),
	jsonField("state", keepIfNull, func(m *store.SessionMove) []byte { return m.State }),
	textField("title", keepIfText, func(m *store.SessionMove) string { return m.Title }),
	flagField("searched", "{old} AND NOT {new}", func(m *store.SessionMove) bool { return m.Title != "" }),
	timeField("updated_at", replace, func(m *store.SessionMove) time.Time { return m.UpdatedAt }),
	numberField("bytes", "{old} + {new}", func(m *store.SessionMove) int64 { return m.Bytes }),
)
