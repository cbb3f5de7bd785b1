package sqldb

import (
	"context"
	"slices"

	"aqueduct/store"
)

const selectApproval = `SELECT a.approval_id, a.session_id, a.turn_id, a.kind, a.status, a.tool_name, a.title, a.args,
	a.args_sha256, a.options, a.response_schema, a.risk, a.created_at, a.expires_at, a.decided_at, a.decided_by,
	a.decided_via, a.decision, a.reason FROM approvals a JOIN sessions s ON s.session_id = a.session_id`

func scanApproval(at row) (store.Approval, error) {
	var a store.Approval
	err := at.Scan(&a.ID, &a.SessionID, &a.TurnID, &a.Kind, &a.Status, &a.Tool, &a.Title, &a.Args,
		&a.ArgsSHA256, &a.Options, &a.ResponseSchema, &a.Risk, timeInto{&a.CreatedAt}, timeInto{&a.ExpiresAt},
		timeInto{&a.DecidedAt}, &a.DecidedBy, &a.DecidedVia, &a.Decision, &a.Reason)
	return a, err
}

// Approval implements store.ApprovalReader.
func (r *Reader) Approval(ctx context.Context, in store.Scope, id string) (store.Approval, error) {
	q := selecting(selectApproval, in).and("a.approval_id = ", id)
	return one(ctx, r, scanApproval, q.sql.String(), q.args...)
}

// Approvals implements store.ApprovalReader. Ids are UUIDv7, so their order is time.
func (r *Reader) Approvals(ctx context.Context, in store.Scope, f store.ApprovalFilter, page store.Page) ([]store.Approval, error) {
	q := selecting(selectApproval, in)
	if f.Status != "" {
		q.and("a.status = ", string(f.Status))
	}
	if f.SessionID != "" {
		q.and("a.session_id = ", f.SessionID)
	}
	if f.TurnID != "" {
		q.and("a.turn_id = ", f.TurnID)
	}
	if page.After != "" {
		q.and("a.approval_id < ", page.After)
	}
	if page.Before != "" {
		q.and("a.approval_id > ", page.Before)
	}
	back := page.Before != "" && page.After == ""
	if back {
		q.raw(" ORDER BY a.approval_id")
	} else {
		q.raw(" ORDER BY a.approval_id DESC")
	}
	q.limit(page.Size())
	got, err := list(ctx, r, scanApproval, q.sql.String(), q.args...)
	if back {
		slices.Reverse(got)
	}
	return got, err
}

// MoveApproval implements store.ApprovalTx.
func (t *Tx) MoveApproval(ctx context.Context, m store.ApprovalMove) (bool, error) {
	s, err := approvalMove(m)
	if err != nil {
		return false, err
	}
	n, err := t.exec(ctx, s.SQL, s.Args...)
	return n > 0, err
}

func insertApproval(a store.Approval) Statement {
	return Statement{
		SQL: `INSERT INTO approvals (approval_id, session_id, turn_id, kind, status, tool_name, title, args,
			args_sha256, options, response_schema, risk, created_at, expires_at, decided_at, decided_by, decided_via,
			decision, reason)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`,
		Args: []any{a.ID, a.SessionID, a.TurnID, string(a.Kind), string(a.Status), a.Tool, a.Title, jsonText(a.Args),
			a.ArgsSHA256, jsonText(a.Options), jsonText(a.ResponseSchema), a.Risk, millis(a.CreatedAt),
			millis(a.ExpiresAt), millis(a.DecidedAt), a.DecidedBy, a.DecidedVia, jsonText(a.Decision), a.Reason},
	}
}

func approvalMove(m store.ApprovalMove) (Statement, error) {
	if m.To == "" {
		return Statement{}, illegal("ApprovalMove", store.ApprovalPending, m.To)
	}
	if err := legal("ApprovalMove", only(store.ApprovalPending), m.To); err != nil {
		return Statement{}, err
	}
	return Statement{
		SQL: `UPDATE approvals SET status = $2,
			decided_at = COALESCE(NULLIF(CAST($3 AS BIGINT), 0), decided_at),
			decided_by = COALESCE(NULLIF($4, ''), decided_by), decided_via = COALESCE(NULLIF($5, ''), decided_via),
			decision = COALESCE($6, decision), reason = COALESCE(NULLIF($7, ''), reason)
			WHERE approval_id = $1 AND status = 'PENDING'`,
		Args: []any{m.ID, string(m.To), millis(m.DecidedAt), m.DecidedBy, m.DecidedVia, jsonText(m.Decision), m.Reason},
		CAS:  true,
	}, nil
}
