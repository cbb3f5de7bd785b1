package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/internal/bubbletest"
	"aqueduct/store"
)

// What all Sessions append while a commit is in flight is the next one: a row a Session,
// in the order they came.
func TestBatching(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		env := newLogEnv(t, st)
		a, b, c := env.session(), env.session(), env.session()
		held, open := env.db.shut(t)
		env.put(a, 1)
		<-held
		env.put(b, 2)
		env.put(a, 3)
		env.put(b, 1)
		env.put(c, 1)
		env.put(a, 1)
		open()
		for _, x := range []*Writer{a, b, c} {
			if _, err := env.keep(x, 0); err != nil {
				t.Fatal(err)
			}
		}
		second := env.db.asked()[1]
		var got []string
		for _, r := range second.Events {
			got = append(got, fmt.Sprintf("%s %d-%d", r.SessionID, r.FirstSeq(), r.LastSeq))
		}
		env.same(got, []string{b.sessionID + " 1-3", a.sessionID + " 2-5", c.sessionID + " 1-1"})
		env.same(env.kept(a.sessionID), upTo(5))
		env.same(env.kept(b.sessionID), upTo(3))
		env.same(env.kept(c.sessionID), upTo(1))
	})
}

// An idle replica commits at once, a busy one about 200 times a second.
func TestLinger(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		env := newLogEnv(t, &memory{})
		defer env.stop()
		writer := env.open("s")
		time.Sleep(time.Minute)
		begun := time.Now()
		if _, err := env.keep(writer, 1); err != nil || time.Since(begun) != 0 {
			t.Fatalf("idle: %v after %v", err, time.Since(begun))
		}
		before := len(env.db.asked())
		for range 10_000 { // ten seconds
			env.put(writer, 1)
			time.Sleep(time.Millisecond)
		}
		if n := len(env.db.asked()) - before; n < 1900 || n > 2001 {
			t.Errorf("%d commits in ten seconds", n)
		}
		if _, err := env.keep(writer, 0); err != nil {
			t.Fatal(err)
		}
		env.same(env.kept("s"), upTo(10_001))
	})
}

