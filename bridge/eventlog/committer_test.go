package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"aqueduct/store"
)

// What all Sessions append while a commit is in flight is the next one: a row a Session,
// in the order they came.
func TestBatching(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		w := newWorld(t, st)
		a, b, c := w.session(), w.session(), w.session()
		held, open := w.db.shut(t)
		w.put(a, 1)
		<-held
		w.put(b, 2)
		w.put(a, 3)
		w.put(b, 1)
		w.put(c, 1)
		w.put(a, 1)
		open()
		for _, x := range []*Writer{a, b, c} {
			if _, err := w.keep(x, 0); err != nil {
				t.Fatal(err)
			}
		}
		second := w.db.asked()[1]
		var got []string
		for _, r := range second.Events {
			got = append(got, fmt.Sprintf("%s %d-%d", r.SessionID, r.FirstSeq(), r.LastSeq))
		}
		w.same(got, []string{b.sessionID + " 1-3", a.sessionID + " 2-5", c.sessionID + " 1-1"})
		w.same(w.kept(a.sessionID), upTo(5))
		w.same(w.kept(b.sessionID), upTo(3))
		w.same(w.kept(c.sessionID), upTo(1))
	})
}

// An idle replica commits at once, a busy one about 200 times a second.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &memory{})
		defer w.stop()
		writer := w.open("s")
		time.Sleep(time.Minute)
		begun := time.Now()
		if _, err := w.keep(writer, 1); err != nil || time.Since(begun) != 0 {
			t.Fatalf("idle: %v after %v", err, time.Since(begun))
		}
		before := len(w.db.asked())
		for range 10_000 { // ten seconds
			w.put(writer, 1)
			time.Sleep(time.Millisecond)
		}
		if n := len(w.db.asked()) - before; n < 1900 || n > 2001 {
			t.Errorf("%d commits in ten seconds", n)
		}
		if _, err := w.keep(writer, 0); err != nil {
			t.Fatal(err)
		}
		w.same(w.kept("s"), upTo(10_001))
	})
}

// poisons are ways for one Session's part to be refused by the store.
func poisons() map[string]func(w *world, victim *Writer) Entry {
	return map[string]func(w *world, victim *Writer) Entry{
		"ErrData: broken JSON": func(_ *world, victim *Writer) Entry {
			e := events(victim.Last(), 2)
			e.Moves = []store.Move{store.SessionMove{ID: victim.sessionID, State: []byte(`{"broken`), UpdatedAt: time.UnixMilli(2)}}
			return e
		},
		"ErrConflict: id taken": func(w *world, victim *Writer) Entry {
			taken := toolCall(victim.sessionID)
			_, err := w.keep(victim, 0, store.InsertToolCall{ToolCall: taken})
			w.ok(err)
			e := events(victim.Last(), 2)
			e.Moves = []store.Move{store.InsertToolCall{ToolCall: taken}}
			return e
		},
		"ErrConflict: position taken": func(w *world, victim *Writer) Entry {
			other := w.open(victim.sessionID) // as a second owner would
			_, err := w.keep(other, 1)
			w.ok(err)
			return events(victim.Last(), 1)
		},
	}
}

func toolCall(sessionID string) store.ToolCall {
	return store.ToolCall{ID: uuid.NewString(), SessionID: sessionID, TurnID: uuid.NewString(), Name: "n", Kind: store.KindQuestion,
		Status: store.ToolWaitingApproval, CreatedAt: time.UnixMilli(1)}
}

// TestPoison: one bad row, 99 Sessions unmoved.
func TestPoison(t *testing.T) {
	for name, poison := range poisons() {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, st store.Store) { testPoison(t, st, poison) })
		})
	}
}

