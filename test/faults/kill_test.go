package faults_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// databases gives a serverEnv on each kind of database.
func databases(t *testing.T, test func(t *testing.T, database string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+storetest.SQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, storetest.Postgres(t)) })
}

// TestKill9: the server dies at random moments of streaming runs and comes back on the
// same database. Every event a client saw is in the log, at its place, with its bytes; no
// Turn is left running; what cannot go on reports so once; what waited is answered.
func TestKill9(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		rounds := 20
		if database[:6] != "sqlite" {
			rounds = 6
		}
		h := newServerEnv(t, database)
		sum := &tally{}
		for round := range rounds {
			killOnce(t, h, round, sum)
			if t.Failed() {
				t.Fatalf("round %d\n%s", round, h.log())
			}
		}
		if most := h.agent.most(); most > 1 {
			t.Errorf("a dispatch reached the agent %d times", most)
		}
		t.Logf("%d kills: %d threads, %d events seen before a kill, %d kept; %d Runs broken off, %d Turns done",
			rounds, sum.threads, sum.seen, sum.kept, sum.broken, sum.done)
		if sum.broken == 0 || sum.done == 0 || sum.seen == 0 {
			t.Error("the kills were not at moments that matter")
		}
	})
}

type tally struct{ threads, seen, kept, broken, done int }

// crowd is several clients at once: some stream, one has a second tab, one is asked and
// answers, one comes again and again with short prompts.
func crowd(h *serverEnv, name string, all *sync.WaitGroup) (ledgers []*ledger) {
	s := h.server
	client := func(who string, count int, act func(l *ledger)) {
		l := newLedger(h.t, name+"-"+who, count)
		ledgers = append(ledgers, l)
		all.Go(func() { act(l) })
	}
	for i := range 3 {
		client(fmt.Sprint("stream", i), 300, func(l *ledger) {
			_, _ = l.post(s, l.thread+"-r", "count 300 1ms") // it ends when the server does
		})
	}
	client("tabs", 300, func(l *ledger) {
		in, err := s.chat(l.thread, l.thread+"-r", "count 300 1ms")
		if err != nil {
			return
		}
		if e, err := in.next(); err == nil {
			l.note(e)
			all.Go(func() {
				if tab, err := s.stream("GET", "/api/runs/"+l.thread+"-r/events", nil); err == nil {
					_, _ = l.drain(tab)
				}
			})
		}
		_, _ = l.drain(in)
	})
	client("asked", 5, func(l *ledger) {
		if _, err := l.post(s, l.thread+"-r", "ask 5 1ms"); err != nil {
			return
		}
		var info threadInfo
		if found, err := s.get("/api/threads/"+l.thread, &info); err == nil && found && len(info.Questions) == 1 && rand.IntN(2) == 0 {
			_, _, _ = s.decide(info.Questions[0], "approve") // perhaps the server dies of it
		}
	})
	client("often", 3, func(l *ledger) {
		for i := range 1000 {
			if _, err := l.post(s, fmt.Sprintf("%s-%d", l.thread, i), "count 3"); err != nil {
				return
			}
		}
	})
	return ledgers
}

func killOnce(t *testing.T, h *serverEnv, round int, sum *tally) {
	var all sync.WaitGroup
	ledgers := crowd(h, fmt.Sprintf("%s%d", time.Now().Format("150405.000"), round), &all)
	time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
	h.kill()
	all.Wait()
	h.start(program.Shipped)
	if round%3 == 2 { // and again, while it takes up what it finds
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		h.kill()
		h.start(program.Shipped)
	}
	for _, l := range ledgers {
		log := l.audit(h)
		sum.threads++
		sum.seen += len(l.seen)
		sum.kept += len(log)
		n := broken(log)
		sum.broken += n
		if n > 1 {
			t.Errorf("thread %s was broken off %d times by one restart", l.thread, n)
		}
		if n == 0 && log != nil {
			sum.done++
		}
	}
}
