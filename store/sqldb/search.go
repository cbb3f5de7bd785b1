package sqldb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"aqueduct/internal/grams"
	"aqueduct/store"
)

// searchReader finds Sessions by words, in one of two ways.
//
// The database finds the texts that may have the words by their tokens. For a rare word these are few: each text is compared
// with the words, and the Sessions are sorted in the order of the list. For a common word they are too many to sort, but many
// Sessions match: the list is walked from its newest Session, and each Session is checked. Both ways return the same Sessions
// in the same order, so consecutive pages may use different ways.
type searchReader struct{ *conn }

const (
	// rareTexts is the maximum number of candidate texts of a rare word. Comparing so many takes some 30 ms.
	rareTexts = 1000
	// walkThreads bounds the Sessions of the list that one request walks, walkStep of them at a time. A common word that
	// occurs in none of them is on a later page.
	walkThreads = 2048
	walkStep    = maxIDsPerQuery
	// sharedThreads bounds the searched threads of other users: the newest.
	sharedThreads = 1000
)

// Search implements store.SearchReader.
func (r *searchReader) Search(ctx context.Context, in store.Scope, query store.SearchQuery) ([]store.Session, string, error) {
	if len(query.Words) == 0 {
		return nil, "", nil
	}
	var labels []int32 // nil for a Scope of many users: the comparison of texts drops those that it must not see
	if !in.All() && !in.Wide() {
		labels = append(labels, ownerLabel(in.Tenant(), in.User()))
	}
	for _, name := range in.Reached() {
		q := from("SELECT h.session_id FROM shares h").and("h.tenant = ", in.Tenant()).and("h.principal = ", name)
		ids, err := list(ctx, r.conn, scanString, q.raw(" ORDER BY h.updated_at DESC, h.session_id DESC").limit(sharedThreads).sql.String(), q.args...)
		if err != nil {
			return nil, "", err
		}
		for _, id := range ids {
			labels = append(labels, sessionLabel(id))
		}
	}
	places, err := r.candidates(ctx, grams.OfWords(query.Words), labels)
	if err != nil {
		return nil, "", err
	}
	if len(places) > rareTexts {
		return r.walk(ctx, in, query)
	}
	return r.pick(ctx, in, query, places)
}

// ownerLabel and sessionLabel return the tokens that all texts of a user's own threads, and of one thread, have.
func ownerLabel(tenant, user string) int32 { return grams.Label("user:" + tenant + ":" + user) }
func sessionLabel(id string) int32         { return grams.Label("thread:" + id) }

// candidates returns the places of at most rareTexts+1 texts that have all the tokens and one of the labels.
func (r *searchReader) candidates(ctx context.Context, tokens, labels []int32) ([]int64, error) {
	q := &query{}
	if r.d.TokenTable {
		match := allOf(tokens)
		if len(labels) > 0 {
			match += " AND (" + anyOf(labels) + ")"
		}
		q.raw("SELECT rowid FROM search_index WHERE search_index MATCH ").bind(match)
	} else {
		q.raw("SELECT x.place FROM search_texts x WHERE x.tokens @> ").bind(tokens)
		if len(labels) > 0 {
			q.and("x.tokens && ", labels)
		}
	}
	return list(ctx, r.conn, scanInt, q.limit(rareTexts+1).sql.String(), q.args...)
}

// allOf and anyOf return tokens in the query language of SQLite's full-text search.
func allOf(tokens []int32) string { return strings.Join(tokenNames(tokens), " AND ") }
func anyOf(tokens []int32) string { return strings.Join(tokenNames(tokens), " OR ") }

func tokenNames(tokens []int32) []string {
	names := make([]string, len(tokens))
	for i, t := range tokens {
		names[i] = fmt.Sprintf("x%08x", uint32(t)) // the same 32 bits
	}
	return names
}

// listPlace is a Session's place in the list.
type listPlace struct {
	id string
	at int64
}

func scanListPlace(at row) (p listPlace, err error) { return p, at.Scan(&p.id, &p.at) }

