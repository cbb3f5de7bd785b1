package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/store"
	"aqueduct/store/storetest"
)

// TestTailsAtTwoReplicas: whichever replica drives a Turn, and wherever its tails are, a message is taken where nobody
// tails, refused where somebody does, and its response gives its own Run.
func TestTailsAtTwoReplicas(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	var both [2]*harness
	var agents [2]*talker
	for i := range both {
		agents[i] = newTalker()
		both[i] = &harness{t: t, path: dsn, postgres: true, name: fmt.Sprint(i), other: agents[i], who: store.LocalPrincipal(),
			limits: bridge.Limits{BusyWait: 500 * time.Millisecond}}
		both[i].start()
		t.Cleanup(func() { both[i].stop() })
	}
	here, there := both[0], both[1]
	var waits [3]*stream // each cross-replica step waits for a poll of the owner; they wait together
	for i := range waits {
		thread := fmt.Sprint("t", i)
		driven := here.begin(history(thread, "u1:slow one"))
		there.refused(ask(thread, "no"), bridge.RefusedRunInProgress)
		if i == 0 { // the only tail leaves the driver's replica
			driven.feed.Close()
			waits[i], _ = there.post(history(thread, "u2:two"))
			continue
		}
		far := there.begin(bridge.ChatRequest{ThreadID: thread, JoinOnly: true})
		here.knowsTail(thread, there.replica)
		driven.feed.Close()
		here.refused(ask(thread, "no"), bridge.RefusedRunInProgress)
		if i == 1 { // the only tail leaves the other replica
			far.feed.Close()
			waits[i], _ = here.post(history(thread, "u2:two"))
			continue
		}
		equal(t, types(waits[0].rest(t)), wholeAnswer)
		there.stop() // the replica with the only tail is gone
		far.feed.Close()
		if err := here.store.Fence(t.Context(), there.replica); err != nil {
			t.Fatal(err)
		}
		waits[i], _ = here.post(history(thread, "u2:two"))
	}
	for i, s := range waits {
		if i > 0 {
			equal(t, types(s.rest(t)), wholeAnswer)
		}
		equal(t, here.snapshot(fmt.Sprint("t", i)), "slow one | re slow one | two | re two")
	}
	for range waits {
		equal(t, receive(here, agents[0].cancelled), "slow one")
	}
}

// knowsTail waits until the store says that a response of the replica tails the thread's Run: replicas learn it there.
func (h *harness) knowsTail(thread, replica string) {
	h.t.Helper()
	s := h.session(thread)
	for end := time.Now().Add(20 * time.Second); ; {
		run, err := h.store.LastRun(h.t.Context(), store.System(), s.ID)
		switch {
		case err != nil || time.Now().After(end):
			h.t.Fatalf("tailed by %q: %v", run.Tails, err)
		case strings.Contains(run.Tails, replica+" "):
			return
		}
		<-time.After(time.Millisecond)
	}
}
