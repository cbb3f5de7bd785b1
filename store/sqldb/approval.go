package sqldb

import (
	"cmp"
	"context"
	"strings"
	"time"

	"aqueduct/store"
)

type (
	// Reads of Approvals decide by themselves who sees one: besides the Session's user those whom its rules name,
	// to whom it was delegated, or with whom the Session is shared.
	approvalReader struct{ *conn }

	// Changes of Approvals within a request: a decision, an expiry and a delegation are compare-and-sets on the
	// status.
	approvalTx struct{ *conn }
)

const (
	approvalColumns = `a.approval_id, a.session_id, a.turn_id, a.kind, a.status, a.tool_name, a.tool_kind, a.title, a.args,
	a.args_sha256, a.options, a.response_schema, a.risk, a.asked_user, a.approvers, a.four_eyes, a.may_edit,
	a.delegated_to, a.delegated_by, a.delegated_until, a.created_at, a.expires_at, a.decided_at, a.decided_by,
	a.decided_via, a.decision, a.edited_args, a.grant_id, a.reason, a.path, a.proposed_args, a.proposed_sha256, a.proposed_by,
	a.unconfined, a.definition`
	fromApprovals  = ` FROM approvals a JOIN sessions s ON s.session_id = a.session_id`
	selectApproval = `SELECT ` + approvalColumns + fromApprovals
)

// approvalInto are the destinations of approvalColumns, in the same order.
func approvalInto(a *store.Approval) []any {
	return []any{
		&a.ID, &a.SessionID, &a.TurnID, &a.Kind, &a.Status, &a.Tool, &a.ToolKind, &a.Title, &a.Args,
		&a.ArgsSHA256, &a.Options, &a.ResponseSchema, &a.Risk, &a.AskedUser, &a.Approvers, &a.FourEyes, &a.MayEdit,
		&a.DelegatedTo, &a.DelegatedBy, timeInto{&a.DelegatedUntil}, timeInto{&a.CreatedAt}, timeInto{&a.ExpiresAt},
		timeInto{&a.DecidedAt}, &a.DecidedBy, &a.DecidedVia, &a.Decision, &a.EditedArgs, &a.GrantID, &a.Reason,
		&a.Path, &a.Proposed, &a.ProposedSHA256, &a.ProposedBy, &a.Unconfined, &a.Definition,
	}
}

var scanApproval = scanning(approvalInto)

// Approval implements store.ApprovalReader.
func (r *approvalReader) Approval(ctx context.Context, in store.Scope, id string) (store.Approval, error) {
	if blindToApprovals(in) {
		return store.Approval{}, store.ErrNotFound
	}
	q := r.decidable(selectApproval, in).and("a.approval_id = ", id)
	return one(ctx, r.conn, scanApproval, q.sql.String(), q.args...)
}

// decidable starts a query of Approvals that the Scope sees by any right, its own or another's.
// args are those that selecting has placeholders for.
func (r *approvalReader) decidable(selecting string, in store.Scope, args ...any) *query {
	q := from(selecting)
	q.args = args
	q.livingOf(in)
	if in.All() || in.Wide() {
		return q
	}
	if in.Session() != "" {
		return q.and("s.session_id = ", in.Session())
	}
	return q.and("(s.user_id = ", in.User()).raw(" OR ").entrusted(in, r.d).raw(")")
}

// livingOf adds the condition of a Session of the Scope's tenant that is not hidden, for users who are not its owner. As
// that of seenBy it is one that no index can serve.
func (q *query) livingOf(in store.Scope) *query {
	q.raw(" AND COALESCE(s.deleted_at = 0")
	if !in.All() {
		q.and("s.tenant = ", in.Tenant())
	}
	return q.raw(", FALSE)")
}

// entrusted is the condition of what is in the caller's hands, besides its own: Approvals delegated to the user, those
// whose approvers name the user or one of its roles, those of a standing Delegation, and those of a Session that is
// shared with the right to decide.
func (q *query) entrusted(in store.Scope, d *Dialect) *query {
	now := d.now()
	q.raw("(").delegated(in.User(), now)
	if names := in.Deciders(); len(names) > 0 {
		q.raw(" OR EXISTS (SELECT 1 FROM " + d.items("a.approvers") + " n WHERE n.value IN (")
		q.bindAll(names).raw(")) OR EXISTS (SELECT 1 FROM delegations d WHERE ").standing(in.User(), now, d).raw(")")
		q.raw(" OR EXISTS (SELECT 1 FROM shares h WHERE h.session_id = a.session_id AND h.may_decide AND ").sharedWith(in.Tenant(), names).raw(")")
	}
	return q.raw(")")
}

