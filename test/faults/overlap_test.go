package faults_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"aqueduct/migrations"
	"aqueduct/test/program"
)

// overlaps are threads of two Runs, "count 5" and "count 3", with the changes that a second writer made to their rows. Each row
// has one event. The log is kept to the first row that does not begin where the one before it ends.
var overlaps = []struct {
	name   string
	change string // of rows of the Session $1
	kept   int64
}{
	{"both-ended", "INSERT INTO events SELECT session_id, 20, 5, ts, data, '' FROM events WHERE session_id = $1 AND last_seq = 16", 16},
	{"in-the-second", "UPDATE events SET n = 3 WHERE session_id = $1 AND last_seq = 13", 12},
	{"in-the-first", "UPDATE events SET n = 2 WHERE session_id = $1 AND last_seq = 6", 5},
	{"a-hole", "DELETE FROM events WHERE session_id = $1 AND last_seq = 4", 3},
	{"from-the-first", "DELETE FROM events WHERE session_id = $1 AND last_seq = 1", 0},
}

// TestOverlappingLogs: a database whose logs have overlapping rows, from a server that let two writers write, is opened.
// The server names the threads; each log is readable up to its break, and the thread takes new messages.
func TestOverlappingLogs(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		h := newServerEnv(t, database)
		logs := make(map[string][]event)
		for _, name := range []string{"whole", "both-ended", "in-the-second", "in-the-first", "a-hole", "from-the-first"} {
			l := newLedger(t, name, 0)
			for run, prompt := range []string{"count 5", "count 3"} {
				all, err := l.post(h.server, fmt.Sprint(name, run), prompt)
				if err != nil {
					t.Fatal(err)
				}
				logs[name] = append(logs[name], all...)
			}
			if len(logs[name]) != 16 {
				t.Fatalf("%s: %d events", name, len(logs[name]))
			}
		}
		h.signal(syscall.SIGTERM)
		h.gone(time.Minute)
		overlap(t, database)
		h.start(program.Shipped)
		for _, c := range overlaps {
			// The server logs this while it serves the first requests.
			for late := time.Now().Add(20 * time.Second); !names(h.log(), c.name, c.kept) && time.Now().Before(late); {
				<-time.After(10 * time.Millisecond)
			}
			if !names(h.log(), c.name, c.kept) {
				t.Errorf("%s: the server does not name the thread and the position %d:\n%s", c.name, c.kept, h.log())
			}
			h.continues(t, c.name, logs[c.name][:c.kept])
		}
		h.continues(t, "whole", logs["whole"])
		if strings.Contains(h.log(), "thread_id=whole") {
			t.Error("the server names a thread whose log is whole")
		}
	})
}

// names reports whether a line of a server's log names a thread whose log was cut.
func names(log, thread string, kept int64) bool {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "overlapping rows") && strings.Contains(line, thread) && strings.Contains(line, fmt.Sprint("kept_to=", kept)) {
			return true
		}
	}
	return false
}

// overlap undoes the migration that keeps overlapping rows out, and changes the rows.
func overlap(t *testing.T, database string) {
	t.Helper()
	driver, dsn, provider := "pgx", database, migrations.PostgresUnlocked
	if path, ok := strings.CutPrefix(database, "sqlite:"); ok {
		driver, dsn, provider = "sqlite", path, migrations.SQLite
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p, err := provider(db)
	if err == nil {
		_, err = p.DownTo(t.Context(), 40)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range overlaps {
		var session string
		if err := db.QueryRow("SELECT session_id FROM sessions WHERE external_id = $1", c.name).Scan(&session); err != nil {
			t.Fatal(err)
		}
		oneARow(t, db, session)
		if _, err := db.Exec(c.change, session); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
}

// oneARow gives each event of a Session a row of its own.
func oneARow(t *testing.T, db *sql.DB, session string) {
	t.Helper()
	rows, err := db.Query("SELECT data FROM events WHERE session_id = $1 ORDER BY last_seq", session)
	if err != nil {
		t.Fatal(err)
	}
	var events [][]byte
	for rows.Next() {
		var data []byte
		if err := rows.Scan(&data); err != nil {
			t.Fatal(err)
		}
		events = append(events, bytes.Split(data, []byte("\n"))...)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("DELETE FROM events WHERE session_id = $1", session); err != nil {
		t.Fatal(err)
	}
	for i, data := range events {
		if _, err := db.Exec("INSERT INTO events (session_id, last_seq, n, ts, data) VALUES ($1, $2, 1, 1, $3)", session, i+1, data); err != nil {
			t.Fatal(err)
		}
	}
}

// continues checks that a thread's log begins with the events that were kept, and that a further message is answered after
// them. It also checks that neither the thread nor a Run of it keeps a reader waiting.
func (h *serverEnv) continues(t *testing.T, thread string, kept []event) {
	t.Helper()
	l := newLedger(t, thread, 0)
	run, err := l.post(h.server, thread+"-new", "count 2")
	if err != nil || oneEnd(t, run) != "RUN_FINISHED" || text(run) != "1 2 " {
		t.Fatalf("%s: a new message is answered by %v, %v\n%s", thread, run, err, h.log())
	}
	_, last := h.settled(t, thread)
	log := h.whole(t, thread, last.LastSeq)
	l.compare(log)
	l.grammar(log)
	for i, e := range kept {
		if log[i] != e {
			t.Errorf("%s, event %d: %s was kept, %s is read", thread, i+1, e.data, log[i].data)
		}
	}
	for _, run := range []string{thread + "0", thread + "1"} {
		in, err := h.stream("GET", "/api/runs/"+run+"/events?after=0", nil)
		if err != nil {
			if !strings.Contains(err.Error(), "HTTP 204") {
				t.Errorf("%s: %v", run, err)
			}
			continue
		}
		if _, err := l.drain(in); err != nil {
			t.Errorf("the stream of %s breaks off: %v", run, err)
		}
	}
	if _, err := h.get("/api/threads/"+thread+"/messages", new(any)); err != nil {
		t.Errorf("%s: %v", thread, err)
	}
}
