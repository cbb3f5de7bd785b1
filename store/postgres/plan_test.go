package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"aqueduct/store"
	"aqueduct/store/sqldb"
	"aqueduct/store/storetest"
)

const (
	// planThreads are all of one user, which no statistics of other users help to find.
	planThreads = 100_000
	// mostBlocks is how much of the tables a hot statement may touch: a few rows through an
	// index. Reading all threads' entries of any index takes more than a hundred times that.
	mostBlocks = 60
)

// hotStatements records what the store's own code sends.
type hotStatements struct {
	db    sqldb.Queryer
	names []string
	sql   map[string]string
	args  map[string][]any
	now   string // what is being called
}

func (h *hotStatements) note(query string, args []any) {
	for name, known := range h.sql {
		if known == query && strings.TrimRight(name, "'") == h.now {
			return
		}
	}
	name := h.now
	for h.sql[name] != "" {
		name += "'"
	}
	h.names, h.sql[name], h.args[name] = append(h.names, name), query, args
}

// ExecContext implements sqldb.Queryer.
func (h *hotStatements) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	h.note(query, args)
	return h.db.ExecContext(ctx, query, args...)
}

// QueryContext implements sqldb.Queryer.
func (h *hotStatements) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	h.note(query, args)
	return h.db.QueryContext(ctx, query, args...)
}

