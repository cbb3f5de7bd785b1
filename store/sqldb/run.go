package sqldb

import (
	"context"
	"slices"

	"aqueduct/store"
)

const (
	runColumns = `x.run_id, x.session_id, x.turn_id, x.external_id, x.status, x.profile, x.body_hash,
	x.first_seq, x.last_seq, x.error_code, x.created_at, x.started_at, x.ended_at, x.parent_run_id, x.tails`
	selectRun = `SELECT ` + runColumns + ` FROM runs x JOIN sessions s ON s.session_id = x.session_id`
)

func runInto(r *store.Run) []any {
	return []any{
		&r.ID, &r.SessionID, &r.TurnID, &r.ExternalID, &r.Status, &r.Profile, &r.BodyHash, &r.FirstSeq, &r.LastSeq,
		&r.ErrorCode, timeInto{&r.CreatedAt}, timeInto{&r.StartedAt}, timeInto{&r.EndedAt},
		&r.ParentRunID, &r.Tails,
	}
}

func scanRun(at row) (store.Run, error) {
	var r store.Run
	err := at.Scan(runInto(&r)...)
	return r, err
}

// Run implements store.RunReader.
func (r *Reader) Run(ctx context.Context, in store.Scope, id string) (store.Run, error) {
	q := selecting(selectRun, in).and("x.run_id = ", id)
	return one(ctx, r, scanRun, q.sql.String(), q.args...)
}

// RunByExternalID implements store.RunReader.
func (r *Reader) RunByExternalID(ctx context.Context, in store.Scope, sessionID, externalID string) (store.Run, error) {
	q := selecting(selectRun, in).and("x.external_id = ", externalID).and("x.session_id = ", sessionID)
	return one(ctx, r, scanRun, q.sql.String(), q.args...)
}

// FindRun implements store.RunReader.
func (r *Reader) FindRun(ctx context.Context, in store.Scope, idOrExternalID string) (store.Run, error) {
	q := selecting(selectRun, in).and("(x.run_id = ", idOrExternalID)
	// By an expression, so that the order cannot be had by walking all runs by their key.
	q.raw(" OR x.external_id = ").bind(idOrExternalID).raw(") ORDER BY x.run_id || '' DESC LIMIT 1")
	return one(ctx, r, scanRun, q.sql.String(), q.args...)
}

// LastRun implements store.RunReader.
func (r *Reader) LastRun(ctx context.Context, in store.Scope, sessionID string) (store.Run, error) {
	q := selecting(selectRun, in).and("x.session_id = ", sessionID)
	q.raw(" AND x.first_seq > 0 ORDER BY x.first_seq DESC LIMIT 1")
	return one(ctx, r, scanRun, q.sql.String(), q.args...)
}

// ReservedRuns implements store.RunReader.
func (r *Reader) ReservedRuns(ctx context.Context, in store.Scope, sessionID string) ([]store.Run, error) {
	q := selecting(selectRun, in).and("x.session_id = ", sessionID)
	// The wider condition is what lets the partial index of work be used.
	q.raw(" AND x.status IN ('RESERVED', 'RUNNING') AND x.status = 'RESERVED' ORDER BY x.run_id")
	return list(ctx, r, scanRun, q.sql.String(), q.args...)
}

// RunsWithin implements store.RunReader. Runs are driven in the order of their ids, so those
// before the first that touches need not be looked at.
func (r *Reader) RunsWithin(ctx context.Context, in store.Scope, sessionID string, from, to int64) ([]store.Run, error) {
	q := selecting(selectRun, in).and("x.session_id = ", sessionID)
	q.raw(" AND x.first_seq > 0").and("x.first_seq <= ", to).raw(" ORDER BY x.run_id DESC")
	var got []store.Run
	err := each(ctx, r, q.sql.String(), q.args, func(at row) (bool, error) {
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

// RunsOfTurn implements store.RunReader.
func (r *Reader) RunsOfTurn(ctx context.Context, in store.Scope, turnID string) ([]store.Run, error) {
	q := selecting(selectRun, in).and("x.turn_id = ", turnID)
	q.raw(" ORDER BY x.first_seq = 0, x.first_seq, x.run_id")
	return list(ctx, r, scanRun, q.sql.String(), q.args...)
}

// BrokenRuns implements store.RunReader.
func (r *Reader) BrokenRuns(ctx context.Context, in store.Scope, sessionID, first, last string) ([]store.BrokenRun, error) {
	q := selecting("SELECT "+runColumns+`, COALESCE((SELECT t.error_message FROM turns t WHERE t.turn_id = x.turn_id), '')
		FROM runs x JOIN sessions s ON s.session_id = x.session_id`, in)
	q.and("x.session_id = ", sessionID).and("x.run_id >= ", first).and("x.run_id <= ", last)
	q.raw(" AND x.status IN ('FAILED', 'CANCELLED') ORDER BY x.run_id")
	return list(ctx, r, func(at row) (b store.BrokenRun, err error) {
		return b, at.Scan(append(runInto(&b.Run), &b.ErrorMessage)...)
	}, q.sql.String(), q.args...)
}

// StateChanges implements store.RunReader.
func (r *Reader) StateChanges(ctx context.Context, in store.Scope, sessionID, first string) ([]store.StateChange, error) {
	q := selecting("SELECT x.run_id, x.state_changes FROM runs x JOIN sessions s ON s.session_id = x.session_id", in)
	q.and("x.session_id = ", sessionID).and("x.run_id >= ", first)
	q.raw(" AND x.state_changes IS NOT NULL ORDER BY x.run_id").limit(store.MaxPageLimit)
	return list(ctx, r, func(at row) (c store.StateChange, err error) {
		return c, at.Scan(&c.RunID, &c.Changes)
	}, q.sql.String(), q.args...)
}

func runStateChanges(m store.RunStateChanges) Statement {
	return Statement{SQL: "UPDATE runs SET state_changes = $2 WHERE run_id = $1", Args: []any{m.ID, string(m.Changes)}}
}

// InsertRun implements store.RunTx.
func (t *Tx) InsertRun(ctx context.Context, r store.Run) error {
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
func (t *Tx) SetRunTail(ctx context.Context, runID, replica string, there bool) error {
	add := ""
	if there {
		add = replica + " "
	}
	_, err := t.exec(ctx, `UPDATE runs SET tails = replace(tails, $2, '') || $3
		WHERE run_id = $1 AND status IN ('RESERVED', 'RUNNING')`, runID, replica+" ", add)
	return err
}

func runMove(m store.RunMove) (Statement, error) {
	from := only(m.From)
	if err := legal("RunMove", from, m.To); err != nil {
		return Statement{}, err
	}
	return Statement{
		SQL: `UPDATE runs SET status = COALESCE(NULLIF($2, ''), status),
			first_seq = COALESCE(NULLIF(CAST($3 AS BIGINT), 0), first_seq),
			last_seq = COALESCE(NULLIF(CAST($4 AS BIGINT), 0), last_seq),
			error_code = COALESCE(NULLIF($5, ''), error_code),
			started_at = COALESCE(NULLIF(CAST($6 AS BIGINT), 0), started_at),
			ended_at = COALESCE(NULLIF(CAST($7 AS BIGINT), 0), ended_at)
			WHERE run_id = $1 AND status IN ($8, $9, $10, $11, $12, $13)`,
		Args: append([]any{m.ID, string(m.To), m.FirstSeq, m.LastSeq, m.ErrorCode, millis(m.StartedAt),
			millis(m.EndedAt)}, padded(from, store.AllRunStatuses())...),
		CAS: true,
	}, nil
}