// poisons are ways for one Session's part to be refused by the store.
func poisons() map[string]func(env *logEnv, victim *Writer) Entry {
	return map[string]func(env *logEnv, victim *Writer) Entry{
		"ErrData: broken JSON": func(_ *logEnv, victim *Writer) Entry {
			e := events(victim.Last(), 2)
			e.Moves = []store.Move{store.SessionMove{ID: victim.sessionID, State: []byte(`{"broken`), UpdatedAt: time.UnixMilli(2)}}
			return e
		},
		"ErrConflict: id taken": func(env *logEnv, victim *Writer) Entry {
			taken := toolCall(victim.sessionID)
			_, err := env.keep(victim, 0, store.InsertToolCall{ToolCall: taken})
			env.ok(err)
			e := events(victim.Last(), 2)
			e.Moves = []store.Move{store.InsertToolCall{ToolCall: taken}}
			return e
		},
		"ErrConflict: position taken": func(env *logEnv, victim *Writer) Entry {
			other := env.open(victim.sessionID) // as a second owner would
			_, err := env.keep(other, 1)
			env.ok(err)
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

func testPoison(t *testing.T, st store.Store, poison func(*logEnv, *Writer) Entry) {
	const n, offender = 100, 37
	env := newLogEnv(t, st)
	writers := make([]*Writer, n)
	for i := range writers {
		writers[i] = env.session()
	}
	bad := poison(env, writers[offender])
	before := env.kept(writers[offender].sessionID)
	dummy := env.session()
	held, open := env.db.shut(t)
	env.put(dummy, 1)
	<-held
	asked := len(env.db.asked())
	waits := make([]func() error, n)
	for i, writer := range writers { // every part is appended before the next commit
		e := events(writer.Last(), 2)
		if i == offender {
			e = bad
		}
		p, _, err := writer.put(t.Context(), e, true)
		env.ok(err)
		waits[i] = func() error { <-p.done; return p.err }
	}
	open()
	for i, wait := range waits {
		err := wait()
		if i != offender {
			env.ok(err)
			continue
		}
		if !refused(err) {
			t.Fatalf("the offender is told %v", err)
		}
	}
	if tries := len(env.db.asked()) - asked; tries > 2*7+1 {
		t.Errorf("%d commits to find it", tries)
	}
	env.same(env.kept(writers[offender].sessionID), before)
	if err := writers[offender].Put(t.Context(), events(0, 1)); !refused(err) {
		t.Errorf("the offender may go on behind a hole: %v", err)
	}
	again := env.open(writers[offender].sessionID)
	if _, err := env.keep(again, 1); err != nil {
		t.Errorf("its Session cannot go on: %v", err)
	}
	for i, writer := range writers {
		if i == offender {
			continue
		}
		_, err := env.keep(writer, 1)
		env.ok(err)
		env.same(env.kept(writer.sessionID), upTo(3))
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
	env := newLogEnv(t, st)
	writer := env.session()
	call := toolCall(writer.sessionID)
	_, err := env.keep(writer, 0, store.InsertToolCall{ToolCall: call})
	env.ok(err)
	env.loseAnswers(1, landed)
	lost, err := env.keep(writer, n, store.ToolCallInTranscript{ID: call.ID})
	env.ok(err)
	if landed != (len(lost) == 1) {
		t.Errorf("lost moves %v: only after an answer that never came may a move be lost", lost)
	}
	_, err = env.keep(writer, 2)
	env.ok(err)
	env.same(env.kept(writer.sessionID), upTo(n+2))
	got, err := st.ToolCall(t.Context(), store.System(), call.ID)
	env.ok(err)
	if !got.InTranscript {
		t.Error("the move was not made")
	}
}

// loseAnswers makes the next commits end in an unknown outcome, made or not.
func (env *logEnv) loseAnswers(times int, landed bool) {
	env.db.by(func(ctx context.Context, b *store.Batch, pass commitFunc) (store.Result, error) {
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
				env := newLogEnv(t, st)
				victim, other := env.session(), env.session()
				taken := toolCall(victim.sessionID)
				_, err := env.keep(victim, 0, store.InsertToolCall{ToolCall: taken})
				env.ok(err)
				env.loseAnswers(2, false)
				good := toolCall(other.sessionID)
				var both sync.WaitGroup
				both.Go(func() {
					if _, err := env.keep(victim, n, store.InsertToolCall{ToolCall: taken}); !errors.Is(err, store.ErrConflict) {
						t.Errorf("the offender is told %v", err)
					}
				})
				both.Go(func() {
					if _, err := env.keep(other, n, store.InsertToolCall{ToolCall: good}); err != nil {
						t.Error(err)
					}
				})
				both.Wait()
				env.same(env.kept(victim.sessionID), nil)
				env.same(env.kept(other.sessionID), upTo(n))
				_, err = st.ToolCall(t.Context(), store.System(), good.ID)
				env.ok(err)
			})
		})
	}
}

// While the store is away a commit is tried again, ever more slowly, and made once.
func TestUnavailable(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		env := newLogEnv(t, &memory{})
		defer env.stop()
		writer := env.open("s")
		tries, away := 0, time.Now().Add(30*time.Second)
		env.db.by(func(ctx context.Context, b *store.Batch, pass commitFunc) (store.Result, error) {
			tries++
			if time.Now().Before(away) {
				return store.Result{}, store.ErrUnavailable
			}
			return pass(ctx, b)
		})
		if _, err := env.keep(writer, 5); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(away); late > retryMost || tries < 30 || tries > 40 {
			t.Errorf("back %v late, after %d tries", late, tries)
		}
		env.same(env.kept("s"), upTo(5))
	})
}