func newestPlace(a, b listPlace) int {
	return cmp.Or(cmp.Compare(b.at, a.at), strings.Compare(b.id, a.id))
}

// pick compares the texts at places with the words, and reads the page of their Sessions.
func (r *searchReader) pick(ctx context.Context, in store.Scope, query store.SearchQuery, places []int64) ([]store.Session, string, error) {
	known := make(map[string]bool)
	var all []listPlace
	for part := range slices.Chunk(places, maxIDsPerQuery) {
		q := textsOf("SELECT s.session_id, s.updated_at", "d.place", padTo(slots(len(part)), part))
		q.raw(" AND ").hasWords(r.d, query.Words).listed(in, query.Archived)
		got, err := list(ctx, r.conn, scanListPlace, q.sql.String(), q.args...)
		if err != nil {
			return nil, "", err
		}
		for _, p := range got {
			if !known[p.id] {
				known[p.id] = true
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, newestPlace)
	if query.After != "" {
		after, err := one(ctx, r.conn, scanListPlace, "SELECT s.session_id, s.updated_at FROM sessions s WHERE s.session_id = $1", query.After)
		if errors.Is(err, store.ErrNotFound) {
			return nil, "", nil
		}
		if err != nil {
			return nil, "", err
		}
		first, _ := slices.BinarySearchFunc(all, after, newestPlace)
		all = all[first:]
		if len(all) > 0 && all[0] == after {
			all = all[1:]
		}
	}
	next := ""
	if size := query.Size(); len(all) > size {
		all = all[:size]
		next = all[size-1].id
	}
	ids := make([]string, len(all))
	for i, p := range all {
		ids[i] = p.id
	}
	found, err := r.byID(ctx, ids)
	return found, next, err
}

// byID reads Sessions in the order of their ids.
func (r *searchReader) byID(ctx context.Context, ids []string) ([]store.Session, error) {
	found := make([]store.Session, 0, len(ids))
	for part := range slices.Chunk(ids, maxIDsPerQuery) {
		q := from(selectSession).raw(" AND s.deleted_at = 0 AND s.session_id IN (").bindAll(padTo(slots(len(part)), part)).raw(")")
		got, err := list(ctx, r.conn, scanSession, q.sql.String(), q.args...)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(got, func(a, b store.Session) int { return cmp.Compare(slices.Index(part, a.ID), slices.Index(part, b.ID)) })
		found = append(found, got...)
	}
	return found, nil
}

// walk reads the list from its newest Session and keeps the Sessions that have the words.
func (r *searchReader) walk(ctx context.Context, in store.Scope, query store.SearchQuery) (found []store.Session, next string, err error) {
	page := store.Page{Limit: walkStep, After: query.After}
	for range walkThreads / walkStep {
		rows, err := (&sessionReader{r.conn}).listed(ctx, in, query.Archived, page)
		if err != nil || len(rows) == 0 {
			return found, "", err
		}
		ids := make([]string, len(rows))
		for i, s := range rows {
			ids[i] = s.ID
		}
		q := from("SELECT s.session_id FROM sessions s").raw(" AND s.session_id IN (").bindAll(padTo(slots(len(ids)), ids))
		q.raw(") AND EXISTS (SELECT 1 FROM search_texts d LEFT JOIN messages m ON m.message_id = d.text_id WHERE d.session_id = s.session_id AND ")
		q.hasWords(r.d, query.Words).raw(")")
		have, err := list(ctx, r.conn, scanString, q.sql.String(), q.args...)
		if err != nil {
			return nil, "", err
		}
		for _, s := range rows {
			page.After = s.ID
			if !slices.Contains(have, s.ID) {
				continue
			}
			if found = append(found, s); len(found) == query.Size() {
				return found, s.ID, nil
			}
		}
		if len(rows) < walkStep {
			return found, "", nil
		}
	}
	return found, page.After, nil
}

// textsOf begins a query of search_texts as d, with its Session and, except for a title, its message m.
func textsOf[V any](columns, by string, in []V) *query {
	q := from(columns + " FROM search_texts d JOIN sessions s ON s.session_id = d.session_id LEFT JOIN messages m ON m.message_id = d.text_id")
	q.raw(" AND " + by + " IN (")
	for i, v := range in {
		if i > 0 {
			q.raw(", ")
		}
		q.bind(v)
	}
	return q.raw(")")
}

// padTo repeats the last value up to n values, so that lists of all lengths share a few prepared statements.
func padTo[V any](n int, values []V) []V {
	padded := slices.Clone(values)
	for len(padded) < n {
		padded = append(padded, values[len(values)-1])
	}
	return padded
}

// SearchBehind implements store.SearchReader. Each of the two indexes contains only the rows that it asks for.
func (r *searchReader) SearchBehind(ctx context.Context, in store.Scope) (bool, error) {
	if !in.All() {
		return false, nil
	}
	found, err := list(ctx, r.conn, scanString, `SELECT n.message_id FROM (SELECT m.message_id FROM messages m WHERE NOT m.searched LIMIT 1) n
		UNION ALL SELECT n.session_id FROM (SELECT s.session_id FROM sessions s WHERE NOT s.searched LIMIT 1) n`)
	return len(found) > 0, err
}

// searchTx keeps the texts, and for SQLite their tokens in a table of its own.
type searchTx struct{ *conn }

// TakeMessages implements store.SearchTx. It marks the row before it reads its text. A concurrent change of the message waits
// for this transaction, or removes the mark again.
func (t *searchTx) TakeMessages(ctx context.Context, limit int) ([]store.Message, error) {
	return list(ctx, t.conn, scanMessage, `UPDATE messages AS m SET searched = TRUE WHERE m.message_id IN (
		SELECT n.message_id FROM messages n WHERE NOT n.searched ORDER BY n.message_id DESC LIMIT $1`+t.d.SkipLocked+`)
		AND NOT m.searched RETURNING `+strings.ReplaceAll(messageColumns, "m.", ""), int64(limit))
}

// TakeTitles implements store.SearchTx.
func (t *searchTx) TakeTitles(ctx context.Context, limit int) ([]store.Session, error) {
	return list(ctx, t.conn, scanSession, `UPDATE sessions AS s SET searched = TRUE WHERE s.session_id IN (
		SELECT n.session_id FROM sessions n WHERE NOT n.searched ORDER BY n.session_id DESC LIMIT $1`+t.d.SkipLocked+`)
		AND NOT s.searched RETURNING `+strings.ReplaceAll(sessionColumns, "s.", ""), int64(limit))
}

// PutSearchText implements store.SearchTx.
func (t *searchTx) PutSearchText(ctx context.Context, text store.SearchText) error {
	if err := t.run(ctx, "DELETE FROM search_texts WHERE text_id = $1", text.ID); err != nil || text.Body == "" {
		return err
	}
	session, err := (&sessionReader{t.conn}).Session(ctx, store.System(), text.SessionID)
	if errors.Is(err, store.ErrNotFound) || err == nil && session.IsChild() {
		return nil
	}
	if err != nil {
		return err
	}
	tokens := append(grams.Of(text.Body), ownerLabel(session.Tenant, session.User), sessionLabel(session.ID))
	into := "INSERT INTO search_texts (place, text_id, session_id, body"
	if !t.d.TokenTable {
		return t.run(ctx, into+", tokens) VALUES ("+t.d.NextPlace+", $1, $2, $3, $4)", text.ID, text.SessionID, text.Body, tokens)
	}
	place, err := one(ctx, t.conn, scanInt, into+") VALUES ("+t.d.NextPlace+", $1, $2, $3) RETURNING place", text.ID, text.SessionID, text.Body)
	if err != nil {
		return err
	}
	return t.run(ctx, "INSERT INTO search_index (rowid, tokens) VALUES ($1, $2)", place, strings.Join(tokenNames(tokens), " "))
}
