// This file is one query: everything that the owner of a Session may have to do.

package sqldb

import (
	"context"
	"fmt"
	"reflect"

	"aqueduct/store"
)

// Agenda is what the owner of a Session looks at whenever a ring arrives: its work in one row, so that the common
// case, nothing to do, costs one query.
type agendaReader struct{ *conn }

// selectAgenda joins at most one row of each table, so one query finds all there is to do. It is one snapshot as well:
// with a query for each table, the Turn and its Run could be of different moments. A condition such as status IN
// ('RESERVED', 'RUNNING') beside a narrower one is there for the partial index that has it.
const selectAgenda = `SELECT ` + sessionColumns + `,
	COALESCE((SELECT o.run_id FROM runs o WHERE o.session_id = s.session_id AND o.status = 'RUNNING'), ''),
	COALESCE(t.status <> 'QUEUED' AND ` + passOn + `, FALSE),
	COALESCE((SELECT MAX(e.last_seq) FROM events e WHERE e.session_id = s.session_id), 0),
	(SELECT COUNT(*) FROM runs w WHERE w.session_id = s.session_id
		AND w.status IN ('RESERVED', 'RUNNING') AND w.status = 'RESERVED'),
	` + turnColumns + `, ` + runColumns + `, ` + commandColumns + `
	FROM sessions s
	LEFT JOIN turns t ON t.turn_id = (SELECT a.turn_id FROM turns a WHERE a.session_id = s.session_id
		AND a.status IN ('QUEUED', 'RUNNING', 'PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL')
		ORDER BY a.status = 'QUEUED', a.turn_id LIMIT 1)
	LEFT JOIN runs x ON x.run_id = (SELECT y.run_id FROM runs y WHERE y.session_id = s.session_id
		AND y.status IN ('RESERVED', 'RUNNING') AND y.status = 'RESERVED'
		AND (t.turn_id IS NULL OR y.turn_id = t.turn_id) ORDER BY y.run_id LIMIT 1)
	LEFT JOIN commands c ON c.command_id = (SELECT d.command_id FROM commands d WHERE d.session_id = s.session_id
		AND d.done_at = 0 ORDER BY d.command_id LIMIT 1)`

// Agenda implements store.AgendaReader.
func (r *agendaReader) Agenda(ctx context.Context, in store.Scope, sessionID string) (store.Agenda, error) {
	q := selecting(selectAgenda, in).and("s.session_id = ", sessionID)
	return one(ctx, r.conn, scanAgenda, q.sql.String(), q.args...)
}

// scanAgenda reads the row of selectAgenda. Which of the joined rows were there is known by their ids: none of them
// is empty.
func scanAgenda(at row) (store.Agenda, error) {
	var (
		a store.Agenda
		t store.Turn
		x store.Run
		c store.Command
	)
	into := append(sessionInto(&a.Session), &a.Running, &a.Settled, &a.LastSeq, &a.Reserved)
	for _, joined := range [][]any{turnInto(&t), runInto(&x), commandInto(&c)} {
		for _, dest := range joined {
			into = append(into, maybe{dest})
		}
	}
	if err := at.Scan(into...); err != nil {
		return a, err
	}
	if t.ID != "" {
		a.Turn = &t
	}
	if x.ID != "" {
		a.Run = &x
	}
	if c.ID != "" {
		a.Command = &c
	}
	return a, nil
}

// maybe scans a column of a row that may not be there: NULL leaves the zero value. It takes the destinations of the
// tables' own scan functions, whose pointers database/sql would refuse a NULL for; a pointer to each of them would have
// to be unpacked column by column. dest is a timeInto or a pointer to a kind that the cases name.
type maybe struct{ dest any }

// Scan implements sql.Scanner.
func (m maybe) Scan(src any) error {
	if at, ok := m.dest.(timeInto); ok {
		if src == nil {
			return nil
		}
		return at.Scan(src)
	}
	to := reflect.ValueOf(m.dest).Elem()
	switch v := src.(type) {
	case nil:
	case bool:
		to.SetBool(v)
	case int64:
		if to.Kind() == reflect.Bool { // SQLite keeps a boolean as a number
			to.SetBool(v != 0)
		} else {
			to.SetInt(v)
		}
	case string:
		if to.Kind() == reflect.Slice {
			to.SetBytes([]byte(v))
		} else {
			to.SetString(v)
		}
	case []byte:
		if to.Kind() == reflect.Slice {
			to.SetBytes(append([]byte(nil), v...))
		} else {
			to.SetString(string(v))
		}
	default:
		return fmt.Errorf("sqldb: a column came as %T", src)
	}
	return nil
}