// record calls everything that requests and owners call while a thread is used, for the rows
// of one thread in the middle.
func (h *hotStatements) record(t *testing.T, s *Store) {
	ctx, n := t.Context(), planThreads/2
	session, external, turn := planID("s", n), fmt.Sprint("thread-", n), planID("r", n)
	mine, all := store.As(store.LocalPrincipal()), store.System()
	few, line := store.Page{Limit: 10}, store.TaskLine{AgentID: "demo", Tenant: "local", User: "local"}
	for name, in := range map[string]store.Scope{"": all, " of the user": mine, " of the tenant": store.Within("local")} {
		r := sqldb.NewReader(h, s.dialect)
		for call, do := range map[string]func() error{
			"Session":             func() error { _, err := r.Session(ctx, in, session); return err },
			"SessionByExternalID": func() error { _, err := r.SessionByExternalID(ctx, in, external); return err },
			"Sessions":            func() error { _, err := r.Sessions(ctx, in, few); return err },
			"Sessions after":      func() error { _, err := r.Sessions(ctx, in, store.Page{Limit: 10, After: session}); return err },
			"Sessions before":     func() error { _, err := r.Sessions(ctx, in, store.Page{Limit: 10, Before: session}); return err },
			"Agenda":              func() error { _, err := r.Agenda(ctx, in, session); return err },
			"Turn":                func() error { _, err := r.Turn(ctx, in, turn); return err },
			"ActiveTurn":          func() error { _, err := r.ActiveTurn(ctx, in, session); return err },
			"Run":                 func() error { _, err := r.Run(ctx, in, turn); return err },
			"RunByExternalID":     func() error { _, err := r.RunByExternalID(ctx, in, session, "run-"+turn); return err },
			"FindRun":             func() error { _, err := r.FindRun(ctx, in, "run-"+turn); return err },
			"LastRun":             func() error { _, err := r.LastRun(ctx, in, session); return err },
			"ReservedRuns":        func() error { _, err := r.ReservedRuns(ctx, in, session); return err },
			"RunsOfTurn":          func() error { _, err := r.RunsOfTurn(ctx, in, turn); return err },
			"Events":              func() error { _, err := r.Events(ctx, in, session, 0, 1<<18); return err },
			"LastSeq":             func() error { _, err := r.LastSeq(ctx, in, session); return err },
			"LastCursor":          func() error { _, err := r.LastCursor(ctx, in, session); return err },
			"RecordsOfTurn":       func() error { _, err := r.RecordsOfTurn(ctx, in, turn, few); return err },
			"Messages":            func() error { _, err := r.Messages(ctx, in, session, few); return err },
			"Messages before":     func() error { _, err := r.Messages(ctx, in, session, store.Page{Limit: 10, Before: "z"}); return err },
			"KnownMessageIDs":     func() error { _, err := r.KnownMessageIDs(ctx, in, session, []string{"m1", "m2"}); return err },
			"MessagePlace":        func() error { _, err := r.MessagePlace(ctx, in, session, "m1"); return err },
			"TurnBefore":          func() error { _, err := r.TurnBefore(ctx, in, turn); return err },
			"ToolCall":            func() error { _, err := r.ToolCall(ctx, in, planID("c", n)); return err },
			"OpenToolCalls":       func() error { _, err := r.OpenToolCalls(ctx, in, session); return err },
			"ExpiringToolCalls":   func() error { _, err := r.ExpiringToolCalls(ctx, in, 10); return err },
			"CountWaiting":        func() error { _, err := r.CountWaiting(ctx, in, "", 10); return err },
			"CountActiveTurns":    func() error { _, err := r.CountActiveTurns(ctx, in, 10); return err },
			"EventBytes":          func() error { _, err := r.EventBytes(ctx, in, session); return err },
			"ToolCallsOfTurn":     func() error { _, err := r.ToolCallsOfTurn(ctx, in, turn); return err },
			"CountToolCalls":      func() error { _, _, err := r.CountToolCalls(ctx, in, turn); return err },
			"ToolCallByKey":       func() error { _, err := r.ToolCallByKey(ctx, in, turn, "k"); return err },
			"ToolCallsByStatus": func() error {
				_, err := r.ToolCallsByStatus(ctx, in, []store.ToolCallStatus{store.ToolDispatched}, store.KindServer, 10)
				return err
			},
			"AbandonedToolCalls":  func() error { _, err := r.AbandonedToolCalls(ctx, in, 10); return err },
			"AbandonedModelCalls": func() error { _, err := r.AbandonedModelCalls(ctx, in, 10); return err },
			"OrphanedToolCalls":   func() error { _, err := r.OrphanedToolCalls(ctx, in, "r", 10); return err },
			"Approval":            func() error { _, err := r.Approval(ctx, in, planID("c", n)); return err },
			"Approvals of a thread": func() error {
				_, err := r.Approvals(ctx, in, store.ApprovalFilter{SessionID: session}, few)
				return err
			},
			"Approvals that wait": func() error {
				_, err := r.Approvals(ctx, in, store.ApprovalFilter{Status: store.ApprovalPending}, few)
				return err
			},
			"LiveGrants": func() error {
				_, err := r.LiveGrants(ctx, in, "local", "local", "demo", session, time.Now())
				return err
			},
			"OutboxDue": func() error {
				_, err := r.OutboxDue(ctx, in, store.OutboxLane{Kind: "question", Target: "ops"}, time.Now(), 10)
				return err
			},
			"PendingCommands":      func() error { _, err := r.PendingCommands(ctx, in, session); return err },
			"SandboxInstance":      func() error { _, err := r.SandboxInstance(ctx, in, session); return err },
			"SessionsWithWork":     func() error { _, err := r.SessionsWithWork(ctx, in, "living"); return err },
			"AbandonedSessions":    func() error { _, err := r.AbandonedSessions(ctx, in); return err },
			"TaskLines":            func() error { _, err := r.TaskLines(ctx, in, store.TaskLine{}, 1000); return err },
			"NextTasks":            func() error { _, err := r.NextTasks(ctx, in, line, 2); return err },
			"TakenTasks":           func() error { _, err := r.TakenTasks(ctx, in); return err },
			"ListReplicas":         func() error { _, err := r.ListReplicas(ctx); return err },
			"Beat":                 func() error { return r.Beat(ctx, "living") },
			"SessionsWithCommands": func() error { _, err := r.SessionsWithCommands(ctx, in, "living"); return err },
		} {
			if strings.HasPrefix(call, "Sessions") && !strings.HasPrefix(call, "SessionsWith") && name != " of the user" {
				continue // of all users: an operator's listing
			}
			h.now = call + name
			if err := do(); err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrFenced) {
				t.Fatalf("%s: %v", h.now, err)
			}
		}
	}
	now := time.Now()
	for call, do := range map[string]func(tx *sqldb.Tx) error{
		"LockSession": func(tx *sqldb.Tx) error { _, err := tx.LockSession(ctx, mine, session); return err },
		"InsertSession": func(tx *sqldb.Tx) error {
			return tx.InsertSession(ctx, store.Session{ID: "new", Tenant: "local", User: "local", ExternalID: "new", AgentID: "demo", CreatedAt: now, UpdatedAt: now})
		},
		"ClaimSession": func(tx *sqldb.Tx) error { _, err := tx.ClaimSession(ctx, session, "living"); return err },
		"InsertTurn": func(tx *sqldb.Tx) error {
			return tx.InsertTurn(ctx, store.Turn{ID: "new", SessionID: session, AgentID: "demo", Status: store.TurnQueued, CreatedAt: now})
		},
		"InsertRun": func(tx *sqldb.Tx) error {
			return tx.InsertRun(ctx, store.Run{ID: "new", SessionID: session, TurnID: "new", ExternalID: "new", Status: store.RunReserved, CreatedAt: now})
		},
		"InsertMessage": func(tx *sqldb.Tx) error {
			return tx.InsertMessage(ctx, store.Message{ID: "new", SessionID: session, RunID: turn, ExternalID: "new", Role: "user", Data: []byte("{}"), CreatedAt: now})
		},
		"SetRunTail": func(tx *sqldb.Tx) error { return tx.SetRunTail(ctx, turn, "living", true) },
		"MoveToolCall": func(tx *sqldb.Tx) error {
			_, err := tx.MoveToolCall(ctx, store.ToolCallMove{ID: planID("c", n), From: store.ToolRunning, To: store.ToolSucceeded})
			return err
		},
		"MoveApproval": func(tx *sqldb.Tx) error {
			_, err := tx.MoveApproval(ctx, store.ApprovalMove{ID: planID("c", n), To: store.ApprovalApproved})
			return err
		},
	} {
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		base := h.db
		h.db, h.now = tx, call
		if err := do(sqldb.NewTx(h, s.dialect)); err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrFenced) {
			t.Fatalf("%s: %v", call, err)
		}
		h.db = base
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	h.commits(n)
	slices.Sort(h.names)
}

