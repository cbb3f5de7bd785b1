package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/storetest"
)

func open(t testing.TB) *postgres.Store {
	t.Helper()
	return openAt(t, storetest.Postgres(t))
}

func openAt(t testing.TB, dsn string) *postgres.Store {
	t.Helper()
	return openWith(t, dsn, postgres.Options{})
}

func openWith(t testing.TB, dsn string, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	if err := s.Register(ctx, store.Replica{ID: "r1", Name: "here"}); err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1_700_000_000_123).UTC()
	err := s.InTx(ctx, func(tx store.Tx) error {
		return tx.InsertSession(ctx, store.Session{ID: "s1", Tenant: "t", User: "u", ExternalID: "x", AgentID: "a",
			CreatedAt: now, UpdatedAt: now})
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &store.Batch{Replica: "r1", Events: []store.EventRow{{SessionID: "s1", LastSeq: 2, N: 2, TS: now, Data: []byte("{}\n{}")}}}
	if _, err := s.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, b); !errors.Is(err, store.ErrConflict) {
		t.Fatal(err)
	}
	got, err := s.Events(ctx, store.System(), "s1", 0, 1000)
	if err != nil || len(got) != 1 || string(got[0].Data) != "{}\n{}" {
		t.Fatal(got, err)
	}
}

// TestContract runs the contract's suite, and then judges every statement that it sent: none touches more than a few
// blocks, however many rows there are.
func TestContract(t *testing.T) {
	var sent storetest.Sent
	whole := t.Run("Suite", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store {
			return openWith(t, storetest.Postgres(t), postgres.Options{Tracer: &sent})
		})
	})
	walks, err := sent.WalksPostgres(t.Context(), whole, func(dsn string) error { return postgres.Notice(t.Context(), dsn) })
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range walks {
		t.Error(w)
	}
}

func TestConcurrent(t *testing.T) {
	storetest.RunConcurrent(t, func(t *testing.T) store.Store { return open(t) })
}

// TestLongQueue has 20 000 tasks; it was run with 200 000, which take half a minute to insert.
func TestLongQueue(t *testing.T) { storetest.RunLongQueue(t, open(t), 1) }
