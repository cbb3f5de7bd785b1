package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"aqueduct/store"
)

// RunConcurrent tries what must hold when many do it at once.
func RunConcurrent(t *testing.T, open func(t *testing.T) store.Store) {
	parts := []struct {
		name string
		test func(*world)
	}{
		{"SerialPerSession", testSerial},
		{"Append", testAppend},
		{"FencedWhileWriting", testFencedWhileWriting},
		{"OneClaimWins", testOneClaim},
		{"OneNameWins", testOneName},
		{"OneDecisionWins", testOneDecision},
		{"OneNamesakeLives", testOneNamesake},
		{"GrantUsesAtOnce", testGrantUsesAtOnce},
		{"OneClaimsOutbox", testOneClaimsOutbox},
		{"OneUsesLink", testOneUsesLink},
		{"AuditAtOnce", testAuditAtOnce},
		{"OneKeyWins", testOneKey},
		{"ApprovalChangesAtOnce", testApprovalChangesAtOnce},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) { p.test(newWorld(t, open(t))) })
	}
}

// atOnce runs n of fn together and gathers their errors.
func atOnce(n int, fn func(i int) error) error {
	var all sync.WaitGroup
	start := make(chan struct{})
	errs := make([]error, n)
	for i := range n {
		all.Go(func() { <-start; errs[i] = fn(i) })
	}
	close(start)
	all.Wait()
	return errors.Join(errs...)
}

// testSerial: a hundred requests each add one to what they read.
func testSerial(w *world) {
	const n = 100
	s := w.session(alice())
	w.ok(atOnce(n, func(int) error {
		return w.s.InTx(w.ctx, func(tx store.Tx) error {
			s, err := tx.LockSession(w.ctx, store.As(alice()), s.ID)
			if err != nil {
				return err
			}
			count := 0
			if s.Title != "" {
				if count, err = strconv.Atoi(s.Title); err != nil {
					return err
				}
			}
			return tx.SetSessionTitle(w.ctx, s.ID, strconv.Itoa(count+1))
		})
	}))
	same(w, got[store.Session](w)(w.s.Session(w.ctx, store.System(), s.ID)).Title, strconv.Itoa(n))
}

// testAppend: many Sessions grow while readers follow them; nobody meets a gap, and
// everything is there in the end.
func testAppend(w *world) {
	const sessions, rows, per = 8, 50, 3
	ids := make([]string, sessions)
	for i := range ids {
		ids[i] = w.session(alice()).ID
	}
	w.ok(atOnce(2*sessions, func(i int) error {
		id := ids[i/2]
		if i%2 == 1 {
			return w.follow(id, rows*per)
		}
		for r := range int64(rows) {
			b := store.Batch{Replica: w.replica, Events: []store.EventRow{row(id, (r+1)*per, per)}}
			if r%4 == 0 { // by both ways of writing
				b.Moves = []store.Move{store.SessionMove{ID: id, UpdatedAt: at(r)}}
			}
			if _, err := w.s.Commit(w.ctx, &b); err != nil {
				return err
			}
		}
		return nil
	}))
}

// follow reads a log from its beginning until it holds the position.
func (w *world) follow(id string, until int64) error {
	for after := int64(0); after < until; {
		rows, err := w.s.Events(w.ctx, store.As(alice()), id, after, 1000)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.FirstSeq() != after+1 || string(r.Data) != string(row(id, r.LastSeq, r.N).Data) {
				return fmt.Errorf("after %d comes %d: %s", after, r.FirstSeq(), r.Data)
			}
			after = r.LastSeq
		}
	}
	return nil
}

