package faults_test

import (
	"strings"
	"testing"
	"time"

	"aqueduct/store/storetest"
)

// begun posts a prompt and reads until the agent has sent something.
func begun(t *testing.T, h *serverEnv, thread, query, text string) (*stream, runInfo) {
	t.Helper()
	in, err := h.stream("POST", "/api/agui/chat"+query, prompt(thread, thread+"-r", text))
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := in.next()
		if err != nil {
			t.Fatal(err)
		}
		if e.kind() == "TEXT_MESSAGE_CONTENT" {
			break
		}
	}
	var run runInfo
	if _, err := h.get("/api/runs/"+thread+"-r", &run); err != nil {
		t.Fatal(err)
	}
	return in, run
}

// left waits until the agent's connection was closed and tells when.
func (h *serverEnv) left(t *testing.T, turn string, within time.Duration) time.Time {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		if at, ok := h.agent.leftBy(turn); ok {
			return at
		}
		if time.Now().After(end) {
			t.Fatalf("the agent still talks to somebody after %v", within)
		}
	}
}

// TestCancel: the upstream's connection is closed within a second, whatever the agent is
// doing, and the Run ends as cancelled.
func TestCancel(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		h := newServerEnv(t, database)
		for _, part := range []string{"endless", "hang", "drip"} {
			in, run := begun(t, h, part, "", part)
			asked := time.Now()
			resp, err := h.do(t.Context(), "POST", "/api/runs/"+part+"-r/cancel", nil, "Content-Type", "application/json")
			if err != nil || resp.StatusCode != 202 {
				t.Fatalf("%s: %v %v", part, resp, err)
			}
			_ = resp.Body.Close()
			if took := h.left(t, run.TurnID, 5*time.Second).Sub(asked); took > time.Second {
				t.Errorf("%s: the connection was closed after %v", part, took)
			}
			rest, err := newLedger(t, part, 0).drain(in)
			if err != nil || len(rest) == 0 {
				t.Fatalf("%s: %d events, %v", part, len(rest), err)
			}
			if end := rest[len(rest)-1]; oneEnd(t, rest) != "RUN_FINISHED" || !strings.Contains(end.data, `"cancelled"`) {
				t.Errorf("%s ends with %s", part, end.data)
			}
			if _, run := h.settled(t, part); run.Status != "CANCELLED" || run.Turn.Status != "CANCELLED" {
				t.Errorf("%s: Run %s, Turn %s", part, run.Status, run.Turn.Status)
			}
		}
	})
}

// TestClientGone: a client that leaves ends its tail, never the Turn.
func TestClientGone(t *testing.T) {
	t.Parallel()
	h := newServerEnv(t, "sqlite:"+storetest.SQLite(t))
	in, _ := begun(t, h, "gone", "", "count 200 2ms")
	in.close()
	_, run := h.settled(t, "gone")
	log := h.whole(t, "gone", run.LastSeq)
	if said := strings.Fields(text(log)); len(said) != 200 || run.Turn.Status != "DONE" {
		t.Errorf("%d of 200 numbers, the Turn is %s", len(said), run.Turn.Status)
	}
}

// TestOnLeave: with on_leave=cancel the Turn ends five seconds after the last tail has
// left, and goes on while anybody is there.
func TestOnLeave(t *testing.T) {
	t.Parallel()
	h := newServerEnv(t, "sqlite:"+storetest.SQLite(t))
	const grace = 5 * time.Second

	t.Run("nobody is left", func(t *testing.T) {
		t.Parallel()
		in, run := begun(t, h, "alone", "?on_leave=cancel", "endless")
		in.close()
		at := time.Now()
		if took := h.left(t, run.TurnID, 3*grace).Sub(at); took < grace-100*time.Millisecond || took > grace+2*time.Second {
			t.Errorf("cancelled after %v", took)
		}
		if _, run := h.settled(t, "alone"); run.Turn.Status != "CANCELLED" {
			t.Errorf("the Turn is %s", run.Turn.Status)
		}
	})
	t.Run("somebody is left, and leaves", func(t *testing.T) {
		t.Parallel()
		in, run := begun(t, h, "two", "?on_leave=cancel", "endless")
		second, err := h.stream("GET", "/api/runs/two-r/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		in.close()
		stays := time.After(grace + grace/2)
		for waiting := true; waiting; {
			if _, err := second.next(); err != nil {
				t.Fatalf("the second tail ends: %v", err)
			}
			select {
			case <-stays:
				waiting = false
			default:
			}
		}
		if _, ok := h.agent.leftBy(run.TurnID); ok {
			t.Fatal("cancelled while somebody was there")
		}
		second.close()
		at := time.Now()
		if took := h.left(t, run.TurnID, 4*grace).Sub(at); took < grace-100*time.Millisecond || took > 2*grace+2*time.Second {
			t.Errorf("cancelled %v after the last tail left", took)
		}
	})
	t.Run("a reload", func(t *testing.T) {
		t.Parallel()
		in, run := begun(t, h, "reload", "?on_leave=cancel", "endless")
		in.close()
		time.Sleep(grace / 2) // on purpose: the client is away for so long
		back, err := h.stream("GET", "/api/runs/reload-r/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		stays := time.After(grace)
		for waiting := true; waiting; {
			if _, err := back.next(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-stays:
				waiting = false
			default:
			}
		}
		back.close()
		if _, ok := h.agent.leftBy(run.TurnID); ok {
			t.Error("a reload cancelled the Turn")
		}
	})
	t.Run("not asked for", func(t *testing.T) {
		t.Parallel()
		in, run := begun(t, h, "stays", "", "endless")
		in.close()
		time.Sleep(grace + grace/2) // on purpose: nothing is to happen
		if _, ok := h.agent.leftBy(run.TurnID); ok {
			t.Error("the Turn was cancelled")
		}
	})
}

// TestAnsweredWhileTalking: an answer to an HTTP agent that asked and talks on does not cut it
// off. All its output is kept, and it is called with the answer when it has ended to wait.
func TestAnsweredWhileTalking(t *testing.T) {
	t.Parallel()
	h := newServerEnv(t, "sqlite:"+storetest.SQLite(t))
	in, err := h.chat("talks", "talks-r", "askon 100 10ms")
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	q := h.asked("permission")
	if status, out, err := h.decide(q.ID, "approve"); err != nil || status != 200 || !out.Won {
		t.Fatalf("HTTP %d %+v %v", status, out, err)
	}
	_, run := h.settled(t, "talks")
	log := h.whole(t, "talks", run.LastSeq)
	if n := len(strings.Fields(text(log))); n != 101 || run.Turn.Status != "DONE" {
		t.Errorf("%d of 101 numbers are kept, the Turn is %s", n, run.Turn.Status)
	}
	if starts, resumes := h.agent.called(run.TurnID); starts != 1 || resumes != 1 {
		t.Errorf("started %d times, resumed %d times", starts, resumes)
	}
}
