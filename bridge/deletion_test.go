package bridge_test

import (
	"testing"
	"time"

	"aqueduct/bridge"
)

// TestDeletionOfAQueue: a thread is deleted with what waits in it, and no agent is called with that.
func TestDeletionOfAQueue(t *testing.T) {
	t.Parallel()
	h, a := newTalkHarness(t, bridge.Limits{BusyWait: time.Millisecond}, bridge.OnBusyQueue)
	h.begin(history("t1", "u1:slow one"))
	h.post(history("t1", "u2:two"))
	h.post(history("t1", "u3:three"))
	if err := h.sessions.Threads().Delete(t.Context(), h.who, "t1"); err != nil {
		t.Fatal(err)
	}
	equal(t, receive(h, a.cancelled), "slow one")
	h.chat(history("t2", "u1:other")) // its call is behind all of t1's
	equal(t, a.heard(1), "other")
}
