package eventlog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

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
		w, heard := newWorld(t, st), &journal{}
		writer := w.session()
		held, open := w.db.shut(t)
		put := func(n int, mark string) {
			e := events(writer.Last(), n)
			e.Mark, e.Kept = mark, heard.add(mark)
			w.ok(writer.Put(t.Context(), e))
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
		_, err := w.keep(writer, 0)
		w.ok(err)
		w.same(heard.all(), []string{"a", "b", "c", ""})
		mark, err := st.LastMark(t.Context(), store.System(), writer.sessionID)
		w.ok(err)
		rows, err := st.Events(t.Context(), store.System(), writer.sessionID, 0, 1<<20)
		w.ok(err)
		if len(rows) != 2 || rows[0].Mark != "a" || rows[1].Mark != "c" || mark != "c" {
			t.Fatalf("%+v, newest %q", rows, mark)
		}
	})
}

// What a request keeps beside a Writer is in the next commit, which is not put off for it, and
// it hears which of its moves were lost, or that the store refused them.
func TestKeepBesideAWriter(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		w := newWorld(t, st)
		writer := w.session()
		call := func(id string, turn string) store.Move {
			return store.TakeToolCall{ToolCall: store.ToolCall{ID: id, SessionID: writer.sessionID, TurnID: turn, Name: "x", Kind: store.KindServer,
				Status: store.ToolRunning, CreatedAt: time.Now()}}
		}
		turn := store.Turn{ID: uuid.NewString(), SessionID: writer.sessionID, AgentID: "a", Status: store.TurnRunning, CreatedAt: time.Now()}
		w.ok(st.InTx(t.Context(), func(tx store.Tx) error { return tx.InsertTurn(t.Context(), turn) }))
		w.ok(writer.Put(t.Context(), events(0, 3)))
		record := store.Record{ID: uuid.NewString(), SessionID: writer.sessionID, TurnID: turn.ID, Source: store.SourcePlatform, Type: "kept", TS: time.Now()}
		lost, err := w.log.Keep(t.Context(), writer.sessionID, []store.Move{call("1", turn.ID), call("2", "none"), call("1", turn.ID)}, []store.Record{record})
		w.ok(err)
		if !slices.Equal(lost, []int{1, 2}) {
			t.Errorf("lost %v", lost)
		}
		records, err := st.RecordsOfTurn(t.Context(), store.System(), turn.ID, store.Page{})
		w.ok(err)
		if len(records) != 1 {
			t.Errorf("%d records", len(records))
		}
		if _, err := w.log.Keep(t.Context(), writer.sessionID, nil, []store.Record{record}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("the same record again: %v", err)
		}
		if _, err := w.keep(writer, 1); err != nil {
			t.Errorf("the Writer beside what was refused: %v", err)
		}
	})
}

// Nothing but a Kept costs no commit.
func TestKeptAloneIsNoCommit(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		w, heard := newWorld(t, st), &journal{}
		writer := w.session()
		if _, err := writer.Keep(t.Context(), Entry{Mark: "m", Kept: heard.add("m")}); err != nil {
			t.Fatal(err)
		}
		w.same(heard.all(), []string{"m"})
		if n := len(w.db.asked()); n != 0 {
			t.Fatalf("%d commits", n)
		}
	})
}

func TestKeptIsNotCalledForARefusedEntry(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		w, heard := newWorld(t, st), &journal{}
		writer := w.session()
		for name, make := range poisons() {
			e := make(w, writer)
			e.Kept = heard.add(name)
			if _, err := writer.Keep(t.Context(), e); err == nil {
				t.Fatalf("%s was kept", name)
			}
			writer = w.session()
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
func (w *world) noteAndWait(r store.Record) {
	w.t.Helper()
	kept := make(chan struct{})
	w.ok(w.log.Note(w.t.Context(), []store.Record{r}, func() { close(kept) }))
	<-kept
}

// A Note needs no Writer, knows the position when it can be known, and one that is refused
// harms neither other Notes nor Writers.
func TestNotes(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		w, heard := newWorld(t, st), &journal{}
		writer := w.session()
		w.put(writer, 3)
		_, err := w.keep(writer, 0)
		w.ok(err)
		held, open := w.db.shut(t)
		w.ok(w.log.Note(t.Context(), []store.Record{note(writer, `{"n":0}`)}, heard.add("first")))
		<-held
		w.ok(w.log.Note(t.Context(), []store.Record{note(writer, `{"n":1}`), note(writer, `{"n":2}`)}, heard.add("good")))
		w.ok(w.log.Note(t.Context(), []store.Record{note(writer, `{broken`)}, heard.add("bad")))
		w.put(writer, 1)
		w.ok(w.log.Note(t.Context(), []store.Record{note(writer, `{"n":3}`)}, nil))
		open()
		_, err = w.keep(writer, 0)
		w.ok(err)
		w.noteAndWait(note(writer, `{"n":4}`))
		w.same(heard.all(), []string{"first", "good"})
		records, err := st.RecordsOfTurn(t.Context(), store.System(), "t", store.Page{})
		w.ok(err)
		var got []string
		for _, r := range records {
			got = append(got, string(r.Payload))
		}
		w.same(got, []string{`{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`})
		if records[0].AtSeq != 3 || records[4].AtSeq != 4 {
			t.Errorf("at %d and %d", records[0].AtSeq, records[4].AtSeq)
		}
		w.same(w.kept(writer.sessionID), upTo(4))
	})
}

// While too much waits a Note waits too, and goes on once there is room or its context ends.
func TestNotesAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		w := newWorld(t, st)
		writer := w.session()
		held, open := w.db.shut(t)
		w.ok(w.log.Note(t.Context(), []store.Record{note(writer, `{}`)}, nil))
		<-held
		w.ok(w.log.Note(t.Context(), []store.Record{note(writer, `"`+strings.Repeat("x", maxNoteBytes)+`"`)}, nil))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		w.is(w.log.Note(ended, []store.Record{note(writer, `{}`)}, nil), context.Canceled)
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() { w.ok(w.log.Note(t.Context(), []store.Record{note(writer, `{}`)}, nil)) })
		}
		open()
		waiting.Wait()
		w.noteAndWait(note(writer, `{}`))
		w.stop()
		w.is(w.log.Note(t.Context(), []store.Record{note(writer, `{}`)}, nil), ErrStopped)
		records, err := st.RecordsOfTurn(t.Context(), store.System(), "t", store.Page{})
		w.ok(err)
		if len(records) != 6 {
			t.Errorf("%d records", len(records))
		}
	})
}

func TestStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &memory{})
		defer w.stop()
		writer := w.open("s")
		held, open := w.db.shut(t)
		w.put(writer, 1)
		<-held
		time.Sleep(stalledAfter)
		if w.log.Stalled() {
			t.Error("stalled too soon")
		}
		time.Sleep(time.Millisecond)
		if !w.log.Stalled() {
			t.Error("not stalled")
		}
		open()
		if _, err := w.keep(writer, 0); err != nil || w.log.Stalled() {
			t.Errorf("still stalled: %v", err)
		}
	})
}
