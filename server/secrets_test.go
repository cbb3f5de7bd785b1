package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// planted are texts that hold secrets of every form, and what must be nowhere of them.
var planted = []struct{ text, secret string }{
	{"sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8t", "Ab3dEf6hIj9kLm2nOp5qRs8t"},
	{"ghp_16C7e42F292c6912E7710c838347Ae178B4a", "16C7e42F292c6912E7710c838347Ae178B4a"},
	{"AKIAIOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"},
	{"AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"},
	{"xoxb-2345678901-AbCdEfGhIjKl", "2345678901-AbCdEfGhIjKl"},
	{"Authorization: Bearer q7Jf93kdPz02mLxVbn", "q7Jf93kdPz02mLxVbn"},
	{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", "eyJzdWIiOiIxMjM0NTY3ODkwIn0"},
	{"-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo4lgO\nEePzNm0tRgeLezV6ffAt0gun\n-----END PRIVATE KEY-----", "EePzNm0tRgeLezV6ffAt0gun"},
	{"Cookie: sid=8f3kd92mfk44", "8f3kd92mfk44"},
	{"DB_PASSWORD=hunter2hunter2", "hunter2hunter2"},
	{"postgres://app:s3cr3tpw99@db:5432/x", "s3cr3tpw99"},
	{"ACME-4711-qwertz", "ACME-4711-qwertz"}, // a configured pattern
}

// plants is all of them in one text.
func plants() string {
	texts := make([]string, len(planted))
	for i, p := range planted {
		texts[i] = p.text
	}
	return strings.Join(texts, "\n")
}

// left are the secrets that stand in a text, as they are or in a form that is as good.
func left(text string) (found []string) {
	for _, p := range planted {
		for _, form := range []string{p.secret, hex.EncodeToString([]byte(p.secret)), base64.StdEncoding.EncodeToString([]byte(p.secret + "  "))[:12]} {
			if strings.Contains(text, form) {
				found = append(found, form)
			}
		}
	}
	return found
}

func newSecrets(t testing.TB) redact.Hasher {
	t.Helper()
	filter, err := redact.New([]string{`ACME-\d{4}-[a-z]+`})
	if err != nil {
		t.Fatal(err)
	}
	vault, err := redact.NewVault(redact.NewKeyLine())
	if err != nil {
		t.Fatal(err)
	}
	return redact.Hasher{Filter: filter, Vault: vault}
}

// leaks sends the secrets in every kind of event, whole and cut, then asks, and fails with them when it is answered.
func leaks(_ context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
	all, id := plants(), uuid.NewString()
	quoted := string(mustJSON(all))
	if len(answers) > 0 {
		say(bridge.Output{End: &bridge.End{Failure: fault.New("upstream_error", "It said "+all)}})
		return
	}
	pieces := func(text string, n int, each func(delta string) agui.Event) {
		for text != "" {
			piece := text[:min(n, len(text))]
			text = text[len(piece):]
			say(event(each(piece)))
		}
	}
	say(event(&agui.ReasoningMessageStart{MessageID: id + "r"}), event(&agui.ReasoningMessageContent{MessageID: id + "r", Delta: all}), event(&agui.ReasoningMessageEnd{MessageID: id + "r"}))
	for _, n := range []int{1, 7, 1000} {
		m := fmt.Sprint(id, "m", n)
		say(event(&agui.TextMessageStart{MessageID: m, Role: agui.RoleAssistant}))
		pieces(all, n, func(d string) agui.Event { return &agui.TextMessageContent{MessageID: m, Delta: d} })
		say(event(&agui.TextMessageEnd{MessageID: m}))
		c := fmt.Sprint(id, "c", n)
		say(event(&agui.ToolCallStart{ToolCallID: c, ToolCallName: "f"}))
		pieces(`{"text":`+quoted+`}`, n, func(d string) agui.Event { return &agui.ToolCallArgs{ToolCallID: c, Delta: d} })
		say(event(&agui.ToolCallEnd{ToolCallID: c}), event(&agui.ToolCallResult{MessageID: c + "t", ToolCallID: c, Content: agui.Text(all)}))
	}
	say(event(&agui.StateSnapshot{Snapshot: json.RawMessage(`{"word":` + quoted + `,"n":1}`)}),
		event(&agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"/more","value":` + quoted + `}]`)}),
		event(&agui.ActivitySnapshot{MessageID: id + "a", ActivityType: "plan", Content: json.RawMessage(`{"word":` + quoted + `}`)}),
		event(&agui.Custom{Name: "x", Value: json.RawMessage(quoted)}))
	q := permission("q" + id)
	q.Question.Title, q.Question.Args = all, json.RawMessage(`{"path":`+quoted+`}`)
	say(q)
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// TestS31SecretsAtRest: secrets that come in by any way stand in no table, no file, no answer and no stream, on both
// databases; agents and tools get the original text.
func TestS31SecretsAtRest(t *testing.T) {
	t.Parallel()
	lite, dsn := "", ""
	for name, db := range map[string]struct {
		open   func(t testing.TB) (store.Store, error)
		tables func(t *testing.T) map[string][]string
	}{
		"SQLite": {func(t testing.TB) (store.Store, error) {
			lite = storetest.SQLite(t)
			return sqlite.Open(t.Context(), lite, sqlite.Options{Sent: sentSQLite.Note})
		}, func(t *testing.T) map[string][]string {
			return dumped(t, "sqlite", lite, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", "PRAGMA table_info(%s)", 1)
		}},
		"PostgreSQL": {func(t testing.TB) (store.Store, error) {
			dsn = storetest.Postgres(t)
			return postgres.Open(t.Context(), dsn, postgres.Options{Tracer: &sentPostgres})
		}, func(t *testing.T) map[string][]string {
			return dumped(t, "pgx", dsn, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
				"SELECT column_name FROM information_schema.columns WHERE table_name = '%s'", 0)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newEnvWith(t, leaks, plan{open: db.open, secrets: newSecrets(t)})
			all := string(mustJSON(plants()))
			document := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(plants()+"\n"), 300))
			body := fmt.Sprintf(`{"threadId":"T","runId":"R1","protocolVersion":"1.0","state":{"w":%[1]s},"context":[{"description":"d","value":%[1]s}],"forwardedProps":{"w":%[1]s},
				"tools":[{"name":"mine","description":%[1]s}],"messages":[{"id":"u1","role":"user","content":[{"type":"text","text":%[1]s},
				{"type":"document","source":{"type":"data","value":%[2]q,"mimeType":"text/plain"}}]}]}`, all, document)
			said := h.open(h.request("POST", "/api/agui/chat", body, "x-request-id", planted[0].text, "Cookie", "sid=8f3kd92mfk44")).rest()
			stream := ""
			for _, f := range said {
				stream += f.data + "\n"
			}
			if found := left(stream); len(found) > 0 || !strings.Contains(stream, redact.Mask) {
				t.Errorf("the stream has %q", found)
			}
			first := h.agent.prompts()[0]
			if got := first.Prompt[0].Content.String(); !strings.Contains(got, plants()) {
				t.Errorf("the agent was not called with what was said: %q", got)
			}
			if !strings.Contains(string(first.ForwardedProps), planted[0].secret) || !strings.Contains(first.Context[0].Value, planted[0].secret) {
				t.Errorf("the agent has %s %v", first.ForwardedProps, first.Context)
			}
			if raw := string(mustJSON(first.Prompt)); !strings.Contains(raw, document) {
				t.Error("the agent has another document")
			}
			shown := h.do("GET", "/api/approvals/"+h.question(), "")
			if got := h.decide(h.question(), `{"option_id":"ever","reason":`+all+`}`); got.status != 200 || len(left(got.body)) > 0 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			for range 2 { // the asking Run, and the one that fails
				<-h.ended
			}
			if got := h.do("PATCH", "/api/threads/T", `{"title":"`+planted[1].text+`"}`); got.status != 200 || len(left(got.body)) > 0 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			h.open(h.request("POST", "/api/agui/chat", `{"threadId":"T","runId":"R2","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[{"id":"u2","role":"user","content":"again"}]}`)).rest()
			calls := h.agent.prompts()
			if history := string(mustJSON(calls[len(calls)-1].Messages)); !strings.Contains(history, planted[0].secret) {
				t.Error("what the user said before is masked for the agent")
			}
			outlets := map[string]string{"approval": shown.body}
			for _, path := range []string{
				"/api/threads", "/api/threads/T", "/api/threads/T/messages", "/api/threads/T/messages?format=agui", "/api/runs/R1/events", "/api/runs/R1", "/api/runs/R1/events?records=1",
				"/v1/sessions/T/events", "/api/approvals", "/api/approvals?status=APPROVED", "/api/grants", "/api/audit", "/metrics", "/api/threads/nowhere" + planted[0].text,
			} {
				outlets[path] = h.do("GET", path, "").body
			}
			for _, path := range []string{"/api/agui/connect"} {
				for _, f := range h.open(h.request("POST", path, `{"threadId":"T","runId":"R9","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[]}`)).rest() {
					outlets[path] += f.data
				}
			}
			for path, text := range outlets {
				if found := left(text); len(found) > 0 {
					t.Errorf("%s has %q", path, found)
				}
			}
			if len(db.tables(t)["sealed_originals"]) == 0 {
				t.Error("nothing is sealed")
			}
			h.nothingAtRest(db.tables(t), "sessions", "turns", "events", "records", "messages", "message_parts", "tool_calls", "approvals", "runs")
			if name == "SQLite" {
				for _, path := range []string{lite, lite + "-wal"} {
					raw, err := os.ReadFile(path)
					if err != nil && !errors.Is(err, os.ErrNotExist) || len(left(string(raw))) > 0 {
						t.Errorf("%s: %v has %q", path, err, left(string(raw)))
					}
				}
			}
			if got := h.do("DELETE", "/api/threads/T", ""); got.status != 204 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			if rest := db.tables(t)["sealed_originals"]; len(rest) > 0 {
				t.Errorf("%d values of originals outlive their thread", len(rest))
			}
		})
	}
}

