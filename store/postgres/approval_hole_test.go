package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"aqueduct/store"
)

// TestApprovalHole: a change whose transaction began first and commits last is not missed by
// who reads on from the position of one that was committed before it, and the one who gives
// positions does not wait for the transaction.
func TestApprovalHole(t *testing.T) {
	s, ctx := open(t), context.Background()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	insert := func(tx store.Tx, id string) error {
		return tx.InsertApproval(ctx, store.Approval{ID: id, SessionID: "s", TurnID: "t", Kind: store.ApprovalPermission,
			Status: store.ApprovalPending, CreatedAt: time.UnixMilli(1)})
	}
	ok(s.InTx(ctx, func(tx store.Tx) error {
		now := time.UnixMilli(1)
		return errors.Join(insert(tx, "known"), tx.InsertSession(ctx, store.Session{ID: "s", Tenant: "t", User: "u", ExternalID: "x", AgentID: "a",
			CreatedAt: now, UpdatedAt: now}))
	}))
	var last int64
	reads := func(want ...string) {
		t.Helper()
		ok(s.InTx(ctx, func(tx store.Tx) error { _, err := tx.SequenceApprovals(ctx, 100); return err }))
		changes, err := s.ApprovalChanges(ctx, store.Within("t"), last, 100)
		ok(err)
		var got []string
		for _, c := range changes {
			last = c.Seq
			name := c.Approval.ID
			if c.Settled {
				name += " settled"
			}
			got = append(got, name)
		}
		if len(got) != len(want) {
			t.Fatalf("read %v, want %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("read %v, want %v", got, want)
			}
		}
	}
	reads("known")
	written, commit, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.InTx(ctx, func(tx store.Tx) error {
			_, err := tx.MoveApproval(ctx, store.ApprovalMove{ID: "known", To: store.ApprovalApproved, DecidedAt: time.UnixMilli(2)})
			if err = errors.Join(err, insert(tx, "first")); err == nil {
				_, err = tx.Approval(ctx, store.System(), "first") // it is written by now
			}
			close(written)
			<-commit
			return err
		})
	}()
	<-written
	ok(s.InTx(ctx, func(tx store.Tx) error { return insert(tx, "second") }))
	reads("second") // and does not wait for the row that the other transaction holds
	close(commit)
	ok(<-done)
	reads("first", "known settled")
	reads()
}
