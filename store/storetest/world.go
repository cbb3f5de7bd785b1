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

// world is a store with one registered replica and three callers: two users of one
// tenant and one of another.
type world struct {
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

func newWorld(t *testing.T, s store.Store) *world {
	w := &world{T: t, ctx: context.Background(), s: s}
	w.replica = w.id()
	w.ok(s.Register(w.ctx, store.Replica{ID: w.replica, Name: "one"}))
	return w
}

// id is unique and in order, shaped as a UUIDv7.
func (w *world) id() string {
	return fmt.Sprintf("01890000-0000-7000-8000-%012x", w.ids.Add(1))
}

// at is a time as the store keeps it: whole milliseconds, UTC.
func at(ms int64) time.Time { return time.UnixMilli(1_700_000_000_000 + ms).UTC() }

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) is(got, want error) {
	w.Helper()
	if !errors.Is(got, want) {
		w.Fatalf("error %v, want %v", got, want)
	}
}

// same compares whole values.
func same[T any](w *world, got, want T) {
	w.Helper()
	if !reflect.DeepEqual(got, want) {
		w.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

// got unwraps a read that must succeed.
func got[T any](w *world) func(T, error) T {
	return func(v T, err error) T {
		w.Helper()
		w.ok(err)
		return v
	}
}

func (w *world) tx(fn func(store.Tx) error) {
	w.Helper()
	w.ok(w.s.InTx(w.ctx, fn))
}

// commit writes what must be accepted and tells which moves were lost.
func (w *world) commit(b store.Batch) []int {
	w.Helper()
	b.Replica = w.replica
	res, err := w.s.Commit(w.ctx, &b)
	w.ok(err)
	return res.Lost
}

func (w *world) move(moves ...store.Move) []int {
	w.Helper()
	return w.commit(store.Batch{Moves: moves})
}

func (w *world) refuse(want error, b store.Batch) {
	w.Helper()
	b.Replica = w.replica
	_, err := w.s.Commit(w.ctx, &b)
	w.is(err, want)
}

// session inserts a Session of the Principal.
func (w *world) session(p store.Principal) store.Session {
	w.Helper()
	id := w.id()
	s := store.Session{ID: id, Tenant: p.Tenant, User: p.User, ExternalID: "thread-" + id, AgentID: "demo",
		CreatedAt: at(1), UpdatedAt: at(1)}
	w.tx(func(tx store.Tx) error { return tx.InsertSession(w.ctx, s) })
	return s
}

func (w *world) turn(sessionID string, status store.TurnStatus) store.Turn {
	w.Helper()
	turn := store.Turn{ID: w.id(), SessionID: sessionID, AgentID: "demo", Status: status, CreatedAt: at(2)}
	w.tx(func(tx store.Tx) error { return tx.InsertTurn(w.ctx, turn) })
	return turn
}

func (w *world) run(sessionID, turnID string, status store.RunStatus) store.Run {
	w.Helper()
	id := w.id()
	r := store.Run{ID: id, SessionID: sessionID, TurnID: turnID, ExternalID: "run-" + id, Status: status, CreatedAt: at(3)}
	if status != store.RunReserved {
		r.FirstSeq = w.seq.Add(1)
	}
	w.tx(func(tx store.Tx) error { return tx.InsertRun(w.ctx, r) })
	return r
}

func (w *world) toolCall(sessionID, turnID string, status store.ToolCallStatus) store.ToolCall {
	w.Helper()
	c := store.ToolCall{ID: w.id(), SessionID: sessionID, TurnID: turnID, Name: "buy", Kind: store.KindQuestion,
		Status: status, CreatedAt: at(4)}
	w.move(store.InsertToolCall{ToolCall: c})
	return c
}

func (w *world) approval(sessionID, turnID string, status store.ApprovalStatus) store.Approval {
	w.Helper()
	a := store.Approval{ID: w.id(), SessionID: sessionID, TurnID: turnID, Kind: store.ApprovalPermission,
		Status: status, Tool: "buy", CreatedAt: at(5)}
	w.move(store.InsertApproval{Approval: a})
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
