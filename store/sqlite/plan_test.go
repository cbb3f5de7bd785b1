package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"aqueduct/store"
	"aqueduct/store/sqldb"
)

// planner runs every query as it is and keeps how SQLite would find the rows.
type planner struct {
	*testing.T
	sqldb.Queryer
	plans map[string]string // query → plan
}

func (p planner) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := p.Queryer.QueryContext(ctx, "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		p.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			p.Fatal(err)
		}
		p.plans[query] += detail + "\n"
	}
	return p.Queryer.QueryContext(ctx, query, args...)
}

// TestNoScans: what a caller or a Session's owner asks is found through an index,
// however much is kept. Only walks over a (partial) index are allowed.
func TestNoScans(t *testing.T) {
	s, ctx := openIn(t), context.Background()
	p := planner{T: t, Queryer: s.reads, plans: map[string]string{}}
	r := sqldb.NewReader(p, s.dialect)
	ids := []string{"a", "b"}
	for _, in := range []store.Scope{store.System(), store.As(store.LocalPrincipal()), store.Deciding(store.LocalPrincipal()), store.Within("local")} {
		_, _ = r.Session(ctx, in, "x")
		_, _ = r.Turn(ctx, in, "x")
		_, _ = r.ActiveTurn(ctx, in, "x")
		_, _ = r.Run(ctx, in, "x")
		_, _ = r.RunByExternalID(ctx, in, "x", "y")
		_, _ = r.FindRun(ctx, in, "x")
		_, _ = r.LastRun(ctx, in, "x")
		_, _ = r.ReservedRuns(ctx, in, "x")
		_, _ = r.RunsOfTurn(ctx, in, "x")
		_, _ = r.Events(ctx, in, "x", 0, 1)
		_, _ = r.LastSeq(ctx, in, "x")
		_, _ = r.LastCursor(ctx, in, "x")
		_, _ = r.RecordsOfTurn(ctx, in, "x", store.Page{})
		_, _ = r.RecordsOfSession(ctx, in, "x", 1, 10)
		_, _ = r.RecordsUnsequenced(ctx, in, "x", "")
		_, _ = r.RecordsUnsequenced(ctx, in, "x", "t")
		_, _ = r.PlacedRecordsOfTurn(ctx, in, "t", 1, 10)
		_, _ = r.RunsWithin(ctx, in, "x", 1, 10)
		_, _ = r.Messages(ctx, in, "x", store.Page{Before: "y"})
		_, _ = r.KnownMessageIDs(ctx, in, "x", ids)
		_, _ = r.BranchMessages(ctx, in, "x", "y", store.Page{})
		_, _ = r.MessagePlace(ctx, in, "x", "y")
		_, _ = r.InputsOfTurn(ctx, in, "x", "y")
		_, _ = r.TurnBefore(ctx, in, "y")
		_, _ = r.ToolCall(ctx, in, "x")
		_, _ = r.OpenToolCalls(ctx, in, "x")
		_, _ = r.ExpiringToolCalls(ctx, in, 10)
		_, _ = r.ToolCallsOfTurn(ctx, in, "x")
		_, _, _ = r.CountToolCalls(ctx, in, "x")
		_, _ = r.CountWaiting(ctx, in, "", 10)
		_, _ = r.CountWaiting(ctx, in, "x", 10)
		_, _ = r.CountActiveTurns(ctx, in, 10)
		_, _ = r.EventBytes(ctx, in, "x")
		if in != store.System() { // this is never asked for all tenants
			_, _ = r.TenantBytes(ctx, in)
		}
		_, _ = r.Approval(ctx, in, "x")
		_, _ = r.Approvals(ctx, in, store.ApprovalFilter{SessionID: "x"}, store.Page{})
		_, _ = r.Approvals(ctx, in, store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})
		_, _ = r.Approvals(ctx, in, store.ApprovalFilter{Status: store.ApprovalPending, DelegatedTo: "local"}, store.Page{})
		_, _ = r.Approvals(ctx, in, store.ApprovalFilter{}, store.Page{})
		_, _ = r.OpenApprovals(ctx, in, store.Page{})
		_, _ = r.ApprovalChanges(ctx, in, 7, 10)
		_, _ = r.LastApprovalChange(ctx, in)
		_, _ = r.ApprovalsUnsequenced(ctx, in)
		_, _ = r.Delegation(ctx, in, "x")
		_, _ = r.Delegations(ctx, in, store.Page{})
		_, _ = r.DelegationsOf(ctx, in, "x", "u")
		_, _ = r.ToolCallByKey(ctx, in, "x", "k")
		_, _ = r.ToolCallsByStatus(ctx, in, []store.ToolCallStatus{store.ToolDispatched}, store.KindServer, 10)
		_, _ = r.AbandonedToolCalls(ctx, in, 10)
		_, _ = r.OrphanedToolCalls(ctx, in, 10)
		_, _ = r.AbandonedModelCalls(ctx, in, 10)
		_, _ = r.ToolOf(ctx, in, "local", "x")
		_, _ = r.Tools(ctx, in, store.Page{})
		_, _ = r.Grant(ctx, in, "x")
		_, _ = r.Grants(ctx, in, store.Page{})
		_, _ = r.LiveGrants(ctx, in, "local", "u", "a", "s", time.Now())
		_, _ = r.OutboxDue(ctx, in, time.Now(), 10)
		_, _ = r.Audit(ctx, in, 1, 10)
		_, _ = r.PendingCommands(ctx, in, "x")
		_, _ = r.Proxy(ctx, in, "x")
		_, _ = r.SandboxInstance(ctx, in, "x")
		_, _ = r.SandboxInstancesOf(ctx, in, "x", store.Page{})
		_, _ = r.SessionsWithWork(ctx, in, "r")
		_, _ = r.SessionsWithCommands(ctx, in, "r")
		_, _ = r.AbandonedSessions(ctx, in)
	}
	mine := store.As(store.LocalPrincipal())
	_, _ = r.SessionByExternalID(ctx, mine, "x")
	_, _ = r.Sessions(ctx, mine, store.Page{After: "x"})
	for query, plan := range p.plans {
		for line := range strings.Lines(plan) {
			scan := strings.HasPrefix(line, "SCAN") && !strings.Contains(line, "INDEX") && !strings.HasPrefix(line, "SCAN CONSTANT") && strings.TrimSpace(line) != "SCAN v" // the few stretches of a branch
			if scan || strings.Contains(line, "AUTOMATIC") {
				t.Errorf("%s\n%s", query, plan)
			}
		}
	}
}

