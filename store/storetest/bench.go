package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"aqueduct/store"
)

// Bench measures what a busy server does most: wall time, this process's CPU, and
// beside it that of the PostgreSQL server where there is one.
func Bench(b *testing.B, open func(b *testing.B) store.Store) {
	b.Run("Commit32x8K", func(b *testing.B) { benchCommit(b, open(b), 3) })
	b.Run("Commit32x8KEventsOnly", func(b *testing.B) { benchCommit(b, open(b), 0) })
	b.Run("Commit1x200", func(b *testing.B) { benchSmallCommit(b, open(b)) })
	b.Run("Intake", func(b *testing.B) { benchIntake(b, open(b)) })
	b.Run("ReadTail", func(b *testing.B) { benchRead(b, open(b)) })
}

const benchSessions = 32

func benchWorld(b *testing.B, s store.Store) []string {
	b.Helper()
	ctx := context.Background()
	if err := s.Register(ctx, store.Replica{ID: "r", Name: "bench"}); err != nil {
		b.Fatal(err)
	}
	ids := make([]string, benchSessions)
	for i := range ids {
		ids[i] = fmt.Sprintf("01890000-0000-7000-8000-%012x", i)
		err := s.InTx(ctx, func(tx store.Tx) error {
			err := tx.InsertSession(ctx, store.Session{ID: ids[i], Tenant: "acme", User: "alice", ExternalID: ids[i],
				AgentID: "demo", CreatedAt: at(0), UpdatedAt: at(0)})
			return errors.Join(err, tx.InsertTurn(ctx, store.Turn{ID: "turn-" + ids[i], SessionID: ids[i], AgentID: "demo",
				Status: store.TurnRunning, CreatedAt: at(0)}))
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return ids
}

// measure runs the loop and reports CPU an iteration beside the wall time.
func measure(b *testing.B, once func(i int) error) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	ours, theirs := CPU(), postgresCPU(b)
	for i := range b.N {
		if err := once(i); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((CPU()-ours).Microseconds())/float64(b.N), "cpu-µs/op")
	if theirs > 0 {
		b.ReportMetric(float64((postgresCPU(b)-theirs).Microseconds())/float64(b.N), "pg-cpu-µs/op")
	}
}

func postgresCPU(b *testing.B) time.Duration {
	b.Helper()
	used, err := PostgresCPU()
	if err != nil {
		b.Fatal(err)
	}
	return used
}

func benchCommit(b *testing.B, s store.Store, moves int) {
	ids, ctx := benchWorld(b, s), context.Background()
	data := deltas(8 << 10)
	measure(b, func(i int) error {
		batch := &store.Batch{Replica: "r"}
		for _, id := range ids {
			batch.Events = append(batch.Events, store.EventRow{SessionID: id, LastSeq: int64(i+1) * 100, N: 100, TS: at(1), Data: data})
		}
		for m := range moves {
			batch.Moves = append(batch.Moves, store.TurnMove{ID: "turn-" + ids[m], From: []store.TurnStatus{store.TurnRunning},
				DispatchedAt: at(int64(i + 1))})
		}
		_, err := s.Commit(ctx, batch)
		return err
	})
}

// deltas is a row as a chat makes it: much alike, but not the same event again and
// again, which a compressing database would make nothing of.
func deltas(size int) []byte {
	words := rand.New(rand.NewPCG(1, 2))
	var row []byte
	for len(row) < size {
		row = fmt.Appendf(row, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"01890000-0000-7000-8000-00000000000a",`+
			`"delta":"%x "}`+"\n", words.Uint64()>>(words.Uint32()%40))
	}
	return row[:len(row)-1]
}

func benchSmallCommit(b *testing.B, s store.Store) {
	ids, ctx := benchWorld(b, s), context.Background()
	data := bytes.Repeat([]byte("x"), 200)
	measure(b, func(i int) error {
		_, err := s.Commit(ctx, &store.Batch{Replica: "r", Events: []store.EventRow{
			{SessionID: ids[0], LastSeq: int64(i + 1), N: 1, TS: at(1), Data: data}}})
		return err
	})
}

// benchIntake is the transaction a prompt makes.
func benchIntake(b *testing.B, s store.Store) {
	ids, ctx, in := benchWorld(b, s), context.Background(), store.As(store.Principal{Tenant: "acme", User: "alice"})
	input := bytes.Repeat([]byte("a"), 500)
	input[0], input[len(input)-1] = '"', '"'
	measure(b, func(i int) error {
		return s.InTx(ctx, func(tx store.Tx) error {
			id := fmt.Sprintf("01890000-0000-7000-9000-%012x", i)
			found, err := tx.SessionByExternalID(ctx, in, ids[i%benchSessions])
			if err != nil {
				return err
			}
			if _, err = tx.LockSession(ctx, in, found.ID); err != nil {
				return err
			}
			if _, err = tx.ActiveTurn(ctx, in, found.ID); err != nil {
				return err
			}
			if err = tx.InsertTurn(ctx, store.Turn{ID: id, SessionID: found.ID, AgentID: "demo", Status: store.TurnDone,
				Input: input, CreatedAt: at(1)}); err != nil {
				return err
			}
			if err = tx.InsertRun(ctx, store.Run{ID: id, SessionID: found.ID, TurnID: id, ExternalID: id,
				Status: store.RunFinished, CreatedAt: at(1)}); err != nil {
				return err
			}
			return tx.InsertMessage(ctx, store.Message{ID: id, SessionID: found.ID, RunID: id, ExternalID: id, Role: "user",
				Data: input, CreatedAt: at(1)})
		})
	})
}

func benchRead(b *testing.B, s store.Store) {
	ids, ctx := benchWorld(b, s), context.Background()
	data := bytes.Repeat([]byte("x"), 8192)
	for i := range int64(64) {
		if _, err := s.Commit(ctx, &store.Batch{Replica: "r", Events: []store.EventRow{
			{SessionID: ids[0], LastSeq: i + 1, N: 1, TS: at(1), Data: data}}}); err != nil {
			b.Fatal(err)
		}
	}
	measure(b, func(i int) error {
		rows, err := s.Events(ctx, store.System(), ids[0], int64(i%56), 64<<10)
		if err == nil && len(rows) != 8 {
			err = fmt.Errorf("%d rows", len(rows))
		}
		return err
	})
}