// commits adds what the committer sends for a Batch of one Session.
func (h *hotStatements) commits(n int) {
	turn := planID("r", n)
	moves, err := sqldb.Group([]store.Move{
		store.RunMove{ID: turn, From: store.RunRunning, To: store.RunFinished, LastSeq: 9, EndedAt: time.Now()},
		store.TurnMove{ID: turn, From: []store.TurnStatus{store.TurnRunning}, To: store.TurnDone, EndedAt: time.Now()},
		store.SessionMove{ID: planID("s", n), UpdatedAt: time.Now()},
	})
	if err != nil {
		panic(err)
	}
	for _, m := range moves {
		h.now = "Commit, moves"
		h.note(m.SQL, m.Args)
	}
	h.now = "Commit, events"
	c := newCommitter(nil, false)
	h.note(fencedInsertEvents, append(c.eventArgs([]store.EventRow{{SessionID: planID("s", n), LastSeq: 9, N: 1, TS: time.Now(), Data: []byte("{}")}}), "living"))
}

func planID(kind string, n int) string { return fmt.Sprintf("%s%09d", kind, n) }

// fillPlans makes the threads: each with a Turn that is done, its Run, two messages, its log,
// and for every tenth a tool call that was approved.
const fillPlans = `
INSERT INTO replicas (id, name, fenced) VALUES ('living', 'living', FALSE), ('dead', 'dead', TRUE);
INSERT INTO sessions (session_id, tenant, user_id, external_id, agent_id, title, owner, created_at, updated_at)
	SELECT 's' || lpad(i::text, 9, '0'), 'local', 'local', 'thread-' || i, 'demo', 'about ' || i, CASE WHEN i % 2 = 0 THEN 'living' ELSE 'dead' END, i, i FROM generate_series(1, N) i;
INSERT INTO turns (turn_id, session_id, root_agent_id, status, created_at)
	SELECT 'r' || lpad(i::text, 9, '0'), 's' || lpad(i::text, 9, '0'), 'demo', 'DONE', i FROM generate_series(1, N) i;
INSERT INTO runs (run_id, session_id, turn_id, external_id, status, first_seq, last_seq, created_at)
	SELECT 'r' || lpad(i::text, 9, '0'), 's' || lpad(i::text, 9, '0'), 'r' || lpad(i::text, 9, '0'), 'run-r' || lpad(i::text, 9, '0'), 'FINISHED', 1, 8, i FROM generate_series(1, N) i;
INSERT INTO messages (message_id, session_id, run_id, external_id, role, output, data, created_at)
	SELECT 'm' || k || lpad(i::text, 9, '0'), 's' || lpad(i::text, 9, '0'), 'r' || lpad(i::text, 9, '0'), 'm' || k, 'user', k = 2, '{}', i FROM generate_series(1, N) i, generate_series(1, 2) k;
INSERT INTO events (session_id, last_seq, n, ts, data) SELECT 's' || lpad(i::text, 9, '0'), 8, 8, i, '{}' FROM generate_series(1, N) i;
INSERT INTO records (id, session_id, turn_id, source, type, ts) SELECT 'x' || lpad(i::text, 9, '0'), 's' || lpad(i::text, 9, '0'), 'r' || lpad(i::text, 9, '0'), 'platform', 'x', i FROM generate_series(1, N) i;
INSERT INTO tool_calls (tool_call_id, session_id, turn_id, tool_name, kind, status, created_at, expires_at)
	SELECT 'c' || lpad(i::text, 9, '0'), 's' || lpad(i::text, 9, '0'), 'r' || lpad(i::text, 9, '0'), 'shell', 'server_tool', 'SUCCEEDED', i, i FROM generate_series(1, N, 10) i;
INSERT INTO approvals (approval_id, session_id, turn_id, kind, status, asked_user, created_at, expires_at)
	SELECT 'c' || lpad(i::text, 9, '0'), 's' || lpad(i::text, 9, '0'), 'r' || lpad(i::text, 9, '0'), 'permission', 'APPROVED', 'local', i, i FROM generate_series(1, N, 10) i;
INSERT INTO tasks (task_id, tenant, user_id, request_id, thread_id, agent_id, priority, status, body, body_hash, created_at)
	SELECT 'q' || lpad(i::text, 9, '0'), 'local', 'local', 'request-' || i, 'thread-' || i, 'demo', i % 3, 'WAITING', '', '', i FROM generate_series(1, N) i;
INSERT INTO commands (command_id, session_id, kind, created_at, done_at) SELECT 'k' || lpad(i::text, 9, '0'), 's' || lpad(i::text, 9, '0'), 'cancel', i, i FROM generate_series(1, N, 10) i;
`