func testPoison(t *testing.T, st store.Store, poison func(*world, *Writer) Entry) {
	const n, offender = 100, 37
	w := newWorld(t, st)
	writers := make([]*Writer, n)
	for i := range writers {
		writers[i] = w.session()
	}
	bad := poison(w, writers[offender])
	before := w.kept(writers[offender].sessionID)
	dummy := w.session()
	held, open := w.db.shut(t)
	w.put(dummy, 1)
	<-held
	asked := len(w.db.asked())
	waits := make([]func() error, n)
	for i, writer := range writers { // every part is appended before the next commit
		e := events(writer.Last(), 2)
		if i == offender {
			e = bad
		}
		p, _, err := writer.put(t.Context(), e, true)
		w.ok(err)
		waits[i] = func() error { <-p.done; return p.err }
	}
	open()
	for i, wait := range waits {
		err := wait()
		if i != offender {
			w.ok(err)
			continue
		}
		if !refused(err) {
			t.Fatalf("the offender is told %v", err)
		}
	}
	if tries := len(w.db.asked()) - asked; tries > 2*7+1 {
		t.Errorf("%d commits to find it", tries)
	}
	w.same(w.kept(writers[offender].sessionID), before)
	if err := writers[offender].Put(t.Context(), events(0, 1)); !refused(err) {
		t.Errorf("the offender may go on behind a hole: %v", err)
	}
	again := w.open(writers[offender].sessionID)
	if _, err := w.keep(again, 1); err != nil {
		t.Errorf("its Session cannot go on: %v", err)
	}
	for i, writer := range writers {
		if i == offender {
			continue
		}
		_, err := w.keep(writer, 1)
		w.ok(err)
		w.same(w.kept(writer.sessionID), upTo(3))
	}
}

var errLost = fmt.Errorf("%w: the answer was lost", store.ErrUnknownOutcome)

// A commit whose answer is lost is repeated; a conflict then means that it landed, and
// nothing is kept twice. Which moves it made is not known then.
func TestUnknownOutcome(t *testing.T) {
	for _, landed := range []bool{true, false} {
		for _, n := range []int{0, 3} {
			t.Run(fmt.Sprintf("landed=%t events=%d", landed, n), func(t *testing.T) {
				onBoth(t, func(t *testing.T, st store.Store) { testUnknownOutcome(t, st, landed, n) })
			})
		}
	}
}

func testUnknownOutcome(t *testing.T, st store.Store, landed bool, n int) {
	w := newWorld(t, st)
	writer := w.session()
	call := toolCall(writer.sessionID)
	_, err := w.keep(writer, 0, store.InsertToolCall{ToolCall: call})
	w.ok(err)
	w.loseAnswers(1, landed)
	lost, err := w.keep(writer, n, store.ToolCallTold{ID: call.ID})
	w.ok(err)
	if landed != (len(lost) == 1) {
		t.Errorf("lost moves %v: only after an answer that never came may a move be lost", lost)
	}
	_, err = w.keep(writer, 2)
	w.ok(err)
	w.same(w.kept(writer.sessionID), upTo(n+2))
	got, err := st.ToolCall(t.Context(), store.System(), call.ID)
	w.ok(err)
	if !got.Told {
		t.Error("the move was not made")
	}
}

// loseAnswers makes the next commits end in an unknown outcome, made or not.
func (w *world) loseAnswers(times int, landed bool) {
	w.db.by(func(ctx context.Context, b *store.Batch, pass commitFunc) (store.Result, error) {
		if times == 0 {
			return pass(ctx, b)
		}
		times--
		if landed {
			if res, err := pass(ctx, b); err != nil && !errors.Is(err, store.ErrConflict) {
				return res, err
			}
		}
		return store.Result{}, errLost
	})
}

// A conflict after a lost answer may also be what the Batch would have met the first
// time. It must not be taken for a commit that landed: tails would show what is not kept.
func TestUnknownOutcomeOfAPoison(t *testing.T) {
	for _, n := range []int{0, 1} {
		t.Run(fmt.Sprintf("events=%d", n), func(t *testing.T) {
			onBoth(t, func(t *testing.T, st store.Store) {
				w := newWorld(t, st)
				victim, other := w.session(), w.session()
				taken := toolCall(victim.sessionID)
				_, err := w.keep(victim, 0, store.InsertToolCall{ToolCall: taken})
				w.ok(err)
				w.loseAnswers(2, false)
				good := toolCall(other.sessionID)
				var both sync.WaitGroup
				both.Go(func() {
					if _, err := w.keep(victim, n, store.InsertToolCall{ToolCall: taken}); !errors.Is(err, store.ErrConflict) {
						t.Errorf("the offender is told %v", err)
					}
				})
				both.Go(func() {
					if _, err := w.keep(other, n, store.InsertToolCall{ToolCall: good}); err != nil {
						t.Error(err)
					}
				})
				both.Wait()
				w.same(w.kept(victim.sessionID), nil)
				w.same(w.kept(other.sessionID), upTo(n))
				_, err = st.ToolCall(t.Context(), store.System(), good.ID)
				w.ok(err)
			})
		})
	}
}