// What is seldom there is not looked for among what always is.
func TestSeldomThingsByTheirOwnIndex(t *testing.T) {
	s := openIn(t)
	for want, ask := range map[string]func(*sqldb.Reader) error{
		"events_marks": func(r *sqldb.Reader) error { _, err := r.LastCursor(t.Context(), store.System(), "x"); return err },
		"tool_calls_work": func(r *sqldb.Reader) error {
			_, err := r.ToolCallsByStatus(t.Context(), store.System(), []store.ToolCallStatus{store.ToolDispatched}, store.KindServer, 1)
			return err
		},
		"tool_calls_work ": func(r *sqldb.Reader) error {
			_, err := r.OrphanedToolCalls(t.Context(), store.System(), 1)
			return err
		},
		"model_calls_open": func(r *sqldb.Reader) error {
			_, err := r.AbandonedModelCalls(t.Context(), store.System(), 1)
			return err
		},
		"tool_calls_key": func(r *sqldb.Reader) error {
			_, err := r.ToolCallByKey(t.Context(), store.System(), "x", "k")
			return err
		},
		"approvals_delegated": func(r *sqldb.Reader) error {
			_, err := r.Approvals(t.Context(), store.Within("t"), store.ApprovalFilter{DelegatedTo: "x"}, store.Page{})
			return err
		},
		"grants_live": func(r *sqldb.Reader) error {
			_, err := r.LiveGrants(t.Context(), store.System(), "t", "u", "a", "s", time.Now())
			return err
		},
		"outbox_due": func(r *sqldb.Reader) error {
			_, err := r.OutboxDue(t.Context(), store.System(), time.Now(), 1)
			return err
		},
		"records_session": func(r *sqldb.Reader) error {
			_, err := r.RecordsOfSession(t.Context(), store.System(), "x", 1, 1)
			return err
		},
	} {
		p := planner{T: t, Queryer: s.reads, plans: map[string]string{}}
		r := sqldb.NewReader(p, s.dialect)
		if err := ask(&r); err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		for query, plan := range p.plans {
			if !strings.Contains(plan, strings.TrimSpace(want)) {
				t.Errorf("not by %s: %s\n%s", want, query, plan)
			}
		}
	}
}

// The work of a Session is found beside the index of all its Runs, which only grows.
func TestReservedRunsByWork(t *testing.T) {
	s := openIn(t)
	p := planner{T: t, Queryer: s.reads, plans: map[string]string{}}
	r := sqldb.NewReader(p, s.dialect)
	if _, err := r.ReservedRuns(t.Context(), store.System(), "x"); err != nil {
		t.Fatal(err)
	}
	for query, plan := range p.plans {
		if !strings.Contains(plan, "runs_work") {
			t.Errorf("%s\n%s", query, plan)
		}
	}
}
