package sqldb

import (
	"context"
	"slices"
	"time"

	"aqueduct/store"
)

type (
	// Reads of Runs, by our id and by the client's.
	runReader struct{ *conn }

	// A Run is reserved by the request and started by the owner's Batch.
	runTx struct{ *conn }
)

const (
	runColumns = `x.run_id, x.session_id, x.turn_id, x.external_id, x.status, x.profile, x.body_hash,
	x.first_seq, x.last_seq, x.error_code, x.created_at, x.started_at, x.ended_at, x.parent_run_id, x.tails`
	selectRun = `SELECT ` + runColumns + ` FROM runs x JOIN sessions s ON s.session_id = x.session_id`
)

// runInto are the destinations of runColumns, in the same order; scanRun and scanAgenda share them.
func runInto(r *store.Run) []any {
	return []any{
		&r.ID, &r.SessionID, &r.TurnID, &r.ExternalID, &r.Status, &r.Profile, &r.BodyHash, &r.FirstSeq, &r.LastSeq,
		&r.ErrorCode, timeInto{&r.CreatedAt}, timeInto{&r.StartedAt}, timeInto{&r.EndedAt},
		&r.ParentRunID, &r.Tails,
	}
}

var scanRun = scanning(runInto)

// Run implements store.RunReader.
func (r *runReader) Run(ctx context.Context, in store.Scope, id string) (store.Run, error) {
	q := selecting(selectRun, in).and("x.run_id = ", id)
	return one(ctx, r.conn, scanRun, q.sql.String(), q.args...)
}

// RunByExternalID implements store.RunReader.
func (r *runReader) RunByExternalID(ctx context.Context, in store.Scope, sessionID, externalID string) (store.Run, error) {
	q := selecting(selectRun, in).and("x.external_id = ", externalID).and("x.session_id = ", sessionID)
	return one(ctx, r.conn, scanRun, q.sql.String(), q.args...)
}

// FindRun implements store.RunReader. A client's own id may be in several threads; the newest Run of that name is meant.
func (r *runReader) FindRun(ctx context.Context, in store.Scope, idOrExternalID string) (store.Run, error) {
	q := selecting(selectRun, in).and("(x.run_id = ", idOrExternalID)
	// By an expression, so that the order cannot be had by walking all runs by their key.
	q.raw(" OR x.external_id = ").bind(idOrExternalID).raw(") ORDER BY x.run_id || '' DESC LIMIT 1")
	return one(ctx, r.conn, scanRun, q.sql.String(), q.args...)
}

// LastRun implements store.RunReader. It is the last one that has begun, by the log; a Run that is reserved has no
// first position.
func (r *runReader) LastRun(ctx context.Context, in store.Scope, sessionID string) (store.Run, error) {
	q := selecting(selectRun, in).and("x.session_id = ", sessionID)
	q.raw(" AND x.first_seq > 0 ORDER BY x.first_seq DESC LIMIT 1")
	return one(ctx, r.conn, scanRun, q.sql.String(), q.args...)
}

// ReservedRuns implements store.RunReader.
func (r *runReader) ReservedRuns(ctx context.Context, in store.Scope, sessionID string) ([]store.Run, error) {
	q := selecting(selectRun, in).and("x.session_id = ", sessionID)
	// The wider condition is what lets the partial index of work be used.
	q.raw(" AND x.status IN ('RESERVED', 'RUNNING') AND x.status = 'RESERVED' ORDER BY x.run_id")
	return list(ctx, r.conn, scanRun, q.sql.String(), q.args...)
}

// RunsWithin implements store.RunReader. Runs are driven in the order of their ids, so those
// before the first that touches need not be looked at.
func (r *runReader) RunsWithin(ctx context.Context, in store.Scope, sessionID string, from, to int64) ([]store.Run, error) {
	q := selecting(selectRun, in).and("x.session_id = ", sessionID)
	q.raw(" AND x.first_seq > 0").and("x.first_seq <= ", to).raw(" ORDER BY x.run_id DESC")
	var got []store.Run
	err := each(ctx, r.conn, q.sql.String(), q.args, func() { got = nil }, func(at row) (bool, error) {
		run, err := scanRun(at)
		if err != nil || run.LastSeq > 0 && run.LastSeq < from {
			return false, err
		}
		got = append(got, run)
		return true, nil
	})
	slices.Reverse(got)
	return got, err
}