// TestHotPlans: with all threads of the world belonging to one user, what is sent for each
// request touches a few blocks: where its plan was made while the tables were full and
// not analyzed, where it was made while they were empty and the store has noticed since, and
// after ANALYZE.
func TestHotPlans(t *testing.T) {
	dsn := storetest.Postgres(t)
	s, err := Open(t.Context(), dsn, Options{noStatistics: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	h := &hotStatements{db: s.db, sql: make(map[string]string), args: make(map[string][]any)}
	h.record(t, s)
	early, fresh := planner(t, dsn), planner(t, dsn)
	early.exec("DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP " +
		"EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = false)', t); END LOOP; END $$")
	early.prepare(h)
	early.check("on empty tables", h, mostBlocks)
	begun := time.Now()
	early.exec(strings.ReplaceAll(fillPlans, "(1, N", fmt.Sprint("(1, ", planThreads)))
	t.Logf("%d threads of one user made in %v, %d statements", planThreads, time.Since(begun).Round(time.Millisecond), len(h.names))
	fresh.prepare(h)
	fresh.check("planned when full, not analyzed", h, mostBlocks)
	if err := s.analyzeGrown(t.Context()); err != nil {
		t.Fatal(err)
	}
	early.check("planned when empty, once the store has noticed the growth", h, mostBlocks)
	fresh.check("the same, planned when full", h, mostBlocks)
	if again, err := namesOf(t.Context(), s.db); err != nil || len(again) != 0 {
		t.Errorf("to be analyzed again: %v, %v", again, err)
	}
	early.exec("ANALYZE")
	fresh.check("analyzed", h, mostBlocks)
}

// planning is a connection that is set as those of the store are, with every statement
// prepared once.
type planning struct {
	*testing.T
	conn *pgx.Conn
}

func planner(t *testing.T, dsn string) *planning {
	cfg, err := config(dsn)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &planning{t, conn}
}

func (p *planning) exec(sql string) {
	p.Helper()
	if _, err := p.conn.Exec(p.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		p.Fatal(err)
	}
}

func (p *planning) prepare(h *hotStatements) {
	for i, name := range h.names {
		p.exec(fmt.Sprintf("PREPARE hot%d AS %s", i, h.sql[name]))
	}
}

// check runs every statement and undoes it.
func (p *planning) check(when string, h *hotStatements, most int) {
	p.Helper()
	worst, at := 0, ""
	for i, name := range h.names {
		p.exec("BEGIN")
		var plan string
		run := fmt.Sprintf("EXECUTE hot%d", i)
		if args := h.args[name]; len(args) > 0 {
			run += "(" + literals(args) + ")"
		}
		err := p.conn.QueryRow(p.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+run, pgx.QueryExecModeSimpleProtocol).Scan(&plan)
		if err != nil {
			p.Fatalf("%s: %v\n%s", name, err, run)
		}
		p.exec("ROLLBACK")
		var said []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := json.Unmarshal([]byte(plan), &said); err != nil {
			p.Fatal(err)
		}
		blocks := said[0].Plan.Hit + said[0].Plan.Read
		if blocks > worst {
			worst, at = blocks, name
		}
		if blocks > most {
			p.Errorf("%s, %s: %d blocks\n%s\n%s", name, when, blocks, h.sql[name], plan)
		}
	}
	p.Logf("%s: at most %d blocks (%s)", when, worst, at)
}

// literals are arguments as SQL writes them; their types are the statement's to know.
func literals(args []any) string {
	var all []string
	for _, a := range args {
		switch v := a.(type) {
		case nil:
			all = append(all, "NULL")
		case []byte:
			all = append(all, fmt.Sprintf(`'\x%x'`, v))
		case []string:
			all = append(all, quoted("{"+strings.Join(quotedEach(v), ",")+"}"))
		case []int32, []int64, []bool:
			all = append(all, quoted("{"+strings.Join(strings.Fields(strings.Trim(fmt.Sprint(v), "[]")), ",")+"}"))
		case []*string:
			all = append(all, "'{NULL}'")
		case [][]byte:
			all = append(all, "'{NULL}'")
		default:
			all = append(all, quoted(fmt.Sprint(v)))
		}
	}
	return strings.Join(all, ", ")
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func quotedEach(all []string) (out []string) {
	for _, s := range all {
		out = append(out, `"`+s+`"`)
	}
	return out
}
