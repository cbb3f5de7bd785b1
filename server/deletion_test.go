package server_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// secret is a word that is nowhere but in the thread that is deleted.
const secret = "Quetzalcoatlus"

// tells sends the word in every kind of event, then asks; to an answer it asks again, and so never ends.
func tells(_ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
	id := uuid.NewString()
	say(event(&agui.ReasoningMessageStart{MessageID: id + "r"}), event(&agui.ReasoningMessageContent{MessageID: id + "r", Delta: secret}),
		event(&agui.ReasoningMessageEnd{MessageID: id + "r"}),
		event(&agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant}), event(&agui.TextMessageContent{MessageID: id, Delta: secret}), event(&agui.TextMessageEnd{MessageID: id}),
		event(&agui.ToolCallStart{ToolCallID: id + "c", ToolCallName: "f"}), event(&agui.ToolCallArgs{ToolCallID: id + "c", Delta: `"` + secret + `"`}),
		event(&agui.ToolCallEnd{ToolCallID: id + "c"}), event(&agui.ToolCallResult{MessageID: id + "t", ToolCallID: id + "c", Content: agui.Text(secret)}),
		event(&agui.StateSnapshot{Snapshot: json.RawMessage(`{"word":"` + secret + `"}`)}),
		event(&agui.ActivitySnapshot{MessageID: id + "a", ActivityType: "plan", Content: json.RawMessage(`{"word":"` + secret + `"}`)}))
	q := permission("q" + id)
	q.Question.Title, q.Question.Args = secret, json.RawMessage(`{"path":"/`+secret+`"}`)
	say(q)
}