// RunsOfTurn implements store.RunReader. Those that have begun stand in the order of the log, before those that have
// not.
func (r *runReader) RunsOfTurn(ctx context.Context, in store.Scope, turnID string) ([]store.Run, error) {
	q := selecting(selectRun, in).and("x.turn_id = ", turnID)
	q.raw(" ORDER BY x.first_seq = 0, x.first_seq, x.run_id")
	return list(ctx, r.conn, scanRun, q.sql.String(), q.args...)
}

// BrokenRuns implements store.RunReader. Ids are UUIDv7, so a range of them is a range of time.
func (r *runReader) BrokenRuns(ctx context.Context, in store.Scope, sessionID, first, last string) ([]store.BrokenRun, error) {
	q := selecting("SELECT "+runColumns+`, COALESCE((SELECT t.error_message FROM turns t WHERE t.turn_id = x.turn_id), '')
		FROM runs x JOIN sessions s ON s.session_id = x.session_id`, in)
	q.and("x.session_id = ", sessionID).and("x.run_id >= ", first).and("x.run_id <= ", last)
	q.raw(" AND x.status IN ('FAILED', 'CANCELLED') ORDER BY x.run_id")
	return list(ctx, r.conn, func(at row) (b store.BrokenRun, err error) {
		return b, at.Scan(append(runInto(&b.Run), &b.ErrorMessage)...)
	}, q.sql.String(), q.args...)
}

// StateChanges implements store.RunReader. A Run that changed nothing has none, and is passed over.
func (r *runReader) StateChanges(ctx context.Context, in store.Scope, sessionID, first string) ([]store.StateChange, error) {
	q := selecting("SELECT x.run_id, x.state_changes FROM runs x JOIN sessions s ON s.session_id = x.session_id", in)
	q.and("x.session_id = ", sessionID).and("x.run_id >= ", first)
	q.raw(" AND x.state_changes IS NOT NULL ORDER BY x.run_id").limit(store.MaxPageLimit)
	return list(ctx, r.conn, func(at row) (c store.StateChange, err error) {
		return c, at.Scan(&c.RunID, &c.Changes)
	}, q.sql.String(), q.args...)
}

// runStateChanges is no compare-and-set: the Run's one writer makes it.
func runStateChanges(m store.RunStateChanges) Statement {
	return Statement{SQL: "UPDATE runs SET state_changes = $2 WHERE run_id = $1", Args: []any{m.ID, string(m.Changes)}}
}

// InsertRun implements store.RunTx.
func (t *runTx) InsertRun(ctx context.Context, r store.Run) error {
	s := insertRun(r)
	return t.insert(ctx, s.SQL, s.Args...)
}

func insertRun(r store.Run) Statement {
	return Statement{
		SQL: `INSERT INTO runs (run_id, session_id, turn_id, external_id, status, profile, body_hash, first_seq,
			last_seq, error_code, created_at, started_at, ended_at, parent_run_id, tails)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		Args: []any{r.ID, r.SessionID, r.TurnID, r.ExternalID, string(r.Status), jsonText(r.Profile), blob(r.BodyHash),
			r.FirstSeq, r.LastSeq, r.ErrorCode, millis(r.CreatedAt), millis(r.StartedAt), millis(r.EndedAt),
			r.ParentRunID, r.Tails},
	}
}

// SetRunTail implements store.RunTx. One statement, so that two replicas never undo each other's.
func (t *runTx) SetRunTail(ctx context.Context, runID, replica string, there bool) error {
	add := ""
	if there {
		add = replica + " "
	}
	return t.run(ctx, `UPDATE runs SET tails = replace(tails, $2, '') || $3
		WHERE run_id = $1 AND status IN ('RESERVED', 'RUNNING')`, runID, replica+" ", add)
}

// runMoves make a RunMove.
var runMoves = newUpdate("runs", "",
	machineOf("RunMove", store.AllRunStatuses(),
		func(m *store.RunMove) []store.RunStatus { return only(m.From) }, func(m *store.RunMove) store.RunStatus { return m.To }),
	textField("run_id", unset, func(m *store.RunMove) string { return m.ID }),
	textField("status", keepIfText, func(m *store.RunMove) string { return string(m.To) }),
	numberField("first_seq", keepIfZero, func(m *store.RunMove) int64 { return m.FirstSeq }),
	numberField("last_seq", keepIfZero, func(m *store.RunMove) int64 { return m.LastSeq }),
	textField("error_code", keepIfText, func(m *store.RunMove) string { return m.ErrorCode }),
	timeField("started_at", keepIfZero, func(m *store.RunMove) time.Time { return m.StartedAt }),
	timeField("ended_at", keepIfZero, func(m *store.RunMove) time.Time { return m.EndedAt }),
)
