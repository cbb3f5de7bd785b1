package sqldb

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"aqueduct/store"
)

type (
	// Reads along a branch of a thread: an edited or regenerated message begins a new one, and the older stay
	// readable.
	branchReader struct{ *conn }

	// SwitchBranch makes another branch the current one.
	branchTx struct{ *conn }
)

// onAnyBranch adds, as a table to be named m, the messages of a Session with one of the external ids, or all of them. The
// current branch and the older ones are two partial indexes, so they are asked one after the other.
func (q *query) onAnyBranch(sessionID string, externalIDs []string) *query {
	half := func(of string) string { return "SELECT * FROM messages WHERE session_id = " + of }
	within := &query{args: append(q.args, sessionID)}
	session := "$" + strconv.Itoa(len(within.args))
	if len(externalIDs) > 0 {
		ids := make([]string, slots(len(externalIDs)))
		for i := range ids {
			ids[i] = externalIDs[min(i, len(externalIDs)-1)]
		}
		within.raw(" AND external_id IN (").bindAll(ids).raw(")")
	}
	q.args = within.args // both halves name the same ones
	named := within.sql.String()
	return q.raw("(" + half(session) + " AND NOT replaced" + named + " UNION ALL " + half(session) + " AND replaced" + named + ") m")
}

// joined restricts what was selected from m to what the Scope sees.
func (q *query) joined(in store.Scope) *query {
	return q.raw(" JOIN sessions s ON s.session_id = m.session_id WHERE ").seenBy(in)
}

// span is a stretch of Turns, both ends included, that lie on one branch.
type span struct{ first, last string }

// branch is the Turns of the branch that ends with a Turn, newest stretch first. A Turn continues the one created before
// it, but for those that began a branch, of which there are few.
//
// Of the Turns 1, 2 and 3, and of 4 that continues 1 as a new branch, the branch of 4 is the stretches {4, 4} and
// {"", 1}.
func (r *branchReader) branch(ctx context.Context, sessionID, turnID string) ([]span, error) {
	q := from("SELECT turn_id, branched_from FROM turns").and("session_id = ", sessionID).raw(" AND branched_from <> ''")
	q.and("turn_id <= ", turnID).raw(" ORDER BY turn_id DESC")
	begun, err := list(ctx, r.conn, func(at row) (s span, err error) {
		return s, at.Scan(&s.last, &s.first) // here: the Turn, and what it continues
	}, q.sql.String(), q.args...)
	if err != nil {
		return nil, err
	}
	// From the newest on: the Turn that began the stretch names what it continues, and whatever began between those two
	// is of other branches.
	var spans []span
	last := turnID
	for _, b := range begun {
		if b.last > last {
			continue // began on another branch
		}
		spans = append(spans, span{b.last, last})
		if last = b.first; last == store.BranchedFromStart {
			return spans, nil
		}
	}
	return append(spans, span{"", last}), nil
}

// BranchMessages implements store.MessageReader.
func (r *branchReader) BranchMessages(ctx context.Context, in store.Scope, sessionID, turnID string, page store.Page) ([]store.Message, error) {
	spans, err := r.branch(ctx, sessionID, turnID)
	if err != nil {
		return nil, err
	}
	q := &query{}
	q.raw("WITH v (a, b) AS (VALUES ")
	for i, s := range spans {
		if i > 0 {
			q.raw(", ")
		}
		q.raw("(CAST(").bind(s.first).raw(" AS TEXT), CAST(").bind(s.last).raw(" AS TEXT))")
	}
	q.raw(") SELECT "+messageColumns+" FROM ").onAnyBranch(sessionID, nil).joined(in)
	q.raw(` AND EXISTS (SELECT 1 FROM runs x JOIN v ON x.turn_id >= v.a AND x.turn_id <= v.b WHERE x.run_id = m.run_id)`)
	return (&messageReader{r.conn}).messages(ctx, q, page)
}

// MessagePlace implements store.MessageReader.
func (r *branchReader) MessagePlace(ctx context.Context, in store.Scope, sessionID, externalID string) (store.MessagePlace, error) {
	q := &query{}
	q.raw("SELECT "+messageColumns+`, m.replaced, COALESCE((SELECT x.turn_id FROM runs x WHERE x.run_id = m.run_id), ''),
		EXISTS (SELECT 1 FROM messages o WHERE o.session_id = m.session_id AND NOT o.replaced AND o.message_id > m.message_id
			AND o.role IN ('assistant', 'tool')),
		COALESCE((SELECT u.message_id FROM messages u WHERE u.session_id = m.session_id AND NOT u.replaced
			AND u.role = 'user' AND NOT u.output ORDER BY u.message_id DESC LIMIT 1), '')
		FROM `).onAnyBranch(sessionID, []string{externalID}).joined(in).raw(" ORDER BY m.replaced, m.message_id DESC LIMIT 1")
	return one(ctx, r.conn, func(at row) (store.MessagePlace, error) {
		var p store.MessagePlace
		err := at.Scan(append(messageInto(&p.Message), &p.Replaced, &p.TurnID, &p.Followed, &p.NewestInput)...)
		return p, err
	}, q.sql.String(), q.args...)
}