// standing is the condition of a Delegation d by which the user may decide the Approval a of the Session s: one that
// lives, of a user who may decide it. The agent is the Turn's, which may be another than the Session's; an empty agent,
// tool or kind in d means any. d.holds are the names under which the giver could be meant among the approvers, kept when
// the Delegation was made.
func (q *query) standing(user string, now time.Time, d *Dialect) *query {
	q.raw("d.revoked_at = 0 AND d.tenant = s.tenant").and("d.delegate = ", user).and("d.expires_at > ", millis(now))
	q.raw(" AND d.agent_id IN ('', COALESCE((SELECT t.root_agent_id FROM turns t WHERE t.turn_id = a.turn_id), s.agent_id)) AND d.tool IN ('', a.tool_name) AND d.tool_kind IN ('', a.tool_kind)")
	q.raw(" AND (d.wide OR d.user_id = s.user_id OR EXISTS (SELECT 1 FROM " + d.items("a.approvers") + " n, " + d.items("d.holds"))
	return q.raw(" h WHERE n.value = h.value))")
}

// delegated is the condition of an Approval a that was handed to the user and has not fallen back since.
func (q *query) delegated(user string, now time.Time) *query {
	q.raw("(a.delegated_to <> '' AND a.delegated_to = ").bind(user)
	return q.raw(" AND (a.delegated_until = 0 OR a.delegated_until > ").bind(millis(now)).raw("))")
}

// Approvals implements store.ApprovalReader. Ids are UUIDv7, so their order is time. What is
// the caller's own and what is others' are two queries: one with OR would walk the whole table.
func (r *approvalReader) Approvals(ctx context.Context, in store.Scope, f store.ApprovalFilter, page store.Page) ([]store.Approval, error) {
	if f.DelegatedTo != "" {
		if blind(in) || !in.All() && !in.Wide() && in.User() != f.DelegatedTo {
			return nil, nil
		}
		q := from(selectApproval).livingOf(in).raw(" AND ").delegated(f.DelegatedTo, r.d.now())
		return r.approvals(ctx, in, q, f, page)
	}
	q := selecting(selectApproval, in).ofOwner(in, f)
	got, err := r.approvals(ctx, in, q, f, page)
	if err != nil || len(in.Deciders()) == 0 || f.Status != "" && f.Status != store.ApprovalPending {
		return got, err
	}
	q = from(selectApproval).livingOf(in).raw(" AND a.status = 'PENDING'")
	q.and("s.user_id <> ", in.User()).raw(" AND ").entrusted(in, r.d)
	others, err := r.approvals(ctx, in, q, f, page)
	if err != nil {
		return nil, err
	}
	return merged(got, others, page, func(a, b store.Approval) int { return strings.Compare(b.ID, a.ID) }), nil
}

// ofOwner adds the condition of a list for its index, with the first column that the filter asks for. It adds none for pending
// Approvals, or for those of one Session or Turn, because these have indexes of their own.
func (q *query) ofOwner(in store.Scope, f store.ApprovalFilter) *query {
	switch {
	case f.SessionID != "" || f.TurnID != "" || f.Status == store.ApprovalPending || in.All():
		return q
	case in.Session() != "":
		return q.and("a.session_id = ", in.Session())
	}
	var first []value
	for _, v := range []value{{"a.tool_name", f.Tool}, {"a.status", string(f.Status)}, {"a.kind", string(f.Kind)}} {
		if v.is != "" {
			first = []value{v}
			break
		}
	}
	return q.ofList(in, "a.tenant", "a.user_id", first...)
}

// approvals reads a page of what a query selects and a filter leaves, newest first.
func (r *approvalReader) approvals(ctx context.Context, in store.Scope, q *query, f store.ApprovalFilter, page store.Page) ([]store.Approval, error) {
	// PENDING ones are few of many and have a partial index, which PostgreSQL uses only where the status is a constant
	// of the text.
	if f.Status == store.ApprovalPending {
		q.raw(" AND a.status = 'PENDING'")
		f.Status = ""
	}
	for _, must := range []struct{ is, value string }{
		{"a.status = ", string(f.Status)}, {"a.kind = ", string(f.Kind)}, {"a.tool_name = ", f.Tool},
		{"a.session_id = ", f.SessionID}, {"a.turn_id = ", f.TurnID},
	} {
		if must.value != "" {
			q.and(must.is, must.value)
		}
	}
	if f.SessionID == "" && f.TurnID == "" { // what a called agent asks is in the inbox as the root's Question
		q.raw(noChild)
	}
	return newestFirst(ctx, r.conn, scanApproval, q, listedBy(in, "a.approval_id"), page)
}

