package sqldb

import (
	"context"
	"slices"

	"aqueduct/store"
)

const selectMessage = `SELECT m.message_id, m.session_id, m.run_id, m.external_id, m.role, m.output, m.data, m.created_at
	FROM messages m JOIN sessions s ON s.session_id = m.session_id`

const insertIntoMessages = `INSERT INTO messages (message_id, session_id, run_id, external_id, role, output, data,
	created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (session_id, external_id) DO `

func scanMessage(at row) (store.Message, error) {
	var m store.Message
	err := at.Scan(&m.ID, &m.SessionID, &m.RunID, &m.ExternalID, &m.Role, &m.Output, &m.Data, timeInto{&m.CreatedAt})
	return m, err
}

// Messages implements store.MessageReader.
func (r *Reader) Messages(ctx context.Context, in store.Scope, sessionID string, page store.Page) ([]store.Message, error) {
	q := selecting(selectMessage, in).and("m.session_id = ", sessionID)
	if page.After != "" {
		q.oldestFirst("m.message_id", page)
		return list(ctx, r, scanMessage, q.sql.String(), q.args...)
	}
	if page.Before != "" {
		q.and("m.message_id < ", page.Before)
	}
	q.raw(" ORDER BY m.message_id DESC").limit(page.Size())
	got, err := list(ctx, r, scanMessage, q.sql.String(), q.args...)
	slices.Reverse(got)
	return got, err
}

// maxIDsPerQuery bounds one IN list; longer ones are asked for in parts.
const maxIDsPerQuery = 256

// KnownMessageIDs implements store.MessageReader.
func (r *Reader) KnownMessageIDs(ctx context.Context, in store.Scope, sessionID string, externalIDs []string) (map[string]bool, error) {
	known := make(map[string]bool, len(externalIDs))
	for part := range slices.Chunk(externalIDs, maxIDsPerQuery) {
		q := ofMessages("m.external_id", in, sessionID, part)
		got, err := list(ctx, r, scanString, q.sql.String(), q.args...)
		if err != nil {
			return nil, err
		}
		for _, id := range got {
			known[id] = true
		}
	}
	return known, nil
}

// NewestRunOf implements store.MessageReader.
func (r *Reader) NewestRunOf(ctx context.Context, in store.Scope, sessionID string, externalIDs []string) (newest string, err error) {
	for part := range slices.Chunk(externalIDs, maxIDsPerQuery) {
		q := ofMessages("COALESCE(MAX(m.run_id), '')", in, sessionID, part)
		got, err := one(ctx, r, scanString, q.sql.String(), q.args...)
		if err != nil {
			return "", err
		}
		newest = max(newest, got)
	}
	return newest, nil
}

// ofMessages selects something of the messages with these ids.
func ofMessages(what string, in store.Scope, sessionID string, externalIDs []string) *query {
	q := selecting("SELECT "+what+" FROM messages m JOIN sessions s ON s.session_id = m.session_id", in)
	q.and("m.session_id = ", sessionID).raw(" AND m.external_id IN (")
	for i := range slots(len(externalIDs)) {
		if i > 0 {
			q.raw(", ")
		}
		q.bind(externalIDs[min(i, len(externalIDs)-1)])
	}
	return q.raw(")")
}

// LastAnswer implements store.MessageReader.
func (r *Reader) LastAnswer(ctx context.Context, in store.Scope, sessionID, runID string) (store.Message, error) {
	q := selecting(selectMessage, in).and("m.session_id = ", sessionID).and("m.run_id = ", runID)
	q.raw(" AND m.output AND m.role = 'assistant' ORDER BY m.message_id DESC LIMIT 1")
	return one(ctx, r, scanMessage, q.sql.String(), q.args...)
}

// slots rounds the length of an IN list up, so that lists of all lengths share three
// prepared statements; the last id fills the rest.
func slots(n int) int {
	switch {
	case n <= 4:
		return 4
	case n <= 32:
		return 32
	}
	return maxIDsPerQuery
}

// InsertMessage implements store.MessageTx.
func (t *Tx) InsertMessage(ctx context.Context, m store.Message) error {
	return t.insert(ctx, insertIntoMessages+"NOTHING", messageArgs(m)...)
}

func upsertMessage(m store.Message) Statement {
	return Statement{SQL: insertIntoMessages + "UPDATE SET data = excluded.data", Args: messageArgs(m)}
}

func messageArgs(m store.Message) []any {
	return []any{m.ID, m.SessionID, m.RunID, m.ExternalID, m.Role, m.Output, jsonText(m.Data), millis(m.CreatedAt)}
}