// TestS31SealedAnswer: what a person answers to an agent's question, over REST or in the chat, reaches the agent as it was given,
// although people, the log and the trace have it masked.
func TestS31SealedAnswer(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		answered := make(chan string, 1)
		asks := func(_ context.Context, say func(...bridge.Output), _ bridge.Call, answers []approval.Delivery) {
			if len(answers) > 0 {
				answered <- string(answers[0].Payload)
				say(bridge.Output{End: &bridge.End{}})
				return
			}
			say(bridge.Output{Question: &approval.Request{UpstreamID: "i", Kind: approval.AskInput, ToolName: "collect", Title: "Which key?"}})
		}
		h := newEnvWith(t, asks, plan{open: db.open, secrets: newSecrets(t)})
		posted := func(thread, run, more string) string {
			var stream strings.Builder
			for _, f := range h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":%q,"runId":%q,"protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},%s}`, thread, run, more))).rest() {
				stream.WriteString(f.data + "\n")
			}
			return stream.String()
		}
		payload := `{"key":` + string(mustJSON(planted[0].text)) + `}`
		for way, answer := range map[string]func(id string) string{
			"rest": func(id string) string { return h.decide(id, `{"payload":`+payload+`}`).body },
			"chat": func(id string) string {
				return posted("chat", "chat-2", fmt.Sprintf(`"messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":%s}]`, id, payload))
			},
		} {
			posted(way, way+"-1", `"messages":[{"id":"u","role":"user","content":"hi"}]`)
			id := h.question()
			shown := map[string]string{"the answer": answer(id)}
			select {
			case got := <-answered:
				if !strings.Contains(got, planted[0].secret) {
					t.Errorf("%s: the agent is answered %s", way, got)
				}
			case <-time.After(mcpPatience):
				t.Fatalf("%s: the agent is not answered", way)
			}
			for _, path := range []string{"/api/approvals/" + id, "/api/approvals?status=APPROVED", "/api/threads/" + way + "/messages", "/v1/sessions/" + way + "/events"} {
				shown[path] = h.do("GET", path, "").body
			}
			for what, text := range shown {
				if found := left(text); len(found) > 0 || text == "" {
					t.Errorf("%s: %s has %q: %s", way, what, found, text)
				}
			}
		}
	})
}

// nothingAtRest looks through tables. Those that are named must have something masked, or nothing is tried there.
func (h *env) nothingAtRest(tables map[string][]string, masked ...string) {
	h.t.Helper()
	for table, values := range tables {
		for _, value := range values {
			if found := left(value); len(found) > 0 {
				h.t.Errorf("%s has %q in %.300s", table, found, value)
			}
		}
	}
	for _, table := range masked {
		all := strings.Join(tables[table], "\n")
		if !strings.Contains(all, redact.Mask) && !strings.Contains(all, hex.EncodeToString([]byte(redact.Mask))) {
			h.t.Errorf("nothing is masked in %s, so nothing is tried there", table)
		}
	}
}

// dumped is every value of every table.
func dumped(t *testing.T, driver, dsn, tables, columns string, name int) map[string][]string {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all := make(map[string][]string)
	for _, table := range columnOf(t, db, tables, 0) {
		for _, column := range columnOf(t, db, fmt.Sprintf(columns, table), name) {
			all[table] = append(all[table], columnOf(t, db, fmt.Sprintf(`SELECT CAST("%s" AS TEXT) FROM "%s"`, column, table), 0)...)
		}
	}
	if len(all) < 15 {
		t.Fatalf("only %d tables were searched", len(all))
	}
	return all
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestS31SealedArguments: a tool runs with the arguments that were asked for although people see them masked; its agent
// gets its own text, the user sees it masked; an approver may change other members, and cannot make a mask run.
func TestS31SealedArguments(t *testing.T) {
	t.Parallel()
	token, ran := make(chan bridge.Call, 8), make(chan string, 8)
	release := make(chan struct{})
	h := newEnvWith(t, func(ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
		token <- call
		select {
		case <-release:
		case <-ctx.Done():
		}
	}, plan{secrets: newSecrets(t), rules: "rules:\n  - {name: r, tool: cut, verdict: ask, may_edit: true}\n"})
	tool := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var body struct{ Args json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&body)
		ran <- string(body.Args)
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"token":"`+planted[1].text+`"}`)
	}))
	t.Cleanup(tool.Close)
	if got := h.do("POST", "/v1/tools", fmt.Sprintf(`{"name":"cut","kind":"server_tool","endpoint":%q,"schema":{"type":"object"}}`, tool.URL)); got.status != 200 {
		t.Fatal(got.status, got.body)
	}
	reader := h.open(h.prompt("T", "R1", "go"))
	call := <-token
	w := &toolEnv{env: h}
	args := `{"key":"` + planted[0].text + `","n":1.50}`
	invoke := func() (id string, asked store.Approval) {
		got := w.invoke(call, "cut", args)
		id, _ = got["tool_call_id"].(string)
		if id == "" {
			t.Fatal(got)
		}
		a, err := h.store.Approval(t.Context(), store.System(), id)
		if err != nil {
			t.Fatal(err)
		}
		return id, a
	}
	wait := func(id string) string {
		return fmt.Sprint(w.agentCall(call.RunToken, "/v1/tool_calls/"+id+":wait?timeout_ms=20000", ""))
	}
	id, asked := invoke()
	if len(left(string(asked.Args))) > 0 || asked.ArgsSHA256 == sha256Of(args) {
		t.Errorf("it is asked for %s with %s", asked.Args, asked.ArgsSHA256)
	}
	again, same := invoke()
	if same.ArgsSHA256 != asked.ArgsSHA256 {
		t.Error("the hash of the same arguments is another")
	}
	if got := h.decide(id, `{"option_id":"allow_once"}`); got.status != 200 || len(left(got.body)) > 0 {
		t.Fatal(got.status, got.body)
	}
	if got := <-ran; got != args {
		t.Errorf("ran with %s", got)
	}
	if got := wait(id); !strings.Contains(got, planted[1].secret) {
		t.Errorf("its agent got %s", got)
	}
	if got := h.do("GET", "/v1/tool_calls/"+id, ""); got.status != 200 || len(left(got.body)) > 0 || !strings.Contains(got.body, redact.Mask) {
		t.Errorf("the user sees %d %s", got.status, got.body)
	}
	isProblem(t, h.decide(again, `{"option_id":"allow_once","edited_args":{"other":"`+strings.Replace(string(asked.Args[8:]), `","n":1.50}`, `"}}`, 1)), 422)
	if got := h.decide(again, `{"option_id":"allow_once","edited_args":`+strings.Replace(string(asked.Args), "1.50", "2", 1)+`}`); got.status != 200 || len(left(got.body)) > 0 {
		t.Fatal(got.status, got.body)
	}
	if got := <-ran; !strings.Contains(got, planted[0].text) || !strings.Contains(got, `"n":2`) {
		t.Errorf("ran with %s", got)
	}
	wait(again)
	close(release)
	for _, f := range reader.rest() {
		if found := left(f.data); len(found) > 0 {
			t.Errorf("the chat has %q", found)
		}
	}
}

