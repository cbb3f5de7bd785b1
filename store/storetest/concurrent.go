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
		test func(*storeEnv)
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
		t.Run(p.name, func(t *testing.T) { p.test(newStoreEnv(t, open(t))) })
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
func testSerial(env *storeEnv) {
	const n = 100
	s := env.session(alice())
	env.ok(atOnce(n, func(int) error {
		return env.s.InTx(env.ctx, func(tx store.Tx) error {
			s, err := tx.LockSession(env.ctx, store.As(alice()), s.ID)
			if err != nil {
				return err
			}
			count := 0
			if s.Title != "" {
				if count, err = strconv.Atoi(s.Title); err != nil {
					return err
				}
			}
			return tx.SetSessionTitle(env.ctx, s.ID, strconv.Itoa(count+1))
		})
	}))
	same(env, got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID)).Title, strconv.Itoa(n))
}

// testAppend: many Sessions grow while readers follow them; no reader meets a gap, and
// everything is there in the end.
func testAppend(env *storeEnv) {
	const sessions, rows, per = 8, 50, 3
	ids := make([]string, sessions)
	for i := range ids {
		ids[i] = env.session(alice()).ID
	}
	env.ok(atOnce(2*sessions, func(i int) error {
		id := ids[i/2]
		if i%2 == 1 {
			return followLog(env, id, rows*per)
		}
		for r := range int64(rows) {
			b := store.Batch{Replica: env.replica, Events: []store.EventRow{row(id, (r+1)*per, per)}}
			if r%4 == 0 { // by both ways of writing
				b.Moves = []store.Move{store.SessionMove{ID: id, UpdatedAt: at(r)}}
			}
			if _, err := env.s.Commit(env.ctx, &b); err != nil {
				return err
			}
		}
		return nil
	}))
}

// followLog reads a log from its beginning until it holds the position.
func followLog(env *storeEnv, id string, until int64) error {
	for after := int64(0); after < until; {
		rows, err := env.s.Events(env.ctx, store.As(alice()), id, after, 1000)
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
func testFencedWhileWriting(env *storeEnv) {
	s := env.session(alice())
	old := env.replica
	var written atomic.Int64
	begun, end := make(chan struct{}), make(chan error, 1)
	go func() {
		for seq := int64(1); ; seq++ {
			b := store.Batch{Replica: old, Events: []store.EventRow{row(s.ID, seq, 1)}}
			if seq%2 == 0 {
				b.Moves = []store.Move{store.SessionMove{ID: s.ID, UpdatedAt: at(seq)}}
			}
			if _, err := env.s.Commit(env.ctx, &b); err != nil {
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
	env.ok(env.s.Register(env.ctx, store.Replica{ID: env.id(), Name: "one"}))
	last := got[int64](env)(env.s.LastSeq(env.ctx, store.System(), s.ID))
	env.is(<-end, store.ErrFenced)
	same(env, got[int64](env)(env.s.LastSeq(env.ctx, store.System(), s.ID)), last)
	same(env, written.Load(), last)
}

func testOneClaim(env *storeEnv) {
	const n = 8
	s := env.session(alice())
	replicas := make([]string, n)
	for i := range replicas {
		replicas[i] = env.id()
		env.ok(env.s.Register(env.ctx, store.Replica{ID: replicas[i], Name: replicas[i]}))
	}
	var won atomic.Int64
	env.ok(atOnce(n, func(i int) error {
		return env.s.InTx(env.ctx, func(tx store.Tx) error {
			ok, err := tx.ClaimSession(env.ctx, s.ID, replicas[i])
			if ok {
				won.Add(1)
			}
			return err
		})
	}))
	same(env, won.Load(), 1)
}

func testOneName(env *storeEnv) {
	var won, lost atomic.Int64
	env.ok(atOnce(20, func(int) error {
		err := env.s.InTx(env.ctx, func(tx store.Tx) error {
			return tx.InsertSession(env.ctx, store.Session{ID: env.id(), Tenant: "acme", User: "alice", ExternalID: "same",
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
	same(env, []int64{won.Load(), lost.Load()}, []int64{1, 19})
}

// testOneDecision: a request and the owner's Batch settle one Question at the same
// time, each with the Session's row too, in the order each of them has it.
func testOneDecision(env *storeEnv) {
	s := env.session(alice())
	for range 20 {
		a := env.approval(s.ID, "t", store.ApprovalPending)
		c := env.toolCall(s.ID, "t", store.ToolWaitingApproval)
		var won atomic.Int64
		env.ok(atOnce(4, func(i int) error {
			call := store.ToolCallMove{ID: c.ID, From: store.ToolWaitingApproval, To: store.ToolFailed}
			move := store.ApprovalMove{ID: a.ID, To: store.ApprovalCancelled}
			if i == 0 {
				res, err := env.s.Commit(env.ctx, &store.Batch{Replica: env.replica,
					Moves: []store.Move{call, move, store.SessionMove{ID: s.ID, UpdatedAt: at(1)}}})
				if err == nil && len(res.Lost) == 0 {
					won.Add(1)
				}
				return err
			}
			return env.s.InTx(env.ctx, func(tx store.Tx) error {
				if _, err := tx.LockSession(env.ctx, store.System(), s.ID); err != nil {
					return err
				}
				ok, err := tx.MoveApproval(env.ctx, move)
				if err != nil || !ok {
					return err
				}
				won.Add(1)
				_, err = tx.MoveToolCall(env.ctx, call)
				return err
			})
		}))
		same(env, won.Load(), 1)
	}
}

// testOneNamesake: of replicas of one name that start at once, one is left.
func testOneNamesake(env *storeEnv) {
	env.ok(atOnce(4, func(int) error {
		return env.s.Register(env.ctx, store.Replica{ID: env.id(), Name: "same"})
	}))
	living := 0
	for _, r := range got[[]store.Replica](env)(env.s.ListReplicas(env.ctx)) {
		if r.Name == "same" {
			living++
		}
	}
	same(env, living, 1)
}
