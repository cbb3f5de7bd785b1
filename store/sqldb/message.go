package sqldb

import (
	"context"
	"slices"

	"aqueduct/store"
)

type (
	// Reads of the transcript: the current branch, in pages bounded by rows and by bytes.
	messageReader struct{ *conn }

	// Messages that clients sent; those of agents come with the Batch that holds their events.
	messageTx struct{ *conn }
)

const (
	messageColumns = `m.message_id, m.session_id, m.run_id, m.external_id, m.role, m.output, m.data, m.created_at`
	selectMessage  = `SELECT ` + messageColumns + ` FROM messages m JOIN sessions s ON s.session_id = m.session_id`
)

const insertIntoMessages = `INSERT INTO messages (message_id, session_id, run_id, external_id, role, output, data,
	created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (session_id, external_id) WHERE NOT replaced DO `

var scanMessage = scanning(messageInto)

// messageInto are the destinations of messageColumns, in the same order.
func messageInto(m *store.Message) []any {
	return []any{&m.ID, &m.SessionID, &m.RunID, &m.ExternalID, &m.Role, &m.Output, &m.Data, timeInto{&m.CreatedAt}}
}

// Messages implements store.MessageReader.
func (r *messageReader) Messages(ctx context.Context, in store.Scope, sessionID string, page store.Page) ([]store.Message, error) {
	return r.messages(ctx, selecting(selectMessage, in).and("m.session_id = ", sessionID).raw(" AND NOT m.replaced"), page)
}

// Message implements store.MessageReader.
func (r *messageReader) Message(ctx context.Context, in store.Scope, id string) (store.Message, error) {
	q := selecting(selectMessage, in).and("m.message_id = ", id)
	return one(ctx, r.conn, scanMessage, q.sql.String(), q.args...)
}

// messages reads a page of what a query selects from m, oldest first. Without After it is the newest ones, or those
// nearest before Before, so the query runs backwards and the rows are turned round.
func (r *messageReader) messages(ctx context.Context, q *query, page store.Page) ([]store.Message, error) {
	if page.After != "" {
		q.oldestFirst("m.message_id", page)
		return r.messagesWithin(ctx, q, "message_id", page.MaxBytes)
	}
	if page.Before != "" {
		q.and("m.message_id < ", page.Before)
	}
	q.raw(" ORDER BY m.message_id DESC").limit(page.Size())
	got, err := r.messagesWithin(ctx, q, "message_id DESC", page.MaxBytes)
	slices.Reverse(got)
	return got, err
}

// messagesWithin runs a query of messages up to the one that reaches maxBytes; 0 is no bound. The order is the query's.
func (r *messageReader) messagesWithin(ctx context.Context, q *query, order string, maxBytes int) ([]store.Message, error) {
	if maxBytes <= 0 {
		return list(ctx, r.conn, scanMessage, q.sql.String(), q.args...)
	}
	if !r.d.StreamsRows {
		q = q.upTo(maxBytes, "message_id, session_id, run_id, external_id, role, output, data, created_at", r.d.octets("data"), order)
	}
	var got []store.Message
	size := 0
	reset := func() { got, size = nil, 0 }
	err := each(ctx, r.conn, q.sql.String(), q.args, reset, func(at row) (bool, error) {
		m, err := scanMessage(at)
		if err != nil {
			return false, err
		}
		got, size = append(got, m), size+len(m.Data)
		return size < maxBytes, nil
	})
	return got, err
}

// maxIDsPerQuery bounds one IN list; longer ones are asked for in parts.
const maxIDsPerQuery = 256

// KnownMessageIDs implements store.MessageReader.
func (r *messageReader) KnownMessageIDs(ctx context.Context, in store.Scope, sessionID string, externalIDs []string) (map[string]bool, error) {
	known := make(map[string]bool, len(externalIDs))
	for part := range slices.Chunk(externalIDs, maxIDsPerQuery) {
		q := &query{}
		q.raw("SELECT m.external_id FROM ").onAnyBranch(sessionID, part).joined(in)
		got, err := list(ctx, r.conn, scanString, q.sql.String(), q.args...)
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
func (r *messageReader) NewestRunOf(ctx context.Context, in store.Scope, sessionID string, externalIDs []string) (newest string, err error) {
	for part := range slices.Chunk(externalIDs, maxIDsPerQuery) {
		q := &query{}
		q.raw("SELECT COALESCE(MAX(m.run_id), '') FROM ").onAnyBranch(sessionID, part).joined(in)
		got, err := one(ctx, r.conn, scanString, q.sql.String(), q.args...)
		if err != nil {
			return "", err
		}
		newest = max(newest, got)
	}
	return newest, nil
}

// LastAnswer implements store.MessageReader. What came out of a Run has ids from after the Run's own.
func (r *messageReader) LastAnswer(ctx context.Context, in store.Scope, sessionID, runID string) (store.Message, error) {
	q := &query{}
	q.raw("SELECT "+messageColumns+" FROM ").onAnyBranch(sessionID, nil).joined(in).and("m.message_id > ", runID).and("m.run_id = ", runID)
	q.raw(" AND m.output AND m.role = 'assistant' ORDER BY m.message_id DESC LIMIT 1")
	return one(ctx, r.conn, scanMessage, q.sql.String(), q.args...)
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
func (t *messageTx) InsertMessage(ctx context.Context, m store.Message) error {
	return t.insert(ctx, insertIntoMessages+"NOTHING", messageArgs(m)...)
}

// upsertMessage replaces the data of the message with the same id on the current branch. The row keeps its own key,
// which is its place in the transcript.
func upsertMessage(m store.Message) Statement {
	return Statement{SQL: insertIntoMessages + "UPDATE SET data = excluded.data, searched = FALSE", Args: messageArgs(m)}
}

func messageArgs(m store.Message) []any {
	return []any{m.ID, m.SessionID, m.RunID, m.ExternalID, m.Role, m.Output, jsonText(m.Data), millis(m.CreatedAt)}
}