// TestS31AgentsOutput: what ACP agents say in chunks, print to stderr and report of their start is masked in the trace and
// the chat, also when it is cut.
func TestS31AgentsOutput(t *testing.T) {
	t.Parallel()
	var path string
	h, a := newACPEnvWith(t, plants(), plan{secrets: newSecrets(t), open: func(t testing.TB) (store.Store, error) {
		path = storetest.SQLite(t)
		return sqlite.Open(t.Context(), path, sqlite.Options{Sent: sentSQLite.Note})
	}})
	a.chatter = func(run, prompt string) {
		session := "S1"
		for _, kind := range []string{"agent_thought_chunk", "agent_message_chunk"} {
			text := plants()
			for text != "" {
				piece := text[:min(5, len(text))]
				text = text[len(piece):]
				a.send(&wire.ACPUpdate{RunID: run, PromptID: &prompt, SessionID: &session, Update: fmt.Appendf(nil,
					`{"sessionUpdate":%q,"messageId":%q,"content":{"type":"text","text":%s}}`, kind, kind+prompt, mustJSON(piece))})
				if strings.HasSuffix(piece, "m") { // what comes between makes another record
					a.send(&wire.ACPUpdate{RunID: run, PromptID: &prompt, SessionID: &session, Update: []byte(`{"sessionUpdate":"plan","entries":[]}`)})
				}
			}
		}
		a.send(&wire.ACPUpdate{RunID: run, PromptID: &prompt, SessionID: &session, Update: fmt.Appendf(nil,
			`{"sessionUpdate":"tool_call","toolCallId":"t1","title":%[1]s,"kind":"execute","status":"pending","rawInput":{"cmd":%[1]s}}`, mustJSON(plants()))})
		for line := range strings.Lines(plants()) {
			a.send(&wire.ProxyUpdate{RunID: run, Content: mustJSON(map[string]string{"type": "text", "text": wire.PrefixStderr + line})})
		}
		a.send(&wire.ProxyUpdate{RunID: run, Content: mustJSON(map[string]any{"type": "init_result", "ok": false, "error": plants(), "env": map[string]string{"MY_API_KEY": "hunter2hunter2"}})})
	}
	stream := ""
	for _, f := range h.open(h.prompt("T", "R1", "say it")).rest() {
		stream += f.data
	}
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(h.do("GET", "/v1/sessions/T/events?limit=1000", "").body, "prompt_result"); { // the trace is kept a little later
		if time.Now().After(deadline) {
			t.Fatal("the trace does not come")
		}
	}
	if found := left(stream); len(found) > 0 || !strings.Contains(stream, redact.Mask) {
		t.Errorf("the chat has %q: %s", found, stream)
	}
	h.nothingAtRest(dumped(t, "sqlite", path, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", "PRAGMA table_info(%s)", 1), "records", "events", "messages")
}

// TestS31IDsOfSecretForm: a Run whose runId looks like a secret is streamed to its end, live and to those who join.
func TestS31IDsOfSecretForm(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{secrets: newSecrets(t)})
	id := planted[0].text
	for _, run := range []string{id, id + "-2"} {
		if frames := h.chat(id, run, "hi"); frames[len(frames)-1].typ() != "RUN_FINISHED" {
			t.Errorf("%s: ends with %s", run, frames[len(frames)-1].data)
		}
	}
}
