package main

import (
	"bufio"
	"bytes"
	"cmp"
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
	t        *testing.T
	URL      string
	tokens   string       // the file of its token
	client   *http.Client // which shows that token
	greeting []string     // the lines that it printed
	stop     func() error // as a signal does
	done     chan error   // how it ended, when it did so by itself
	log      *sharedLog
}

// sharedLog is what a server has logged, read while it goes on.
type sharedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *sharedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// bearer shows a token where a request shows none.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// tokensOf is where a server of these arguments has its token, and an environment with a state folder of the test for those
// that name none.
func tokensOf(t *testing.T, args []string) (string, lookup) {
	t.Helper()
	named, state, token := env(), "", ""
	for i, arg := range args[:len(args)-1] {
		switch path, lite := strings.CutPrefix(args[i+1], "sqlite:"); {
		case arg == "--token-file":
			token = args[i+1]
		case arg == "--state":
			state = args[i+1]
		case arg == "--database" && lite && state == "":
			state = filepath.Dir(path)
		}
	}
	if state == "" {
		state = t.TempDir()
		named = env("AQUEDUCT_STATE", state)
	}
	return cmp.Or(token, filepath.Join(state, tokenName)), named
}

// start runs `aqueduct serve` on a free port.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	r := &running{t: t, log: new(sharedLog), done: make(chan error, 1)}
	var e lookup
	r.tokens, e = tokensOf(t, args)
	go func() {
		err := run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--demo-pace", "1ms"}, args...), e, output{writer, r.log})
		writer.CloseWithError(io.EOF)
		r.done <- err
		close(r.done)
	}()
	printed := make([]byte, 8<<10) // all of it: the program prints once
	n, err := reader.Read(printed)
	r.greeting = strings.Split(string(printed[:n]), "\n")
	url, ok := strings.CutPrefix(r.greeting[0], "listening on ")
	if err != nil || !ok {
		cancel()
		t.Fatalf("%q %v: %v\n%s", printed[:n], err, <-r.done, r.log)
	}
	r.URL = url
	token, _ := os.ReadFile(r.tokens) // there is none with --auth none
	r.client = &http.Client{Transport: bearer(strings.TrimSpace(string(token)))}
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
	resp, err := r.client.Post(r.URL+path, "application/json", strings.NewReader(body))
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
	resp, err := r.client.Get(r.URL + "/api/agui/capabilities")
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

// TestStopsWithOpenStreams: streams are cut, the Turn is left to the next owner.
func TestStopsWithOpenStreams(t *testing.T) {
	t.Parallel()
	db := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	r := start(t, "--demo", "--database", db)
	resp, err := r.client.Post(r.URL+"/api/agui/chat", "application/json", strings.NewReader(strings.ReplaceAll(hello, `"text"`, `"slow"`)))
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

// TestFenced: a replica that was replaced reports it and exits.
func TestFenced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	st, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := &serveCmd{Name: "x", Demo: true, Files: stateFlags{Database: databaseFlag("sqlite:" + path)}}
	if err := s.Files.AfterApply(&settings{}); err != nil {
		t.Fatal(err)
	}
	if s.claimed, err = s.Files.claim(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	defer s.claimed.release()
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
	args := []string{"tail", "R", "--url", r.URL}
	for name, c := range map[string]struct {
		env  lookup
		more []string
		want string
	}{
		"without":               {env(), []string{"--database", "sqlite:" + filepath.Join(t.TempDir(), "a.db")}, "401"},
		"the file":              {env(), []string{"--token-file", token}, "404"},
		"the environment":       {env("AQUEDUCT_TOKEN", "a token with some length"), nil, "404"},
		"file before variable":  {env("AQUEDUCT_TOKEN", "another token of some length"), []string{"--token-file", token}, "404"},
		"a wrong one":           {env("AQUEDUCT_TOKEN", "another token of some length"), nil, "401"},
		"a file that is absent": {env(), []string{"--token-file", token + "x"}, "no such file"},
	} {
		if err := run(t.Context(), append(args[:len(args):len(args)], c.more...), c.env, output{io.Discard, io.Discard}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("tail, %s: %v", name, err)
		}
	}
	if strings.Contains(r.log.String(), "some length") {
		t.Error("the token is in the log")
	}
	if len(r.greeting) != 2 {
		t.Errorf("whoever gave the token knows how to begin: %q", r.greeting)
	}
}