// While the store is away a commit is tried again, ever more slowly, and made once.
func TestUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &memory{})
		defer w.stop()
		writer := w.open("s")
		tries, away := 0, time.Now().Add(30*time.Second)
		w.db.by(func(ctx context.Context, b *store.Batch, pass commitFunc) (store.Result, error) {
			tries++
			if time.Now().Before(away) {
				return store.Result{}, store.ErrUnavailable
			}
			return pass(ctx, b)
		})
		if _, err := w.keep(writer, 5); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(away); late > retryMost || tries < 30 || tries > 40 {
			t.Errorf("back %v late, after %d tries", late, tries)
		}
		w.same(w.kept("s"), upTo(5))
	})
}

// A fenced replica writes nothing more, and everybody who waits is told.
func TestFenced(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		w := newWorld(t, st)
		a, b := w.session(), w.session()
		_, err := w.keep(a, 1)
		w.ok(err)
		held, open := w.db.shut(t)
		w.put(a, 1)
		<-held
		w.ok(st.Fence(t.Context(), w.replica))
		p, _, err := b.put(t.Context(), events(0, 1), true)
		w.ok(err)
		open()
		w.is(<-w.ended, store.ErrFenced)
		<-p.done
		w.is(p.err, store.ErrFenced)
		for _, writer := range []*Writer{a, b} {
			w.is(writer.Put(t.Context(), events(0, 1)), store.ErrFenced)
			_, err := w.keep(writer, 1)
			w.is(err, store.ErrFenced)
		}
		w.same(w.kept(a.sessionID), upTo(1))
		w.same(w.kept(b.sessionID), nil)
	})
}

// While the store stalls, Put blocks at a bound; when it is back, all goes on.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &memory{})
		defer w.stop()
		const size, total = 10_000, 1000
		writer, other := w.open("s"), w.open("o")
		held, open := w.db.shut(t)
		w.put(other, 1)
		<-held
		put := 0
		var all sync.WaitGroup
		all.Go(func() {
			for range total {
				if err := writer.Put(t.Context(), Entry{Events: make([]byte, size), N: 1}); err != nil {
					t.Error(err)
				}
				put++
			}
		})
		synctest.Wait()
		if most := maxPartBytes/size + 1; put < most-1 || put > most {
			t.Errorf("%d put while the store stalls, %d fit", put, most)
		}
		w.put(other, 1) // one that has room is not held up
		few, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		blocked := w.open("s") // a full Writer whose caller gives up
		blocked.pending = &part{writer: blocked, row: store.EventRow{Data: make([]byte, maxPartBytes+1)}}
		w.is(blocked.Put(few, events(0, 1)), context.DeadlineExceeded)
		open()
		all.Wait()
		_, err := writer.Keep(t.Context(), Entry{})
		w.ok(err)
		if last, _ := w.db.LastSeq(t.Context(), store.System(), "s"); last != total {
			t.Errorf("%d kept", last)
		}
	})
}

// What was appended before the end is kept, and nothing is taken after it.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &memory{})
		writer := w.open("s")
		w.put(writer, 1)
		w.put(writer, 1)
		w.stop()
		if err := <-w.ended; err != nil {
			t.Error(err)
		}
		w.same(w.kept("s"), upTo(2))
		w.is(writer.Put(t.Context(), events(2, 1)), ErrStopped)
	})
}

// Nobody waits for ever who appends while the Log stops.
func TestStopWhileAppending(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, &memory{})
			var all sync.WaitGroup
			for i := range 8 {
				writer := w.open(fmt.Sprint(i))
				all.Go(func() {
					for {
						if _, err := w.keep(writer, 1); err != nil {
							return
						}
					}
				})
			}
			time.Sleep(12 * time.Millisecond)
			w.stop()
			all.Wait()
		})
	}
}
