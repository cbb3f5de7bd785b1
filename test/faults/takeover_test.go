package faults_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

const (
	takenStreams = 20 // threads that stream when their server goes
	takenAsked   = 5  // threads with an open question
	takenCount   = 40 // how far the agent counts in each Run of a stream

	// How long after its server has stopped, or was killed, a thread may take to be usable at
	// the next one, beside what the same prompts take at a server of their own.
	usableAfterStop, usableAfterKill = time.Second, 12 * time.Second
)

// TestNextOfAnotherName: servers of ever other names follow each other on one database, by
// SIGTERM and by kill -9, in the middle of streams and with questions open. Every thread of
// the one that went is usable at the next in time, nothing is lost and nothing doubled.
// On SQLite the next one starts when the one before is gone; on PostgreSQL it is there.
func TestNextOfAnotherName(t *testing.T) {
	databases(t, func(t *testing.T, database string) {
		h := &serverEnv{t: t, database: database, agent: newAgent(t)}
		names := 0
		next := func() *server {
			names++
			return h.another(program.Shipped, fmt.Sprint("AQUEDUCT_NAME=name-", names))
		}
		together := !strings.HasPrefix(database, "sqlite")
		h.server = next()
		for round, kill := range []bool{false, true, false, true} {
			f := &successor{serverEnv: h, round: round, kill: kill, old: h.server}
			if together {
				h.server = next()
			}
			f.fill()
			f.end()
			var started time.Duration
			if !together {
				begun := time.Now()
				h.server = next()
				started = time.Since(begun)
			}
			f.takesOver(started)
			if t.Failed() {
				t.Fatalf("round %d\nthe old one:\n%s\nthe new one:\n%s", round, f.old.log(), h.log())
			}
		}
		if most := h.agent.most(); most > 1 {
			t.Errorf("a dispatch reached the agent %d times", most)
		}
	})
}

// successor is one change of servers: the environment's server follows old.
type successor struct {
	*serverEnv
	round   int
	kill    bool
	old     *server
	gone    time.Time
	streams []*ledger
	asked   []*ledger
	idle    *ledger
	left    sync.WaitGroup // the clients of old
}

// fill gives the old server streams, questions and a thread at rest.
func (f *successor) fill() {
	var begun sync.WaitGroup
	named := func(kind string, i, count int) *ledger {
		return newLedger(f.t, fmt.Sprintf("%s-%d-%d", kind, f.round, i), count)
	}
	for i := range takenStreams {
		l := named("stream", i, takenCount)
		f.streams = append(f.streams, l)
		begun.Add(1)
		f.left.Go(func() {
			started := sync.OnceFunc(begun.Done)
			defer started()
			in, err := f.old.chat(l.thread, l.thread+"-r", fmt.Sprintf("count %d 50ms", takenCount))
			if err != nil {
				f.t.Error(err)
				return
			}
			for range 5 {
				if e, err := in.next(); err == nil {
					l.note(e)
				}
			}
			started()
			_, _ = l.drain(in) // it is cut with the server
		})
	}
	for i := range takenAsked {
		l := named("asked", i, 2)
		f.asked = append(f.asked, l)
		begun.Go(func() {
			if _, err := l.post(f.old, l.thread+"-r", "ask 2"); err != nil {
				f.t.Error(err)
			}
		})
	}
	f.idle = named("idle", 0, 3)
	begun.Go(func() {
		if _, err := f.idle.post(f.old, f.idle.thread+"-r", "count 3"); err != nil {
			f.t.Error(err)
		}
	})
	begun.Wait()
}

// end ends the old server.
func (f *successor) end() {
	if f.kill {
		f.gone = time.Now()
		f.old.kill()
	} else {
		f.old.signal(syscall.SIGTERM)
		f.old.gone(20 * time.Second)
		f.gone = time.Now()
	}
	f.left.Wait()
}

