// This file has the order in which Approvals were opened and settled, which feeds follow (bridge/approval/feed.go). A
// row gets a position for each of the two some time after its commit, from the first who follows: positions given at
// the write could appear below one that was read already.

package sqldb

import (
	"context"

	"aqueduct/store"
)

// changeColumns are an Approval with the members of its Session that a caller who cannot read that may see.
const changeColumns = `SELECT ` + approvalColumns + `, s.external_id, s.tenant, s.user_id,
	COALESCE((SELECT t.root_agent_id FROM turns t WHERE t.turn_id = a.turn_id), s.agent_id)`

const (
	selectOpen = changeColumns + `, a.opened_seq, FALSE` + fromApprovals
	// selectChanges reads both sorts of changes in one statement: of two, the second could see
	// positions above one that the first did not see yet, and a reader that goes on from there would
	// miss it.
	selectChanges = changeColumns + `, v.seq, v.settled FROM (
		SELECT approval_id, opened_seq AS seq, FALSE AS settled FROM approvals WHERE opened_seq > $1 AND opened_seq <= $2
		UNION ALL SELECT approval_id, settled_seq, TRUE FROM approvals WHERE settled_seq > $1 AND settled_seq <= $2
	) v JOIN approvals a ON a.approval_id = v.approval_id JOIN sessions s ON s.session_id = a.session_id`
)

func scanChange(at row) (store.ApprovalChange, error) {
	var c store.ApprovalChange
	err := at.Scan(append(approvalInto(&c.Approval), &c.Thread, &c.Tenant, &c.User, &c.AgentID, &c.Seq, &c.Settled)...)
	return c, err
}

// OpenApprovals implements store.ApprovalReader.
func (r *approvalReader) OpenApprovals(ctx context.Context, in store.Scope, page store.Page) ([]store.ApprovalChange, error) {
	if blind(in) {
		return nil, nil
	}
	q := r.decidable(selectOpen, in).raw(" AND a.status = 'PENDING'"+noChild).oldestFirst("a.approval_id", page)
	return list(ctx, r.conn, scanChange, q.sql.String(), q.args...)
}

// changesAtOnce bounds the positions that one statement goes through. Without it a caller who sees few of all changes and was
// away for long would have one statement read the changes of all users.
const changesAtOnce = store.MaxPageLimit

// ApprovalChanges implements store.ApprovalReader. Positions up to the newest are committed, so later statements miss none.
func (r *approvalReader) ApprovalChanges(ctx context.Context, in store.Scope, after int64, limit int) ([]store.ApprovalChange, error) {
	if blind(in) {
		return nil, nil
	}
	last, err := r.LastApprovalChange(ctx, store.System())
	var got []store.ApprovalChange
	most := store.Page{Limit: limit}.Size()
	for ; err == nil && after < last && len(got) < most; after += changesAtOnce {
		q := r.decidable(selectChanges, in, after, min(after+changesAtOnce, last)).raw(noChild + " ORDER BY v.seq").limit(most - len(got))
		var some []store.ApprovalChange
		some, err = list(ctx, r.conn, scanChange, q.sql.String(), q.args...)
		got = append(got, some...)
	}
	return got, err
}

// LastApprovalChange implements store.ApprovalReader.
func (r *approvalReader) LastApprovalChange(ctx context.Context, in store.Scope) (int64, error) {
	if !in.All() {
		return 0, nil
	}
	return one(ctx, r.conn, scanInt, "SELECT last_seq FROM approval_positions WHERE id = 1")
}

// unsequenced are the two sorts of changes without a position. An opening comes before the end:
// the statement for openings runs first.
var unsequenced = [...]struct{ column, condition, order string }{
	{"opened_seq", "a.opened_seq = 0", "a.approval_id"},
	{"settled_seq", "a.settled_seq = 0 AND a.status IN ('APPROVED', 'REJECTED', 'EXPIRED', 'CANCELLED') AND a.opened_seq > 0",
		"a.decided_at, a.approval_id"},
}

// ApprovalsUnsequenced implements store.ApprovalReader.
func (r *approvalReader) ApprovalsUnsequenced(ctx context.Context, in store.Scope) (bool, error) {
	if !in.All() {
		return false, nil
	}
	for _, sort := range unsequenced {
		got, err := list(ctx, r.conn, scanString, "SELECT a.approval_id FROM approvals a WHERE "+sort.condition+" LIMIT 1")
		if err != nil || len(got) > 0 {
			return len(got) > 0, err
		}
	}
	return false, nil
}

// SequenceApprovals implements store.ApprovalTx. The row of the newest position is held until
// the commit, so that of two who sequence, the second sees what the first has done. Rows that
// others are changing are left for the next time: waiting for one of them, while they wait for a
// row that is held here, would never end.
func (t *approvalTx) SequenceApprovals(ctx context.Context, limit int) (int64, error) {
	last, err := one(ctx, t.conn, scanInt, "SELECT last_seq FROM approval_positions WHERE id = 1"+t.d.LockRow)
	if err != nil {
		return 0, err
	}
	begun := last
	for _, sort := range unsequenced {
		n, err := t.exec(ctx, `UPDATE approvals SET `+sort.column+` = CAST($1 AS BIGINT) + n.place FROM (
			SELECT l.approval_id, ROW_NUMBER() OVER (ORDER BY l.place_at, l.approval_id) AS place FROM (
				SELECT a.approval_id, a.decided_at AS place_at FROM approvals a WHERE `+sort.condition+` ORDER BY `+sort.order+`
				LIMIT $2`+t.d.SkipLocked+`) l) n WHERE approvals.approval_id = n.approval_id`, last, int64(store.Page{Limit: limit}.Size()))
		if err != nil {
			return 0, err
		}
		last += n
	}
	if last == begun {
		return 0, nil
	}
	_, err = t.exec(ctx, "UPDATE approval_positions SET last_seq = $1 WHERE id = 1", last)
	return last - begun, err
}
