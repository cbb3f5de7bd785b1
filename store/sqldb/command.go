package sqldb

import (
	"context"

	"aqueduct/store"
)

type (
	// Commands are what a request asks of the Session's owner, on whichever replica that is: cancel, a message
	// while a Turn runs, a setting. They are rows, because a ring may be lost.
	commandReader struct{ *conn }

	// A request writes a Command; the owner's Batch marks it done together with its effect.
	commandTx struct{ *conn }
)

const (
	commandColumns = `c.command_id, c.session_id, c.turn_id, c.kind, c.payload, c.created_at, c.done_at`
	selectCommand  = `SELECT ` + commandColumns + ` FROM commands c JOIN sessions s ON s.session_id = c.session_id`
)

func commandInto(c *store.Command) []any {
	return []any{&c.ID, &c.SessionID, &c.TurnID, &c.Kind, &c.Payload, timeInto{&c.CreatedAt}, timeInto{&c.DoneAt}}
}

var scanCommand = scanning(commandInto)

// PendingCommands implements store.CommandReader. Ids are UUIDv7, so Commands come in the order in which they were
// asked for.
func (r *commandReader) PendingCommands(ctx context.Context, in store.Scope, sessionID string) ([]store.Command, error) {
	q := selecting(selectCommand, in).and("c.session_id = ", sessionID)
	q.raw(" AND c.done_at = 0 ORDER BY c.command_id")
	return list(ctx, r.conn, scanCommand, q.sql.String(), q.args...)
}

// InsertCommand implements store.CommandTx.
func (t *commandTx) InsertCommand(ctx context.Context, c store.Command) error {
	s := insertCommand(c)
	return t.insert(ctx, s.SQL, s.Args...)
}

func insertCommand(c store.Command) Statement {
	return Statement{
		SQL: `INSERT INTO commands (command_id, session_id, turn_id, kind, payload, created_at, done_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		Args: []any{c.ID, c.SessionID, c.TurnID, string(c.Kind), jsonText(c.Payload), millis(c.CreatedAt), millis(c.DoneAt)},
	}
}

// commandDone is lost where the Command is done already, so a Batch that carries one out twice shows it.
func commandDone(m store.CommandDone) Statement {
	return Statement{
		SQL:  "UPDATE commands SET done_at = $2 WHERE command_id = $1 AND done_at = 0",
		Args: []any{m.ID, millis(m.At)},
		CAS:  true,
	}
}
