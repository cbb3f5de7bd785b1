package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/storetest"
)

// TestPooledContract: the whole contract holds behind PgBouncer in transaction mode.
func TestPooledContract(t *testing.T) {
	pooler := storetest.Pooler(t)
	storetest.Run(t, func(t *testing.T) store.Store { return openAt(t, pooler.Through(storetest.Postgres(t))) })
}

// TestPooledConcurrent: so it does with many clients on few connections, at a pooler that
// drops our parameters instead of refusing them.
func TestPooledConcurrent(t *testing.T) {
	pooler := storetest.Pooler(t, "enable_seqscan", "jit", "enable_hashjoin", "enable_mergejoin", "plan_cache_mode",
		"default_transaction_isolation", "idle_in_transaction_session_timeout", "statement_timeout", "lock_timeout")
	storetest.RunConcurrent(t, func(t *testing.T) store.Store { return openAt(t, pooler.Through(storetest.Postgres(t))) })
}

// TestPooledIsolation: a database whose default would break the fence is refused at the start,
// in a sentence that names the setting.
func TestPooledIsolation(t *testing.T) {
	pooler, dsn := storetest.Pooler(t), storetest.Postgres(t)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = ''repeatable read''', current_database()); END $$")
	if err != nil {
		t.Fatal(err)
	}
	_, err = postgres.Open(t.Context(), pooler.Through(dsn), postgres.Options{})
	if err == nil || !strings.Contains(err.Error(), "set it with ALTER DATABASE") {
		t.Errorf("error %v", err)
	}
	openAt(t, dsn) // without a pooler we set it ourselves
}

// TestPooledFence: a replica that froze in the middle of a Batch is fenced through the pooler,
// and its backend ended; a pooled connection that another client uses next lives on.
func TestPooledFence(t *testing.T) {
	dsn := storetest.Pooler(t).Through(storetest.Postgres(t))
	s, ctx := openAt(t, dsn), context.Background()
	for _, r := range []store.Replica{{ID: "r1", Name: "one"}, {ID: "r2", Name: "two"}} {
		if err := s.Register(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("pgx", dsn+"&default_query_exec_mode=exec&application_name=aqueduct%20commit%20r1")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	frozen, err := db.BeginTx(ctx, nil)
	if err == nil {
		_, err = frozen.ExecContext(ctx, "SELECT aqueduct_fence('r1', 1)")
	}
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := s.Fence(ctx, "r1"); err != nil {
		t.Fatal(err)
	}
	t.Logf("fenced after %v", time.Since(begun).Round(time.Millisecond))
	if err := frozen.Commit(); err == nil {
		t.Error("what it had begun is kept")
	}
	if _, err := s.Commit(ctx, &store.Batch{Replica: "r1"}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("error %v", err)
	}
	if _, err := s.Commit(ctx, &store.Batch{Replica: "r2"}); err != nil {
		t.Error(err)
	}
}