// A fenced replica writes nothing more, and everybody who waits is told.
func TestFenced(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		env := newLogEnv(t, st)
		a, b := env.session(), env.session()
		_, err := env.keep(a, 1)
		env.ok(err)
		held, open := env.db.shut(t)
		env.put(a, 1)
		<-held
		env.ok(st.Fence(t.Context(), env.replica))
		p, _, err := b.put(t.Context(), events(0, 1), true)
		env.ok(err)
		open()
		env.is(<-env.ended, store.ErrFenced)
		<-p.done
		env.is(p.err, store.ErrFenced)
		for _, writer := range []*Writer{a, b} {
			env.is(writer.Put(t.Context(), events(0, 1)), store.ErrFenced)
			_, err := env.keep(writer, 1)
			env.is(err, store.ErrFenced)
		}
		env.same(env.kept(a.sessionID), upTo(1))
		env.same(env.kept(b.sessionID), nil)
	})
}

// While the store stalls, Put blocks at a bound; when it is back, all goes on.
func TestBackPressure(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		env := newLogEnv(t, &memory{})
		defer env.stop()
		const size, total = 10_000, 1000
		writer, other := env.open("s"), env.open("o")
		held, open := env.db.shut(t)
		env.put(other, 1)
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
		bubbletest.Wait()
		if most := maxPartBytes/size + 1; put < most-1 || put > most {
			t.Errorf("%d put while the store stalls, %d fit", put, most)
		}
		env.put(other, 1) // one that has room is not held up
		few, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		blocked := env.open("s") // a full Writer whose caller gives up
		blocked.pending = &part{writer: blocked, row: store.EventRow{Data: make([]byte, maxPartBytes+1)}}
		env.is(blocked.Put(few, events(0, 1)), context.DeadlineExceeded)
		open()
		all.Wait()
		_, err := writer.Keep(t.Context(), Entry{})
		env.ok(err)
		if last, _ := env.db.LastSeq(t.Context(), store.System(), "s"); last != total {
			t.Errorf("%d kept", last)
		}
	})
}

// What waits when the store comes back is kept in Batches that a store can take, in order.
func TestBacklogIsSplit(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		env := newLogEnv(t, &memory{})
		defer env.stop()
		const size, each, sessions = 100_000, 10, 60 // 60 MB, of no Session more than may wait
		held, open := env.db.shut(t)
		env.put(env.open("first"), 1)
		<-held
		for i := range sessions {
			writer := env.open(fmt.Sprint("s", i))
			for range each {
				env.ok(writer.Put(t.Context(), Entry{Events: make([]byte, size), N: 1}))
			}
		}
		before := len(env.db.asked())
		open()
		_, err := env.open("last").Keep(t.Context(), events(0, 1))
		env.ok(err)
		for _, b := range env.db.asked()[before:] {
			n := 0
			for _, row := range b.Events {
				n += len(row.Data)
			}
			if n > maxBatchBytes+maxPartBytes {
				t.Errorf("a Batch of %d bytes", n)
			}
		}
		for i := range sessions {
			if last, err := env.db.LastSeq(t.Context(), store.System(), fmt.Sprint("s", i)); err != nil || last != each {
				t.Errorf("session %d: %d kept, %v", i, last, err)
			}
		}
	})
}

// What was appended before the end is kept, and nothing is taken after it.
func TestStop(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		env := newLogEnv(t, &memory{})
		writer := env.open("s")
		env.put(writer, 1)
		env.put(writer, 1)
		env.stop()
		if err := <-env.ended; err != nil {
			t.Error(err)
		}
		env.same(env.kept("s"), upTo(2))
		env.is(writer.Put(t.Context(), events(2, 1)), ErrStopped)
	})
}

// Nobody waits for ever who appends while the Log stops.
func TestStopWhileAppending(t *testing.T) {
	for range 200 {
		bubbletest.Test(t, func(t *testing.T) {
			env := newLogEnv(t, &memory{})
			var all sync.WaitGroup
			for i := range 8 {
				writer := env.open(fmt.Sprint(i))
				all.Go(func() {
					for {
						if _, err := env.keep(writer, 1); err != nil {
							return
						}
					}
				})
			}
			time.Sleep(12 * time.Millisecond)
			env.stop()
			all.Wait()
		})
	}
}