// takesOver has every thread used at the new server at once, measures how long that takes and
// audits the logs.
func (f *successor) takesOver(started time.Duration) {
	f.t.Helper()
	most := usableAfterStop
	if f.kill {
		most = usableAfterKill
	}
	var first atomic.Int64 // of the thread at rest: when its Run began
	var all sync.WaitGroup
	all.Go(func() {
		in, err := f.chat(f.idle.thread, f.idle.thread+"-again", "count 3")
		if err != nil {
			f.t.Error(err)
			return
		}
		if e, err := in.next(); err == nil {
			first.Store(int64(time.Since(f.gone)))
			f.idle.note(e)
		}
		f.finishes(f.idle, in)
	})
	for _, l := range f.asked {
		all.Go(func() { f.decideSoon(l) })
	}
	for _, l := range f.streams {
		all.Go(func() { f.promptSoon(l) })
	}
	all.Wait()
	took := time.Since(f.gone)
	begun := time.Now() // the same at threads that never had another server
	for i := range takenStreams {
		l := newLedger(f.t, fmt.Sprintf("own-%d-%d", f.round, i), takenCount)
		all.Go(func() { f.promptSoon(l) })
	}
	all.Wait()
	own := time.Since(begun)
	f.t.Logf("round %d, kill -9 %v: the thread at rest goes on after %v, all %d threads after %v; starting took %v of it, prompts alone %v", f.round, f.kill,
		time.Duration(first.Load()).Round(time.Millisecond), takenStreams+takenAsked+1, took.Round(time.Millisecond), started.Round(time.Millisecond), own.Round(time.Millisecond))
	if took > most+started+own {
		f.t.Errorf("round %d: not all usable after %v and %v", f.round, most, started+own)
	}
	for _, l := range append(append([]*ledger{f.idle}, f.asked...), f.streams...) {
		l.audit(f.serverEnv)
	}
}

// promptSoon prompts until the Turn before is over, and then to the end.
func (f *successor) promptSoon(l *ledger) {
	for i := 0; ; i++ {
		in, err := f.chat(l.thread, fmt.Sprintf("%s-again-%d", l.thread, i), fmt.Sprint("count ", takenCount))
		if err == nil {
			f.finishes(l, in)
			return
		}
		if !strings.Contains(err.Error(), "run_in_progress") || time.Since(f.gone) > time.Minute {
			f.t.Errorf("thread %s: %v", l.thread, err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (f *successor) finishes(l *ledger, in *stream) {
	all, err := l.drain(in)
	if err != nil || len(all) == 0 || all[len(all)-1].kind() != "RUN_FINISHED" {
		f.t.Errorf("thread %s: after %v the stream ends with %v, %v", l.thread, time.Since(f.gone), all, err)
	}
}

// decideSoon answers the thread's question, and waits for the end of its Turn.
func (f *successor) decideSoon(l *ledger) {
	var info threadInfo
	if found, err := f.get("/api/threads/"+l.thread, &info); err != nil || !found || len(info.Questions) != 1 {
		f.t.Errorf("thread %s: %+v, %v", l.thread, info, err)
		return
	}
	if status, out, err := f.decide(info.Questions[0], "approve"); err != nil || status != 200 || !out.Won {
		f.t.Errorf("thread %s: HTTP %d %+v %v", l.thread, status, out, err)
		return
	}
	if _, run := f.settled(f.t, l.thread); run.Turn.Status != "DONE" {
		f.t.Errorf("thread %s: answered, and its Turn is %s", l.thread, run.Turn.Status)
	}
}

// TestQuestionExpiresElsewhere: a question that was asked at a server which has gone expires
// in time at the one that takes over, though that one was running when it was asked, and the
// Turn goes on there to its end.
func TestQuestionExpiresElsewhere(t *testing.T) {
	h := &serverEnv{t: t, database: storetest.Postgres(t), agent: newAgent(t)}
	const ttl = 3 * time.Second
	first := h.another(program.Shipped, "AQUEDUCT_NAME=first", "AQUEDUCT_APPROVAL_TTL="+ttl.String())
	h.server = h.another(program.Shipped, "AQUEDUCT_NAME=second")
	l := newLedger(t, "T", 2)
	if _, err := l.post(first, "r", "ask 2"); err != nil {
		t.Fatal(err)
	}
	asked := h.asked("permission")
	first.signal(syscall.SIGTERM)
	first.gone(20 * time.Second)
	in, err := h.stream("GET", "/api/threads/T/events?after=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	for ends := 0; ends < 2; {
		e, err := in.next()
		if err != nil {
			t.Fatalf("%v\n%s", err, h.log())
		}
		if e.terminal() {
			ends++
		}
	}
	var a approval
	if _, err := h.get("/api/approvals/"+asked.ID, &a); err != nil || a.Status != "EXPIRED" {
		t.Errorf("the question is %+v, %v", a, err)
	}
	if _, run := h.settled(t, "T"); run.Turn.Status != "DONE" {
		t.Errorf("the turn is %+v", run)
	}
}

// TestBehindPooler: the same kills as TestKill9, with PgBouncer in transaction mode between
// the server and its database.
func TestBehindPooler(t *testing.T) {
	pooler := storetest.Pooler(t)
	h := newServerEnv(t, pooler.Through(storetest.Postgres(t)))
	h.ready = pooler.Await
	sum := &tally{}
	for round := range 3 {
		killOnce(t, h, round, sum)
		if t.Failed() {
			t.Fatalf("round %d\n%s", round, h.log())
		}
	}
	t.Logf("%d threads, %d events seen before a kill, %d kept; %d Runs broken off, %d Turns done", sum.threads, sum.seen, sum.kept, sum.broken, sum.done)
}
