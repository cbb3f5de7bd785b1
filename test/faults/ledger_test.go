package faults_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
)

// ledger is what clients of one thread have seen.
type ledger struct {
	t      testing.TB
	thread string
	mu     sync.Mutex
	seen   map[int64]string
	count  int // how far the agent counts in each of its Runs
}

func newLedger(t testing.TB, thread string, count int) *ledger {
	return &ledger{t: t, thread: thread, count: count, seen: make(map[int64]string)}
}

// note keeps an event; two clients that see different bytes at one position are a fault.
func (l *ledger) note(e event) {
	if e.id == 0 {
		return // frames of a join are not of the log
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.seen[e.id]; ok && before != e.data {
		l.t.Errorf("thread %s, event %d: one client saw %s, another %s", l.thread, e.id, before, e.data)
	}
	l.seen[e.id] = e.data
}

// drain reads a stream to its end, however it ends, and gives what it saw.
func (l *ledger) drain(s *stream) (all []event, err error) {
	defer s.close()
	last := int64(0)
	for {
		e, err := s.next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if e.id != 0 && e.id <= last {
			l.t.Errorf("thread %s: event %d after %d on one stream", l.thread, e.id, last)
		}
		last = max(last, e.id)
		l.note(e)
		all = append(all, e)
	}
}

// post posts a prompt and reads what comes until the stream ends or the server dies.
func (l *ledger) post(s *server, run, text string) ([]event, error) {
	in, err := s.chat(l.thread, run, text)
	if err != nil {
		return nil, err
	}
	return l.drain(in)
}

// audit compares what was seen with what is kept, now that the server has come back, and
// gives the log. A Turn that waits is answered first.
func (l *ledger) audit(h *serverEnv) []event {
	l.t.Helper()
	var posted threadInfo
	found, err := h.get("/api/threads/"+l.thread, &posted)
	if err != nil {
		l.t.Fatal(err)
	}
	if !found {
		if len(l.seen) > 0 {
			l.t.Errorf("thread %s is lost, and %d events of it were seen", l.thread, len(l.seen))
		}
		return nil
	}
	info, run := h.settled(l.t, l.thread)
	for len(info.Questions) > 0 && !l.t.Failed() {
		for _, q := range info.Questions {
			if status, out, err := h.decide(q, "approve"); err != nil || status != 200 || !out.Won {
				l.t.Errorf("thread %s: a paused Turn is not answerable: HTTP %d %+v %v", l.thread, status, out, err)
				return nil
			}
		}
		if info, run = h.settled(l.t, l.thread); run.Turn.Status != "DONE" {
			l.t.Errorf("thread %s: answered, and its Turn is %s", l.thread, run.Turn.Status)
		}
	}
	log := h.whole(l.t, l.thread, run.LastSeq)
	l.compare(log)
	l.grammar(log)
	l.causes(log)
	l.numbers(log)
	return log
}

// compare: what was seen is kept, at its place, with its bytes.
func (l *ledger) compare(log []event) {
	l.t.Helper()
	wrong := 0
	for id, data := range l.seen {
		if id <= int64(len(log)) && log[id-1].data == data {
			continue
		}
		if wrong++; wrong > 3 {
			continue // three are enough to find the cause
		}
		if id > int64(len(log)) {
			l.t.Errorf("thread %s: event %d of %d was seen and is lost: %s", l.thread, id, len(log), data)
		} else {
			l.t.Errorf("thread %s, event %d: seen %s, kept %s", l.thread, id, data, log[id-1].data)
		}
	}
}

// grammar: every Run begins once and has one terminal event.
func (l *ledger) grammar(log []event) {
	l.t.Helper()
	open := false
	for _, e := range log {
		switch kind := e.kind(); {
		case kind == "RUN_STARTED" && open, kind != "RUN_STARTED" && !open:
			l.t.Errorf("thread %s, event %d: %s out of place", l.thread, e.id, kind)
		case kind == "RUN_STARTED":
			open = true
		case e.terminal():
			open = false
		}
	}
	if open {
		l.t.Errorf("thread %s: the log ends within a Run", l.thread)
	}
}

// causes: what broke was broken by a restart, and its error names that.
func (l *ledger) causes(log []event) {
	l.t.Helper()
	for _, e := range log {
		if e.kind() == "RUN_ERROR" && codeOf(e) != "server_restarted" {
			l.t.Errorf("thread %s, event %d: %s", l.thread, e.id, e.data)
		}
	}
}

// numbers: what the agent counted is there without a gap and without a repeat, and to the
// end unless the Run was broken, or cancelled by the next message. An agent that is called with
// an answer counts anew: behind the result, in the same Run where that had not ended yet.
func (l *ledger) numbers(log []event) {
	l.t.Helper()
	begin := 0
	for i, e := range log {
		if !e.terminal() && e.kind() != "TOOL_CALL_RESULT" {
			continue
		}
		words := strings.Fields(text(log[begin:i]))
		for n, word := range words {
			if word != fmt.Sprint(n+1) {
				l.t.Errorf("thread %s: the %d. number before event %d is %s", l.thread, n+1, e.id, word)
				for _, e := range log {
					l.t.Logf("%d %s", e.id, e.data)
				}
				return
			}
		}
		whole := len(words) == l.count || e.kind() == "TOOL_CALL_RESULT" && len(words) == 0
		if !whole && e.kind() != "RUN_ERROR" && !strings.Contains(e.data, `"outcome":{"type":"cancelled"}`) {
			l.t.Errorf("thread %s: before event %d stand %d of %d numbers", l.thread, e.id, len(words), l.count)
		}
		begin = i
	}
}

// broken is how many Runs of a log a restart broke.
func broken(log []event) (n int) {
	for _, e := range log {
		if e.kind() == "RUN_ERROR" {
			n++
		}
	}
	return n
}
