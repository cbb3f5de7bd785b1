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
			_, err := r.OrphanedToolCalls(t.Context(), store.System(), "r", 1)
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
		"outbox_lane": func(r *sqldb.Reader) error {
			_, err := r.OutboxDue(t.Context(), store.System(), store.OutboxLane{Kind: "a", Target: "b"}, time.Now(), 1)
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
