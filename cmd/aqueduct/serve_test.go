package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aqueduct/server/auth"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// running is the program while it serves.
type running struct {
	t    *testing.T
	URL  string
	stop func() error // as a signal does
	done chan error   // how it ended, when it did so by itself
	log  *bytes.Buffer
}

// start runs `aqueduct serve` on a free port.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	r := &running{t: t, log: new(bytes.Buffer), done: make(chan error, 1)}
	go func() {
		err := run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--demo-pace", "1ms"}, args...), env(), output{writer, r.log})
		writer.CloseWithError(io.EOF)
		r.done <- err
		close(r.done)
	}()
	line, err := bufio.NewReader(reader).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		cancel()
		t.Fatalf("%q %v: %v\n%s", line, err, <-r.done, r.log)
	}
	r.URL = url
	r.stop = sync.OnceValue(func() error {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		return <-r.done
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("%v\n%s", err, r.log)
		}
	})
	return r
}

func (r *running) post(path, body string) (int, string) {
	r.t.Helper()
	resp, err := http.Post(r.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

const hello = `{"threadId":"T","runId":"R","protocolVersion":"1.0","messages":[{"id":"u1","role":"user","content":"text"}]}`

// TestServeDemo: the demo agent, over HTTP as any other, and the same log after a restart.
func TestServeDemo(t *testing.T) {
	t.Parallel()
	db := "sqlite:" + filepath.Join(t.TempDir(), "data", "a.db")
	first := start(t, "--demo", "--database", db)
	status, said := first.post("/api/agui/chat", hello)
	if status != 200 || !strings.Contains(said, "RUN_FINISHED") {
		t.Fatalf("%d %s", status, said)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	second := start(t, "--demo", "--database", db)
	if _, again := second.post("/api/agui/chat", hello); again != said {
		t.Errorf("after a restart:\n%s\nbefore:\n%s", again, said)
	}
	if strings.Contains(first.log.String()+second.log.String(), "level=ERROR") {
		t.Errorf("%s%s", first.log, second.log)
	}
}

// TestDefaultAgentOfTheFlags: the first of the flags that is online is what a client without a wish gets, every time; one
// that is chosen goes before it.
func TestDefaultAgentOfTheFlags(t *testing.T) {
	t.Parallel()
	db := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	agent := filepath.Join(t.TempDir(), "agent.sh")
	if err := os.WriteFile(agent, []byte(scriptedAgent), 0o700); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--database", db, "--acp-agents", "{far: {}, away: {}}", "--acp", "z=" + agent, "--acp", "m=" + agent, "--acp", "a=" + agent}
	for range 4 {
		r := start(t, flags...)
		if got := r.defaultAgent(); got != "z" {
			t.Errorf("the default is %s", got)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	}
	if got := start(t, append(flags, "--default-agent", "m")...).defaultAgent(); got != "m" {
		t.Errorf("the default is %s", got)
	}
}

func (r *running) defaultAgent() string {
	r.t.Helper()
	resp, err := http.Get(r.URL + "/api/agui/capabilities")
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	var caps struct{ Identity struct{ Name string } }
	if err := json.NewDecoder(resp.Body).Decode(&caps); err != nil {
		r.t.Fatal(err)
	}
	return caps.Identity.Name
}

// TestServePostgres: the other database, named by its URL. A second process of the same
// name takes over while the first one serves, and the first one leaves.
func TestServePostgres(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	first := start(t, "--demo", "--database", dsn)
	if status, said := first.post("/api/agui/chat", hello); status != 200 || !strings.Contains(said, "RUN_FINISHED") {
		t.Fatalf("%d %s", status, said)
	}
	second := start(t, "--demo", "--database", dsn)
	if err := <-first.done; !errors.Is(err, store.ErrFenced) {
		t.Errorf("the first: %v", err)
	}
	if status, said := second.post("/api/agui/chat", strings.NewReplacer(`"R"`, `"R2"`, `"u1"`, `"u2"`).Replace(hello)); status != 200 || !strings.Contains(said, "RUN_FINISHED") {
		t.Errorf("%d %s", status, said)
	}
}

// TestStopsWithOpenStreams: streams are cut, the Turn is left to whoever comes next.
func TestStopsWithOpenStreams(t *testing.T) {
	t.Parallel()
	db := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	r := start(t, "--demo", "--database", db)
	resp, err := http.Post(r.URL+"/api/agui/chat", "application/json", strings.NewReader(strings.ReplaceAll(hello, `"text"`, `"slow"`)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for line := ""; !strings.Contains(line, "TEXT_MESSAGE_CONTENT"); {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.stop(); err != nil {
		t.Errorf("%v\n%s", err, r.log)
	}
	if _, err := io.Copy(io.Discard, in); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream ends with %v; clients would take it for whole", err)
	}
	next := start(t, "--demo", "--database", db)
	_, said := next.post("/api/agui/chat", strings.ReplaceAll(hello, `"text"`, `"slow"`))
	if n := strings.Count(said, `"code":"server_restarted"`); n != 1 || strings.Contains(said, "RUN_FINISHED") {
		t.Errorf("%d ends: %s", n, said)
	}
}

// TestFenced: a replica that was replaced says so and leaves.
func TestFenced(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := &serveCmd{Name: "x", Demo: true}
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- s.serve(t.Context(), output{writer, io.Discard}, newLogger("text", &log, nil), auth.None(), ln, st, redaction{})
	}()
	if _, err := bufio.NewReader(reader).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := st.Register(t.Context(), store.Replica{ID: "another", Name: "x"}); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Post("http://"+ln.Addr().String()+"/api/agui/chat", "application/json", strings.NewReader(hello)); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	if err := <-done; !errors.Is(err, store.ErrFenced) || !strings.Contains(err.Error(), "taken over") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("%s", log.String())
	}
}

// TestServeWithToken: nothing without it.
func TestServeWithToken(t *testing.T) {
	t.Parallel()
	token := write(t, "token", "a token with some length\n")
	r := start(t, "--demo", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"), "--auth", "token", "--token-file", token)
	if status, body := r.post("/api/agui/chat", hello); status != 401 {
		t.Errorf("%d %s", status, body)
	}
	var out bytes.Buffer
	args := []string{"tail", "R", "--url", r.URL}
	if err := run(t.Context(), args, env(), output{&out, io.Discard}); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("tail without a token: %v", err)
	}
	if err := run(t.Context(), append(args, "--token-file", token), env(), output{&out, io.Discard}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("tail with it: %v", err)
	}
	if strings.Contains(r.log.String(), "some length") {
		t.Error("the token is in the log")
	}
}
