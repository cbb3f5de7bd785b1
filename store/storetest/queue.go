package storetest

import (
	"fmt"
	"testing"
	"time"

	"aqueduct/store"
)

// RunLongQueue measures a look at a queue of times 20 000 tasks, of 20 users for each of 20 agents and a tenth of one more user
// in one thread: what it costs depends on how many lines there are, and not on how much waits in them.
func RunLongQueue(t *testing.T, s store.Store, times int) {
	t.Helper()
	const agents, users = 20, 20
	n, each, deep := 0, 45*times, 2000*times
	insert := func(tx store.Tx, user, agent, thread string) error {
		n++
		id := fmt.Sprintf("0198f000-0000-7000-8000-%012d", n)
		return tx.InsertTask(t.Context(), store.Task{
			ID: id, Tenant: "acme", User: user, RequestID: id, ThreadID: thread, AgentID: agent, Priority: int64(n % 3), Status: store.TaskWaiting,
			Body: make([]byte, 200), BodyHash: []byte("h"), CreatedAt: time.Now(),
		})
	}
	if err := s.InTx(t.Context(), func(tx store.Tx) error {
		for i := range agents * users * each {
			if err := insert(tx, fmt.Sprintf("user%d", i%users), fmt.Sprintf("agent%d", i/users%agents), fmt.Sprintf("thread%d", i/agents)); err != nil {
				return err
			}
		}
		for range deep {
			if err := insert(tx, "deep", "agent0", "deep"); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	lines, err := s.TaskLines(t.Context(), store.System(), store.TaskLine{}, 10_000)
	found := time.Since(begun)
	if err != nil || len(lines) != agents*users+1 {
		t.Fatalf("%d lines: %v", len(lines), err)
	}
	begun = time.Now()
	next, err := s.NextTasks(t.Context(), store.System(), lines[len(lines)/2], 8)
	one := time.Since(begun)
	if err != nil || len(next) != 8 {
		t.Fatalf("%d tasks of a line: %v", len(next), err)
	}
	begun = time.Now()
	next, err = s.NextTasks(t.Context(), store.System(), store.TaskLine{AgentID: "agent0", Tenant: "acme", User: "deep"}, 8)
	if err != nil || len(next) != 1 {
		t.Fatalf("%d tasks of a thread: %v", len(next), err)
	}
	t.Logf("%d tasks: %d lines in %v, the next of one in %v, of %d in one thread in %v", n, len(lines), found, one, deep, time.Since(begun))
	if most := 2 * time.Second; found > most || one > most/4 || time.Since(begun) > most {
		t.Error("a look at a long queue takes too long")
	}
}