// testFencedWhileWriting: when Register returns, nothing of the predecessor lands any
// more, however busy it was.
func testFencedWhileWriting(w *world) {
	s := w.session(alice())
	old := w.replica
	var written atomic.Int64
	begun, end := make(chan struct{}), make(chan error, 1)
	go func() {
		for seq := int64(1); ; seq++ {
			b := store.Batch{Replica: old, Events: []store.EventRow{row(s.ID, seq, 1)}}
			if seq%2 == 0 {
				b.Moves = []store.Move{store.SessionMove{ID: s.ID, UpdatedAt: at(seq)}}
			}
			if _, err := w.s.Commit(w.ctx, &b); err != nil {
				end <- err
				return
			}
			written.Store(seq)
			if seq == 10 {
				close(begun)
			}
		}
	}()
	<-begun
	w.ok(w.s.Register(w.ctx, store.Replica{ID: w.id(), Name: "one"}))
	last := got[int64](w)(w.s.LastSeq(w.ctx, store.System(), s.ID))
	w.is(<-end, store.ErrFenced)
	same(w, got[int64](w)(w.s.LastSeq(w.ctx, store.System(), s.ID)), last)
	same(w, written.Load(), last)
}

func testOneClaim(w *world) {
	const n = 8
	s := w.session(alice())
	replicas := make([]string, n)
	for i := range replicas {
		replicas[i] = w.id()
		w.ok(w.s.Register(w.ctx, store.Replica{ID: replicas[i], Name: replicas[i]}))
	}
	var won atomic.Int64
	w.ok(atOnce(n, func(i int) error {
		return w.s.InTx(w.ctx, func(tx store.Tx) error {
			ok, err := tx.ClaimSession(w.ctx, s.ID, replicas[i])
			if ok {
				won.Add(1)
			}
			return err
		})
	}))
	same(w, won.Load(), 1)
}

func testOneName(w *world) {
	var won, lost atomic.Int64
	w.ok(atOnce(20, func(int) error {
		err := w.s.InTx(w.ctx, func(tx store.Tx) error {
			return tx.InsertSession(w.ctx, store.Session{ID: w.id(), Tenant: "acme", User: "alice", ExternalID: "same",
				AgentID: "demo", CreatedAt: at(1), UpdatedAt: at(1)})
		})
		switch {
		case err == nil:
			won.Add(1)
		case errors.Is(err, store.ErrConflict):
			lost.Add(1)
		default:
			return err
		}
		return nil
	}))
	same(w, []int64{won.Load(), lost.Load()}, []int64{1, 19})
}

// testOneDecision: a request and the owner's Batch settle one Question at the same
// time, each with the Session's row too, in the order each of them has it.
func testOneDecision(w *world) {
	s := w.session(alice())
	for range 20 {
		a := w.approval(s.ID, "t", store.ApprovalPending)
		c := w.toolCall(s.ID, "t", store.ToolWaitingApproval)
		var won atomic.Int64
		w.ok(atOnce(4, func(i int) error {
			call := store.ToolCallMove{ID: c.ID, From: store.ToolWaitingApproval, To: store.ToolFailed}
			move := store.ApprovalMove{ID: a.ID, To: store.ApprovalCancelled}
			if i == 0 {
				res, err := w.s.Commit(w.ctx, &store.Batch{Replica: w.replica,
					Moves: []store.Move{call, move, store.SessionMove{ID: s.ID, UpdatedAt: at(1)}}})
				if err == nil && len(res.Lost) == 0 {
					won.Add(1)
				}
				return err
			}
			return w.s.InTx(w.ctx, func(tx store.Tx) error {
				if _, err := tx.LockSession(w.ctx, store.System(), s.ID); err != nil {
					return err
				}
				ok, err := tx.MoveApproval(w.ctx, move)
				if err != nil || !ok {
					return err
				}
				won.Add(1)
				_, err = tx.MoveToolCall(w.ctx, call)
				return err
			})
		}))
		same(w, won.Load(), 1)
	}
}

// testOneNamesake: of replicas of one name that start at once, one is left.
func testOneNamesake(w *world) {
	w.ok(atOnce(4, func(int) error {
		return w.s.Register(w.ctx, store.Replica{ID: w.id(), Name: "same"})
	}))
	living := 0
	for _, r := range got[[]store.Replica](w)(w.s.ListReplicas(w.ctx)) {
		if r.Name == "same" {
			living++
		}
	}
	same(w, living, 1)
}