// InputsOfTurn implements store.MessageReader. A Turn's id is its first Run's, and older than its messages.
func (r *branchReader) InputsOfTurn(ctx context.Context, in store.Scope, sessionID, turnID string) ([]store.Message, error) {
	q := &query{}
	q.raw("SELECT "+messageColumns+" FROM ").onAnyBranch(sessionID, nil).joined(in).and("m.message_id > ", turnID)
	q.and("m.run_id = ", turnID).raw(" AND NOT m.output ORDER BY m.message_id")
	return list(ctx, r.conn, scanMessage, q.sql.String(), q.args...)
}

// TurnBefore implements store.TurnReader. The first Run of a Turn has its id, so the index of Runs finds Turns too.
func (r *branchReader) TurnBefore(ctx context.Context, in store.Scope, turnID string) (string, error) {
	turn, err := (&turnReader{r.conn}).Turn(ctx, in, turnID)
	switch {
	case err != nil:
		return "", err
	case turn.BranchedFrom == store.BranchedFromStart:
		return "", nil
	case turn.BranchedFrom != "":
		return turn.BranchedFrom, nil
	}
	q := selecting("SELECT x.turn_id FROM runs x JOIN sessions s ON s.session_id = x.session_id", in)
	q.and("x.session_id = ", turn.SessionID).and("x.run_id < ", turnID)
	q.raw(" AND x.run_id = x.turn_id ORDER BY x.run_id DESC LIMIT 1")
	before, err := one(ctx, r.conn, scanString, q.sql.String(), q.args...)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return before, err
}

// inTurns is the condition of a message by its Turn; the comparison follows it. Messages know their Run, and Runs
// their Turn.
const inTurns = ` AND EXISTS (SELECT 1 FROM runs x WHERE x.run_id = messages.run_id AND x.turn_id `

// SwitchBranch implements store.MessageTx. What is to be taken away goes first: external ids are unique on the current
// branch. With from on the current branch only what came behind it goes; otherwise the rest of the current branch goes
// too, and the stretches of the other one come back.
func (t *branchTx) SwitchBranch(ctx context.Context, sessionID, from string, older bool) error {
	err := t.run(ctx, `UPDATE messages SET replaced = TRUE WHERE session_id = $1 AND NOT replaced AND message_id > $2`+
		inTurns+`> $2)`, sessionID, from)
	if err != nil || from == "" || !older {
		return err
	}
	spans, err := (&branchReader{t.conn}).branch(ctx, sessionID, from)
	if err != nil {
		return err
	}
	err = t.run(ctx, `UPDATE messages SET replaced = TRUE WHERE session_id = $1 AND NOT replaced`+inTurns+`<= $2)`, sessionID, from)
	slices.Reverse(spans)
	for _, s := range spans {
		if err == nil {
			err = t.run(ctx, `UPDATE messages SET replaced = FALSE WHERE session_id = $1 AND replaced`+
				inTurns+`>= $2 AND x.turn_id <= $3)`+newestOfTurns, sessionID, s.first, s.last)
		}
	}
	return err
}

// newestOfTurns leaves out what was kept again under the same id. A Turn that is cancelled for a branch may still change
// an activity of an earlier Run of its own, which is on no current branch any more and so becomes a second row.
const newestOfTurns = ` AND NOT EXISTS (SELECT 1 FROM messages d JOIN runs y ON y.run_id = d.run_id WHERE d.session_id = $1
	AND d.replaced AND d.external_id = messages.external_id AND d.message_id > messages.message_id
	AND y.turn_id >= $2 AND y.turn_id <= $3)`

// moveMessage gives a message another key, which is its place in the transcript. Its external id stays.
func moveMessage(m store.MoveMessage) Statement {
	return Statement{SQL: "UPDATE messages SET message_id = $2 WHERE message_id = $1", Args: []any{m.ID, m.NewID}}
}

// replaceMessages takes from the current branch what Turns between two have, both of them left out.
func replaceMessages(m store.ReplaceMessages) Statement {
	return Statement{
		SQL: `UPDATE messages SET replaced = TRUE WHERE session_id = $1 AND NOT replaced AND message_id > $2` +
			inTurns + `> $2 AND x.turn_id < $3)`,
		Args: []any{m.SessionID, m.AfterTurn, m.BeforeTurn},
	}
}
