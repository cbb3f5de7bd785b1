package eventlog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/internal/bubbletest"
	"aqueduct/store"
)

// journal is what was called back, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) func() {
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines = append(j.lines, line)
	}
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// The newest mark of what shares a row stands on it; everybody hears of the commit once it
// is made, in order, an Entry without events too.
func TestMarksAreKeptWithTheirEvents(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		env, heard := newLogEnv(t, st), &journal{}
		writer := env.session()
		held, open := env.db.shut(t)
		put := func(n int, mark string) {
			e := events(writer.Last(), n)
			e.Cursor, e.Kept = mark, heard.add(mark)
			env.ok(writer.Put(t.Context(), e))
		}
		put(1, "a")
		<-held
		put(2, "b")
		put(0, "c")
		put(1, "")
		if got := heard.all(); len(got) > 0 {
			t.Fatalf("heard %v before the commit", got)
		}
		open()
		_, err := env.keep(writer, 0)
		env.ok(err)
		env.same(heard.all(), []string{"a", "b", "c", ""})
		mark, err := st.LastCursor(t.Context(), store.System(), writer.sessionID)
		env.ok(err)
		rows, err := st.Events(t.Context(), store.System(), writer.sessionID, 0, 1<<20)
		env.ok(err)
		if len(rows) != 2 || rows[0].Cursor != "a" || rows[1].Cursor != "c" || mark != "c" {
			t.Fatalf("%+v, newest %q", rows, mark)
		}
	})
}

// What a request keeps beside a Writer is in the next commit, which is not put off for it, and
// it hears which of its moves were lost, or that the store refused them.
func TestKeepBesideAWriter(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		env := newLogEnv(t, st)
		writer := env.session()
		call := func(id string, turn string) store.Move {
			return store.TakeToolCall{ToolCall: store.ToolCall{ID: id, SessionID: writer.sessionID, TurnID: turn, Name: "x", Kind: store.KindServer,
				Status: store.ToolRunning, CreatedAt: time.Now()}}
		}
		turn := store.Turn{ID: uuid.NewString(), SessionID: writer.sessionID, AgentID: "a", Status: store.TurnRunning, CreatedAt: time.Now()}
		env.ok(st.InTx(t.Context(), func(tx store.Tx) error { return tx.InsertTurn(t.Context(), turn) }))
		env.ok(writer.Put(t.Context(), events(0, 3)))
		record := store.Record{ID: uuid.NewString(), SessionID: writer.sessionID, TurnID: turn.ID, Source: store.SourcePlatform, Type: "kept", TS: time.Now()}
		lost, err := env.log.Keep(t.Context(), writer.sessionID, []store.Move{call("1", turn.ID), call("2", "none"), call("1", turn.ID)}, []store.Record{record})
		env.ok(err)
		if !slices.Equal(lost, []int{1, 2}) {
			t.Errorf("lost %v", lost)
		}
		records, err := st.RecordsOfTurn(t.Context(), store.System(), turn.ID, store.Page{})
		env.ok(err)
		if len(records) != 1 {
			t.Errorf("%d records", len(records))
		}
		if _, err := env.log.Keep(t.Context(), writer.sessionID, nil, []store.Record{record}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("the same record again: %v", err)
		}
		if _, err := env.keep(writer, 1); err != nil {
			t.Errorf("the Writer beside what was refused: %v", err)
		}
	})
}

// Nothing but a Kept costs no commit.
func TestKeptAloneIsNoCommit(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		env, heard := newLogEnv(t, st), &journal{}
		writer := env.session()
		if _, err := writer.Keep(t.Context(), Entry{Cursor: "m", Kept: heard.add("m")}); err != nil {
			t.Fatal(err)
		}
		env.same(heard.all(), []string{"m"})
		if n := len(env.db.asked()); n != 0 {
			t.Fatalf("%d commits", n)
		}
	})
}

func TestKeptIsNotCalledForARefusedEntry(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		env, heard := newLogEnv(t, st), &journal{}
		writer := env.session()
		for name, make := range poisons() {
			e := make(env, writer)
			e.Kept = heard.add(name)
			if _, err := writer.Keep(t.Context(), e); err == nil {
				t.Fatalf("%s was kept", name)
			}
			writer = env.session()
		}
		if got := heard.all(); len(got) > 0 {
			t.Fatalf("heard of %v", got)
		}
	})
}

