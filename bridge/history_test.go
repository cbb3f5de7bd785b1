package bridge

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// pastWorld is a database with one Session, and its transcript as it is cached.
type pastWorld struct {
	*testing.T
	store.MessageReader // the database itself; nothing but Messages is called
	st                  store.Store
	replica             string
	pasts               *transcripts
	reads               int // rows that were read
}

// Messages counts what is read.
func (w *pastWorld) Messages(ctx context.Context, in store.Scope, id string, page store.Page) ([]store.Message, error) {
	rows, err := w.st.Messages(ctx, in, id, page)
	w.reads += len(rows)
	return rows, err
}

func newPastWorld(t *testing.T, budget int) *pastWorld {
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	w := &pastWorld{T: t, st: st, replica: newID()}
	w.pasts = newTranscripts(w, budget)
	if err := st.Register(t.Context(), store.Replica{ID: w.replica, Name: "r"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"s1", "s2"} {
		err := st.InTx(t.Context(), func(tx store.Tx) error {
			return tx.InsertSession(t.Context(), store.Session{ID: id, Tenant: "t", User: "u", ExternalID: id, AgentID: "a", CreatedAt: time.Now(), UpdatedAt: time.Now()})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// agedID is an id that was made a while ago.
func agedID(ago time.Duration) string {
	before, _ := idBefore(newID(), ago)
	return before[:14] + "7" + uuid.NewString()[15:]
}

func pastRow(session, id, name, text string) store.Message {
	m := agui.Message{ID: name, Role: agui.RoleAssistant, Content: agui.Text(text)}
	return store.Message{ID: id, SessionID: session, RunID: "r", ExternalID: name, Role: m.Role, Output: true, Data: m.AppendJSON(nil), CreatedAt: time.Now()}
}

func (w *pastWorld) keep(session, id, name, text string) {
	w.Helper()
	moves := []store.Move{store.UpsertMessage{Message: pastRow(session, id, name, text)}}
	w.pasts.replaced(session, moves)
	if _, err := w.st.Commit(w.Context(), &store.Batch{Replica: w.replica, Moves: moves}); err != nil {
		w.Fatal(err)
	}
}

// says is the transcript, and how many rows were read for it.
func (w *pastWorld) says(session string, limit int) (string, int) {
	w.Helper()
	w.reads = 0
	past, err := w.pasts.of(w.Context(), session, limit)
	if err != nil {
		w.Fatal(err)
	}
	var c Call
	c.gather(past, "r", "r", nil)
	var all []string
	for i := range c.Messages {
		if m := &c.Messages[i]; string(m.AppendKept(nil)) != string(m.AppendJSON(nil)) {
			w.Errorf("kept as %s, read as %s", m.AppendKept(nil), m.AppendJSON(nil))
		}
		all = append(all, c.Messages[i].Content.String())
	}
	return strings.Join(all, " "), w.reads
}

// TestPastIsReadOnce: a prompt reads what has come since a little before the last, also what another
// replica wrote under an id it made a little earlier; what is replaced is read anew.
func TestPastIsReadOnce(t *testing.T) {
	t.Parallel()
	w := newPastWorld(t, historyBudget)
	for i := range 10 {
		w.keep("s1", agedID(time.Hour-time.Duration(i)*time.Minute), fmt.Sprint("old", i), fmt.Sprint(i))
	}
	want := "0 1 2 3 4 5 6 7 8 9"
	if got, read := w.says("s1", 100); got != want || read != 10 {
		t.Errorf("%q, %d read", got, read)
	}
	w.keep("s1", agedID(30*time.Second), "new1", "b")
	if got, read := w.says("s1", 100); got != want+" b" || read > 4 {
		t.Errorf("%q, %d read", got, read)
	}
	w.keep("s1", agedID(time.Minute), "late", "a") // committed after one of a younger id
	if got, read := w.says("s1", 100); got != want+" a b" || read > 4 {
		t.Errorf("%q, %d read", got, read)
	}
	w.keep("s1", newID(), "old3", "three")
	want = strings.Replace(want, "3", "three", 1)
	if got, read := w.says("s1", 100); got != want+" a b" || read != 12 {
		t.Errorf("%q, %d read", got, read)
	}
	if got, _ := w.says("s1", 3); got != "9 a b" {
		t.Errorf("the newest three are %q", got)
	}
	w.pasts.drop("s1")
	if _, read := w.says("s1", 100); read != 12 {
		t.Errorf("%d read after it was dropped", read)
	}
}

// TestPastHasABudget: what was used longest ago leaves first, and one alone that is too large
// is not kept at all.
func TestPastHasABudget(t *testing.T) {
	t.Parallel()
	row := pastRow("s1", newID(), "m", strings.Repeat("x", 1000))
	one := pastMessage{row: row}
	w := newPastWorld(t, 15*one.size())
	for i := range 10 {
		for _, s := range []string{"s1", "s2"} {
			w.keep(s, agedID(time.Hour-time.Duration(i)*time.Minute), fmt.Sprint("m", i), strings.Repeat("x", 1000))
		}
	}
	for i, s := range []string{"s1", "s1", "s2", "s2", "s1"} {
		if _, read := w.says(s, 100); (read == 10) == (i == 1 || i == 3) {
			t.Errorf("step %d reads %d of %s", i, read, s)
		}
	}
	if w.pasts.bytes > w.pasts.budget || w.pasts.used.Len() != len(w.pasts.byID) {
		t.Errorf("%d of %d bytes in %d Sessions", w.pasts.bytes, w.pasts.budget, w.pasts.used.Len())
	}
	w.pasts.budget = one.size()
	w.says("s2", 100)
	if w.pasts.bytes != 0 || w.pasts.used.Len() != 0 {
		t.Errorf("%d bytes are kept", w.pasts.bytes)
	}
}