// TestDeletion: no row has a word of a thread that was deleted, on both databases; its id may be used again, and other
// threads are as they were.
func TestDeletion(t *testing.T) {
	t.Parallel()
	lite, dsn := "", ""
	for name, db := range map[string]struct {
		open   func(t testing.TB) (store.Store, error)
		tables func(t *testing.T) (words map[string]int)
	}{
		"SQLite": {func(t testing.TB) (store.Store, error) {
			lite = storetest.SQLite(t)
			return sqlite.Open(t.Context(), lite, sqlite.Options{Sent: sentSQLite.Note})
		}, func(t *testing.T) map[string]int {
			return searched(t, "sqlite", lite, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", "PRAGMA table_info(%s)", 1)
		}},
		"PostgreSQL": {func(t testing.TB) (store.Store, error) {
			dsn = storetest.Postgres(t)
			return postgres.Open(t.Context(), dsn, postgres.Options{Tracer: &sentPostgres})
		}, func(t *testing.T) map[string]int {
			return searched(t, "pgx", dsn, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
				"SELECT column_name FROM information_schema.columns WHERE table_name = '%s'", 0)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newEnvWith(t, tells, plan{open: db.open})
			h.fill("T")
			words := db.tables(t)
			for _, table := range strings.Fields("sessions turns runs events records messages message_parts context_blobs tool_calls approvals grants outbox sandbox_instances") {
				if words[table] == 0 {
					t.Errorf("before: no word in %s, so nothing is tried there", table)
				}
			}
			tail := h.open(h.request("GET", "/api/threads/T/events", ""))
			trace := h.open(h.request("GET", "/v1/sessions/T/events", "", "Accept", "text/event-stream"))
			if got := h.do("DELETE", "/api/threads/T", ""); got.status != 204 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			for table, n := range db.tables(t) {
				if n > 0 {
					t.Errorf("%s has the word %d times", table, n)
				}
			}
			if lite != "" {
				for _, path := range []string{lite, lite + "-wal"} {
					raw, err := os.ReadFile(path)
					if err != nil && !errors.Is(err, os.ErrNotExist) || bytes.Contains(raw, []byte(secret)) {
						t.Errorf("%s: %v, the word is in it: %t", path, err, bytes.Contains(raw, []byte(secret)))
					}
				}
				lite = ""
			}
			for _, r := range []*reader{tail, trace} {
				if _, err := r.until(func(frame) bool { return false }); !errors.Is(err, io.EOF) {
					t.Errorf("an open tail did not end well: %v", err)
				}
			}
			isProblem(t, h.do("GET", "/api/threads/T/messages", ""), 404)
			h.open(h.prompt("T", "R1", "again")).rest()
			if list, _ := h.snapshotOf("T"); len(list) == 0 || list[0].ID != "u-R1" || list[0].Content.Text != "again" {
				t.Errorf("the id is not free: %+v", list)
			}
			if len(h.deeds()) < 2 {
				t.Errorf("the audit has only %v", h.deeds())
			}
		})
	}
}

// askedBeside is an open question that is another than the one named; "" for none.
func (h *env) askedBeside(than string) string {
	h.t.Helper()
	rows, err := h.store.Approvals(h.t.Context(), store.System(), store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, row := range rows {
		if row.ID != than {
			return row.ID
		}
	}
	return ""
}

// fill sends the word on every surface of a thread, and leaves a Turn under way.
func (h *env) fill(thread string) {
	h.t.Helper()
	data := bytes.Repeat([]byte(secret+" "), 8<<10)
	body := fmt.Sprintf(`{"threadId":%q,"runId":"R1","protocolVersion":"1.0","state":{"w":%[2]q},"context":[{"description":"d","value":%[2]q}],"forwardedProps":{"w":%[2]q},
		"tools":[{"name":"mine","description":%[2]q}],"messages":[{"id":"u1","role":"user","content":[{"type":"text","text":%[2]q},
		{"type":"document","source":{"type":"data","value":%[3]q,"mimeType":"text/plain"}}]}]}`, thread, secret, base64.StdEncoding.EncodeToString(data))
	h.open(h.request("POST", "/api/agui/chat", body)).rest()
	first := h.question()
	if got := h.decide(first, `{"option_id":"ever","reason":"`+secret+`"}`); got.status != 200 {
		h.t.Fatalf("%d %s", got.status, got.body)
	}
	for end := time.Now().Add(time.Minute); h.askedBeside(first) == ""; { // it asks again
		if time.Now().After(end) {
			h.t.Fatal("it did not ask again")
		}
		time.Sleep(time.Millisecond)
	}
	if got := h.do("PATCH", "/api/threads/"+thread, `{"title":"`+secret+`"}`); got.status != 200 {
		h.t.Fatalf("%d %s", got.status, got.body)
	}
	h.mints(fmt.Sprintf(`{"owner_type":"session","owner_id":%q,"content":%q}`, thread, secret))
	ctx := h.t.Context()
	s, err := h.store.SessionByExternalID(ctx, scope(), thread)
	if err != nil {
		h.t.Fatal(err)
	}
	id := func() string { return uuid.Must(uuid.NewV7()).String() }
	word, now := []byte(`{"word":"`+secret+`"}`), time.Now()
	question := h.askedBeside(first) // it reads by the store, and may end the test: not inside a transaction
	err = h.store.InTx(ctx, func(tx store.Tx) error {
		last, err := tx.LastRun(ctx, scope(), s.ID)
		if err != nil {
			return err
		}
		_, used := tx.UseLink(ctx, store.UsedLink{ID: id(), ApprovalID: question, Tenant: s.Tenant, User: s.User, UsedAt: now, ExpiresAt: now.Add(time.Hour)})
		return errors.Join(used,
			tx.InsertRecord(ctx, store.Record{ID: id(), SessionID: s.ID, Source: store.SourceACP, Type: "x", TS: now, Payload: word}),
			tx.InsertOutbox(ctx, store.OutboxItem{ID: id(), SessionID: s.ID, Kind: "k", Payload: word, CreatedAt: now, NextAt: now.Add(time.Hour)}),
			tx.InsertGrant(ctx, store.Grant{ID: id(), Tenant: s.Tenant, User: s.User, SessionID: s.ID, Match: word, CreatedAt: now}),
			tx.UpsertSandboxInstance(ctx, store.SandboxInstance{SessionID: s.ID, ProxyID: "p", Init: word, CreatedAt: now, UpdatedAt: now}),
			tx.InsertToolCall(ctx, store.ToolCall{ID: id(), SessionID: s.ID, TurnID: last.TurnID, Name: "f", Kind: store.KindServer, Status: store.ToolSucceeded, Args: word, Result: word, CreatedAt: now}),
		)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// searched counts the values of every table that hold the word, in plain text or as the bytes of a blob.
func searched(t *testing.T, driver, dsn, tables, columns string, name int) map[string]int {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	words := make(map[string]int)
	for _, table := range columnOf(t, db, tables, 0) {
		words[table] = 0
		for _, column := range columnOf(t, db, fmt.Sprintf(columns, table), name) {
			for _, value := range columnOf(t, db, fmt.Sprintf(`SELECT CAST("%s" AS TEXT) FROM "%s"`, column, table), 0) {
				if strings.Contains(value, secret) || strings.Contains(value, hex.EncodeToString([]byte(secret))) || strings.Contains(value, base64.StdEncoding.EncodeToString([]byte(secret + " "))[:16]) {
					words[table]++
				}
			}
		}
	}
	if len(words) < 15 {
		t.Fatalf("only %d tables were searched", len(words))
	}
	return words
}

// columnOf is one column of a query's answer.
func columnOf(t *testing.T, db *sql.DB, query string, column int) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(query, err)
		}
		all = append(all, values[column].String)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDeletionIsFinished: what a request, a replica that died or an earlier version left of a hidden thread is removed.
func TestDeletionIsFinished(t *testing.T) {
	t.Parallel()
	id := uuid.Must(uuid.NewV7()).String()
	h := newEnvWith(t, saysN(1), plan{open: func(t testing.TB) (store.Store, error) {
		st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{Sent: sentSQLite.Note})
		if err != nil {
			return nil, err
		}
		return st, st.InTx(t.Context(), func(tx store.Tx) error {
			now := time.Now().Add(-time.Hour)
			return errors.Join(
				tx.InsertSession(t.Context(), store.Session{ID: id, Tenant: "local", User: "local", ExternalID: "T", AgentID: "scripted", CreatedAt: now, UpdatedAt: now}),
				tx.InsertMessage(t.Context(), store.Message{ID: uuid.NewString(), SessionID: id, ExternalID: "m", Role: "user", Data: []byte(`{}`), CreatedAt: now}),
				tx.DeleteSession(t.Context(), id, now))
		})
	}})
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := h.store.DeletedSessions(t.Context(), store.System(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-time.After(20 * time.Second):
			t.Fatal("it is still there")
		}
	}
}

// TestDeletedAsItsRunEnds: a Run's stream whose thread is deleted before the end of the Run was read is broken off: it never
// ended. The thread is deleted behind the engine's back here, which is as if that event had been purged.
func TestDeletedAsItsRunEnds(t *testing.T) {
	t.Parallel()
	h := newEnv(t, func(ctx context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
		<-ctx.Done()
		say(bridge.Output{End: &bridge.End{}})
	})
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	r := h.open(h.request("POST", "/api/agui/chat", inputBody("T", "R", "go")).WithContext(ctx))
	if _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	s, err := h.store.SessionByExternalID(t.Context(), scope(), "T")
	if err == nil {
		err = h.store.InTx(t.Context(), func(tx store.Tx) error { return tx.DeleteSession(t.Context(), s.ID, time.Now()) })
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.until(func(frame) bool { return false }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}
