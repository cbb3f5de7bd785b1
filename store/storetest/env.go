package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/store"
)

// storeEnv is a store with one registered replica and three callers: two users of one
// tenant and one of another.
type storeEnv struct {
	*testing.T
	ctx     context.Context
	s       store.Store
	replica string
	ids     atomic.Int64
	seq     atomic.Int64 // where the newest Run began
}

var errNo = errors.New("no") // what a test's own function fails with

func alice() store.Principal { return store.Principal{Tenant: "acme", User: "alice"} }
func bob() store.Principal   { return store.Principal{Tenant: "acme", User: "bob"} }
func carol() store.Principal { return store.Principal{Tenant: "other", User: "alice"} }

func newStoreEnv(t *testing.T, s store.Store) *storeEnv {
	env := &storeEnv{T: t, ctx: context.Background(), s: s}
	env.replica = env.id()
	env.ok(s.Register(env.ctx, store.Replica{ID: env.replica, Name: "one"}))
	return env
}

// id is unique and in order, shaped as a UUIDv7.
func (env *storeEnv) id() string {
	return fmt.Sprintf("01890000-0000-7000-8000-%012x", env.ids.Add(1))
}

// at is a time as the store keeps it: whole milliseconds, UTC.
func at(ms int64) time.Time { return time.UnixMilli(1_700_000_000_000 + ms).UTC() }

func (env *storeEnv) ok(err error) {
	env.Helper()
	if err != nil {
		env.Fatal(err)
	}
}

func (env *storeEnv) is(got, want error) {
	env.Helper()
	if !errors.Is(got, want) {
		env.Fatalf("error %v, want %v", got, want)
	}
}

// same compares whole values.
func same[T any](env *storeEnv, got, want T) {
	env.Helper()
	if !reflect.DeepEqual(got, want) {
		env.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

// got unwraps a read that must succeed.
func got[T any](env *storeEnv) func(T, error) T {
	return func(v T, err error) T {
		env.Helper()
		env.ok(err)
		return v
	}
}

func (env *storeEnv) tx(fn func(store.Tx) error) {
	env.Helper()
	env.ok(env.s.InTx(env.ctx, fn))
}

// commit writes what must be accepted and returns which moves were lost.
func (env *storeEnv) commit(b store.Batch) []int {
	env.Helper()
	b.Replica = env.replica
	res, err := env.s.Commit(env.ctx, &b)
	env.ok(err)
	return res.Lost
}

func (env *storeEnv) move(moves ...store.Move) []int {
	env.Helper()
	return env.commit(store.Batch{Moves: moves})
}

func (env *storeEnv) refuse(want error, b store.Batch) {
	env.Helper()
	b.Replica = env.replica
	_, err := env.s.Commit(env.ctx, &b)
	env.is(err, want)
}

// session inserts a Session of the Principal.
func (env *storeEnv) session(p store.Principal) store.Session {
	env.Helper()
	id := env.id()
	s := store.Session{ID: id, Tenant: p.Tenant, User: p.User, ExternalID: "thread-" + id, AgentID: "demo",
		CreatedAt: at(1), UpdatedAt: at(1)}
	env.tx(func(tx store.Tx) error { return tx.InsertSession(env.ctx, s) })
	return s
}

func (env *storeEnv) turn(sessionID string, status store.TurnStatus) store.Turn {
	env.Helper()
	turn := store.Turn{ID: env.id(), SessionID: sessionID, AgentID: "demo", Status: status, CreatedAt: at(2)}
	env.tx(func(tx store.Tx) error { return tx.InsertTurn(env.ctx, turn) })
	return turn
}

func (env *storeEnv) run(sessionID, turnID string, status store.RunStatus) store.Run {
	env.Helper()
	id := env.id()
	r := store.Run{ID: id, SessionID: sessionID, TurnID: turnID, ExternalID: "run-" + id, Status: status, CreatedAt: at(3)}
	if status != store.RunReserved {
		r.FirstSeq = env.seq.Add(1)
	}
	env.tx(func(tx store.Tx) error { return tx.InsertRun(env.ctx, r) })
	return r
}

func (env *storeEnv) toolCall(sessionID, turnID string, status store.ToolCallStatus) store.ToolCall {
	env.Helper()
	c := store.ToolCall{ID: env.id(), SessionID: sessionID, TurnID: turnID, Name: "buy", Kind: store.KindQuestion,
		Status: status, CreatedAt: at(4)}
	env.move(store.InsertToolCall{ToolCall: c})
	return c
}

func (env *storeEnv) approval(sessionID, turnID string, status store.ApprovalStatus) store.Approval {
	env.Helper()
	a := store.Approval{ID: env.id(), SessionID: sessionID, TurnID: turnID, Kind: store.ApprovalPermission,
		Status: status, Tool: "buy", CreatedAt: at(5)}
	env.move(store.InsertApproval{Approval: a})
	return a
}

// row is n events that end at last.
func row(sessionID string, last int64, n int) store.EventRow {
	data := []byte(nil)
	for seq := last - int64(n) + 1; seq <= last; seq++ {
		if data != nil {
			data = append(data, '\n')
		}
		data = fmt.Appendf(data, `{"type":"CUSTOM","value":%d}`, seq)
	}
	return store.EventRow{SessionID: sessionID, LastSeq: last, N: n, TS: at(last), Data: data}
}

// ids picks the ids of a listing.
func idsOf[T any](all []T, id func(T) string) []string {
	var got []string
	for _, v := range all {
		got = append(got, id(v))
	}
	return got
}
