package faults_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// TestDuplicatePosts: many POSTs of one runId with one body, at once: one Turn, equal
// streams; another body is refused.
func TestDuplicatePosts(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		h := newServerEnv(t, database)
		for round := range 4 { // many come while the Run begins, and see it half begun
			postAtOnce(t, h, fmt.Sprint("dup", round))
		}
		if n := len(h.agent.calls); n != 4 || h.agent.most() != 1 {
			t.Errorf("the agent was called %v", h.agent.calls)
		}
	})
}

func postAtOnce(t *testing.T, h *serverEnv, thread string) {
	const n = 50
	l := newLedger(t, thread, 100)
	streams := make([][]event, n)
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			var err error
			if streams[i], err = l.post(h.server, thread+"-r", "count 100 1ms"); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	all.Wait()
	for i, got := range streams {
		if !slices.Equal(got, streams[0]) {
			t.Errorf("stream %d has %d events, the first %d", i, len(got), len(streams[0]))
		}
	}
	_, run := h.settled(t, thread)
	if log := h.whole(t, thread, run.LastSeq); !slices.Equal(log, streams[0]) || len(log) < 100 {
		t.Errorf("the log has %d events, the streams %d", len(log), len(streams[0]))
	}
	if starts, _ := h.agent.called(run.TurnID); starts != 1 {
		t.Errorf("the agent was called %d times", starts)
	}
	resp, err := h.do(t.Context(), "POST", "/api/agui/chat", prompt(thread, thread+"-r", "count 7"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusConflict {
		t.Errorf("another body of the same runId: HTTP %d", resp.StatusCode)
	}
}

// TestDecisionsAtOnce: approve and reject at once, many times: one wins, every caller receives
// which, and the agent goes on once.
func TestDecisionsAtOnce(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		h := newServerEnv(t, database)
		for round := range 5 {
			decideAtOnce(t, h, fmt.Sprint("d", round))
		}
	})
}

func decideAtOnce(t *testing.T, h *serverEnv, thread string) {
	const n = 40
	l := newLedger(t, thread, 3)
	if _, err := l.post(h.server, thread+"-r", "ask 3"); err != nil {
		t.Fatal(err)
	}
	info, _ := h.settled(t, thread)
	if len(info.Questions) != 1 {
		t.Fatalf("questions %v", info.Questions)
	}
	status, told := make([]int, n), make([]decided, n)
	var won atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			var err error
			if status[i], told[i], err = h.decide(info.Questions[0], []string{"approve", "reject"}[i%2]); err != nil {
				t.Error(err)
			}
			if told[i].Won {
				won.Add(1)
			}
		})
	}
	close(start)
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d won", won.Load())
	}
	winner := slices.IndexFunc(told, func(d decided) bool { return d.Won })
	if winner < 0 {
		return
	}
	final := []string{"APPROVED", "REJECTED"}[winner%2]
	for i := range n {
		switch same := i%2 == winner%2; {
		case same && (status[i] != http.StatusOK || told[i].Status != final || told[i].Repeated != (i != winner)):
			t.Errorf("one who says the same gets %d %+v", status[i], told[i])
		case !same && (status[i] != http.StatusConflict || told[i].Code != "already_decided" || told[i].Approval.Status != final):
			t.Errorf("one who says otherwise gets %d %+v", status[i], told[i])
		}
	}
	_, run := h.settled(t, thread)
	if starts, resumes := h.agent.called(run.TurnID); starts != 1 || resumes != 1 || run.Turn.Status != "DONE" {
		t.Errorf("started %d times, resumed %d times, the Turn is %s", starts, resumes, run.Turn.Status)
	}
	l.audit(h)
}