// InsertApproval implements store.ApprovalTx.
func (t *approvalTx) InsertApproval(ctx context.Context, a store.Approval) error {
	s := insertApproval(a)
	return t.insert(ctx, s.SQL, s.Args...)
}

// DelegateApproval implements store.ApprovalTx. Without its position the Approval is opened once more, in the order of
// changes, for those who follow them: the new holder has not seen it yet.
func (t *approvalTx) DelegateApproval(ctx context.Context, d store.ApprovalDelegation) (bool, error) {
	return t.change(ctx, `UPDATE approvals SET delegated_to = $2, delegated_by = $3, delegated_until = $4,
		opened_seq = 0 WHERE approval_id = $1 AND status = 'PENDING'`, d.ID, d.To, d.By, millis(d.Until))
}

// ProposeEdit implements store.ApprovalTx. The Approval is opened once more for those who follow changes, as by
// DelegateApproval.
func (t *approvalTx) ProposeEdit(ctx context.Context, p store.ApprovalProposal) (bool, error) {
	return t.change(ctx, `UPDATE approvals SET proposed_args = $2, proposed_sha256 = $3, proposed_by = $4,
		opened_seq = 0 WHERE approval_id = $1 AND status = 'PENDING'`, p.ID, jsonText(p.Args), p.SHA256, p.By)
}

// MoveApproval implements store.ApprovalTx.
func (t *approvalTx) MoveApproval(ctx context.Context, m store.ApprovalMove) (bool, error) {
	s, err := approvalMove(m)
	if err != nil {
		return false, err
	}
	return t.change(ctx, s.SQL, s.Args...)
}

func insertApproval(a store.Approval) Statement {
	return Statement{
		SQL: `INSERT INTO approvals (approval_id, session_id, turn_id, kind, status, tool_name, title, args,
			args_sha256, options, response_schema, risk, created_at, expires_at, decided_at, decided_by, decided_via,
			decision, reason, asked_user, approvers, four_eyes, may_edit, delegated_to, delegated_by, delegated_until,
			edited_args, grant_id, tool_kind, path, proposed_args, proposed_sha256, proposed_by, unconfined, definition)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
			$23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35)`,
		Args: []any{a.ID, a.SessionID, a.TurnID, string(a.Kind), string(a.Status), a.Tool, a.Title, jsonText(a.Args),
			a.ArgsSHA256, jsonText(a.Options), jsonText(a.ResponseSchema), a.Risk, millis(a.CreatedAt),
			millis(a.ExpiresAt), millis(a.DecidedAt), a.DecidedBy, a.DecidedVia, jsonText(a.Decision), a.Reason,
			a.AskedUser, jsonText(a.Approvers), a.FourEyes, a.MayEdit, a.DelegatedTo, a.DelegatedBy,
			millis(a.DelegatedUntil), jsonText(a.EditedArgs), a.GrantID, a.ToolKind, jsonText(a.Path),
			jsonText(a.Proposed), a.ProposedSHA256, a.ProposedBy, a.Unconfined, jsonText(a.Definition)},
	}
}

// approvalMove is the SQL of a decision, an expiry or a withdrawal: by compare-and-set from one state, PENDING where
// none is named. What the move leaves empty stays as it is.
func approvalMove(m store.ApprovalMove) (Statement, error) {
	if m.To == "" {
		return Statement{}, illegal("ApprovalMove", store.ApprovalPending, m.To)
	}
	from := cmp.Or(m.From, store.ApprovalPending)
	if err := legal("ApprovalMove", only(from), m.To); err != nil {
		return Statement{}, err
	}
	return Statement{
		SQL: `UPDATE approvals SET status = $2,
			decided_at = COALESCE(NULLIF(CAST($3 AS BIGINT), 0), decided_at),
			decided_by = COALESCE(NULLIF($4, ''), decided_by), decided_via = COALESCE(NULLIF($5, ''), decided_via),
			decision = COALESCE($6, decision), reason = COALESCE(NULLIF($7, ''), reason),
			edited_args = COALESCE($8, edited_args), grant_id = COALESCE(NULLIF($9, ''), grant_id)
			WHERE approval_id = $1 AND status = $10`,
		Args: []any{m.ID, string(m.To), millis(m.DecidedAt), m.DecidedBy, m.DecidedVia, jsonText(m.Decision), m.Reason,
			jsonText(m.EditedArgs), m.GrantID, string(from)},
		CAS: true,
	}, nil
}