func note(w *Writer, payload string) store.Record {
	return store.Record{
		ID: uuid.Must(uuid.NewV7()).String(), SessionID: w.sessionID, TurnID: "t", Source: store.SourceACP, Type: "x",
		TS: time.UnixMilli(1), Payload: []byte(payload),
	}
}

// noteAndWait returns when the Record, and so all before it, is kept.
func (env *logEnv) noteAndWait(r store.Record) {
	env.t.Helper()
	kept := make(chan struct{})
	env.ok(env.log.Note(env.t.Context(), []store.Record{r}, func() { close(kept) }))
	<-kept
}

// A Note needs no Writer, knows the position when it can be known, and one that is refused
// harms neither other Notes nor Writers.
func TestNotes(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		env, heard := newLogEnv(t, st), &journal{}
		writer := env.session()
		env.put(writer, 3)
		_, err := env.keep(writer, 0)
		env.ok(err)
		held, open := env.db.shut(t)
		env.ok(env.log.Note(t.Context(), []store.Record{note(writer, `{"n":0}`)}, heard.add("first")))
		<-held
		env.ok(env.log.Note(t.Context(), []store.Record{note(writer, `{"n":1}`), note(writer, `{"n":2}`)}, heard.add("good")))
		env.ok(env.log.Note(t.Context(), []store.Record{note(writer, `{broken`)}, heard.add("bad")))
		env.put(writer, 1)
		env.ok(env.log.Note(t.Context(), []store.Record{note(writer, `{"n":3}`)}, nil))
		open()
		_, err = env.keep(writer, 0)
		env.ok(err)
		env.noteAndWait(note(writer, `{"n":4}`))
		env.same(heard.all(), []string{"first", "good"})
		records, err := st.RecordsOfTurn(t.Context(), store.System(), "t", store.Page{})
		env.ok(err)
		var got []string
		for _, r := range records {
			got = append(got, string(r.Payload))
		}
		env.same(got, []string{`{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`})
		if records[0].AtSeq != 3 || records[4].AtSeq != 4 {
			t.Errorf("at %d and %d", records[0].AtSeq, records[4].AtSeq)
		}
		env.same(env.kept(writer.sessionID), upTo(4))
	})
}

// While too much waits a Note waits too, and goes on once there is room or its context ends.
func TestNotesAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		env := newLogEnv(t, st)
		writer := env.session()
		held, open := env.db.shut(t)
		env.ok(env.log.Note(t.Context(), []store.Record{note(writer, `{}`)}, nil))
		<-held
		env.ok(env.log.Note(t.Context(), []store.Record{note(writer, `"`+strings.Repeat("x", maxNoteBytes)+`"`)}, nil))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		env.is(env.log.Note(ended, []store.Record{note(writer, `{}`)}, nil), context.Canceled)
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() { env.ok(env.log.Note(t.Context(), []store.Record{note(writer, `{}`)}, nil)) })
		}
		open()
		waiting.Wait()
		env.noteAndWait(note(writer, `{}`))
		env.stop()
		env.is(env.log.Note(t.Context(), []store.Record{note(writer, `{}`)}, nil), ErrStopped)
		records, err := st.RecordsOfTurn(t.Context(), store.System(), "t", store.Page{})
		env.ok(err)
		if len(records) != 6 {
			t.Errorf("%d records", len(records))
		}
	})
}

func TestStalled(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		env := newLogEnv(t, &memory{})
		defer env.stop()
		writer := env.open("s")
		held, open := env.db.shut(t)
		env.put(writer, 1)
		<-held
		time.Sleep(stalledAfter)
		if env.log.Stalled() {
			t.Error("stalled too soon")
		}
		time.Sleep(time.Millisecond)
		if !env.log.Stalled() {
			t.Error("not stalled")
		}
		open()
		if _, err := env.keep(writer, 0); err != nil || env.log.Stalled() {
			t.Errorf("still stalled: %v", err)
		}
	})
}
