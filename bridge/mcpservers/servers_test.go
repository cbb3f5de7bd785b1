package mcpservers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge/outbound"
	"aqueduct/bridge/tools"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// serveVar makes this test program an MCP server over its standard streams.
const serveVar = "TEST_MCP_SERVER"

// self is the command of this test program as one of the servers of TestMain.
func self(t *testing.T, as string) []string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"env", serveVar + "=" + as, path}
}

func TestMain(m *testing.M) {
	switch os.Getenv(serveVar) {
	case "":
		os.Exit(m.Run())
	case "deaf", "flood":
		deafServer(os.Getenv(serveVar) == "flood")
	case "talking":
		talkingServer()
	case "mute":
		muteServer()
	default:
		fmt.Fprintln(os.Stderr, "begun")
		if err := newTools(&runs{}).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
	}
}

// runs counts what tools did.
type runs struct {
	mu     sync.Mutex
	byTool map[string]int
}

func (r *runs) ran(tool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byTool == nil {
		r.byTool = make(map[string]int)
	}
	r.byTool[tool]++
}

func (r *runs) of(tool string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byTool[tool]
}

// newTools is a server with a tool that answers, one that takes its time, one that ends the program, and one that adds a tool.
func newTools(r *runs) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	add := func(name string, do func(context.Context, *mcp.CallToolRequest) string) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r.ran(name)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: do(ctx, req)}}}, nil
		})
	}
	add("echo", func(_ context.Context, req *mcp.CallToolRequest) string {
		return string(req.Params.Arguments) + " " + fmt.Sprint(req.Params.Meta["aqueduct/tool_call_id"])
	})
	add("slow", func(ctx context.Context, _ *mcp.CallToolRequest) string { <-ctx.Done(); return "" })
	add("die", func(context.Context, *mcp.CallToolRequest) string { os.Exit(3); return "" })
	add("grow", func(context.Context, *mcp.CallToolRequest) string {
		add("grown", func(context.Context, *mcp.CallToolRequest) string { return "grown" })
		return "yes"
	})
	return s
}

// running is Servers that run, and what they published last.
type running struct {
	*Servers
	t *testing.T

	mu        sync.Mutex
	published map[string]store.Tool
	refuse    int // so many publications fail
}

func run(t *testing.T, of Server) *running {
	t.Helper()
	return runWith(t, of, t.Output())
}

func runWith(t *testing.T, of Server, log io.Writer) *running {
	t.Helper()
	r := &running{t: t}
	gate, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8"}, Limits: outbound.Limits{FirstByte: -1, Total: -1, Body: -1, Redirects: -1}})
	if err != nil {
		t.Fatal(err)
	}
	r.Servers, err = New(Config{
		Servers: []Server{of}, Version: "1", Client: gate.Client(), Publish: r.publish, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("it does not end")
		}
	})
	return r
}

func (r *running) publish(_ context.Context, _ string, list []store.Tool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse > 0 {
		r.refuse--
		return errors.New("the store is away")
	}
	r.published = make(map[string]store.Tool)
	for _, one := range list {
		r.published[one.Name] = one
	}
	return nil
}

// offers waits until a tool is published.
func (r *running) offers(name string) {
	r.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		r.mu.Lock()
		_, ok := r.published[name]
		r.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s is not published", name)
		}
	}
}

// call executes a tool and gives the result, or the code of the failure.
func (r *running) call(name string, within time.Duration) string {
	return r.callWith(name, "<b>", within)
}

func (r *running) callWith(name, text string, within time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	server, _, _ := strings.Cut(name, ".")
	raw, failure := r.Execute(ctx, tools.Dispatch{
		Tool: store.Tool{Name: name, Source: store.ToolFromMCP, Endpoint: tools.MCPEndpoint(server)}, Call: store.ToolCall{ID: "C1", Args: []byte(`{"a":"` + text + `"}`)}, Span: trace.New(),
	})
	if failure != nil {
		return fault.CodeOf(failure)
	}
	var result string
	if err := json.Unmarshal(raw, &result); err != nil {
		return string(raw)
	}
	return result
}

// TestServerOverStreams: a command is started, called, started again when it dies, and gone at the end; a call that it died of
// is not known, and one that did not reach it waits for it.
func TestServerOverStreams(t *testing.T) {
	t.Parallel()
	r := run(t, Server{Name: "s", Command: self(t, "1")})
	r.offers("s.echo")
	if got := r.call("s.echo", patience); got != `{"a":"\u003cb\u003e"} C1` && got != `{"a":"<b>"} C1` {
		t.Error(got)
	}
	if got := r.call("s.slow", 300*time.Millisecond); got != tools.CodeTimeout {
		t.Error(got)
	}
	if got := r.call("s.die", patience); got != tools.CodeUnknownOutcome {
		t.Error(got)
	}
	if got := r.call("s.echo", patience); !strings.HasSuffix(got, "C1") {
		t.Errorf("after its death: %s", got)
	}
	r.mu.Lock()
	r.refuse = 1
	r.mu.Unlock()
	if got := r.call("s.grow", patience); got != "yes" {
		t.Error(got)
	}
	r.offers("s.grown")
	if got := r.call("s.none", patience); got != tools.CodeToolFailed {
		t.Errorf("a tool that it has not: %s", got)
	}
	if got := r.call("other.echo", patience); got != tools.CodeUnreachable {
		t.Errorf("a server that there is not: %s", got)
	}
}

// far is a server over HTTP that can be broken.
type far struct {
	*httptest.Server
	runs runs

	mu      sync.Mutex
	handler http.Handler
	answer  func(w http.ResponseWriter, r *http.Request) bool // instead; false: the server's own
	tokens  map[string]bool
}

func newFar(t *testing.T) *far {
	f := &far{tokens: make(map[string]bool)}
	f.forget()
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		handler, answer := f.handler, f.answer
		f.tokens[r.Header.Get("Authorization")] = true
		f.mu.Unlock()
		if answer == nil || !answer(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// forget has the server lose its sessions, as one that was started anew.
func (f *far) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	server := newTools(&f.runs)
	f.handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
}

func (f *far) answers(answer func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// isCall reports whether a request carries a call of a tool.
func isCall(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && strings.Contains(string(body), `"tools/call"`)
}

// TestServerByAddress: a server over HTTP is called with its token; each way to fail is the one that is documented, and none
// runs a tool twice.
func TestServerByAddress(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	r := run(t, Server{Name: "f", URL: f.URL, Token: "secret"})
	r.offers("f.echo")
	if got := r.call("f.echo", patience); !strings.HasSuffix(got, "C1") || f.runs.of("echo") != 1 {
		t.Error(got)
	}
	f.mu.Lock()
	if len(f.tokens) != 1 || !f.tokens["Bearer secret"] {
		t.Errorf("%v", f.tokens)
	}
	f.mu.Unlock()
	f.forget()
	if got := r.call("f.echo", patience); !strings.HasSuffix(got, "C1") || f.runs.of("echo") != 2 {
		t.Errorf("after it forgot: %s, %d", got, f.runs.of("echo"))
	}
	for status, want := range map[int]string{
		http.StatusUnauthorized: tools.CodeStatus, http.StatusForbidden: tools.CodeStatus, http.StatusInternalServerError: tools.CodeUnknownOutcome, http.StatusBadGateway: tools.CodeUnknownOutcome,
	} {
		f.answers(func(w http.ResponseWriter, r *http.Request) bool {
			if isCall(r) {
				http.Error(w, "no", status)
				return true
			}
			return false
		})
		if got := r.call("f.echo", patience); got != want {
			t.Errorf("HTTP %d: %s, want %s", status, got, want)
		}
		f.answers(nil)
	}
	f.answers(func(_ http.ResponseWriter, r *http.Request) bool {
		if isCall(r) {
			panic(http.ErrAbortHandler) // the connection breaks when the call has come
		}
		return false
	})
	if got := r.call("f.echo", patience); got != tools.CodeUnknownOutcome {
		t.Errorf("cut: %s", got)
	}
	f.answers(nil)
	if f.runs.of("echo") != 2 {
		t.Errorf("it ran %d times", f.runs.of("echo"))
	}
	f.CloseClientConnections()
	f.Close()
	got := r.call("f.echo", patience)
	if got == tools.CodeUnknownOutcome { // it was written to a connection whose end had not been noticed
		got = r.call("f.echo", patience)
	}
	if got != tools.CodeUnreachable {
		t.Errorf("gone: %s", got)
	}
}

// TestServerRefusesACall: a call goes over a new session where the server does not know the old one. After any other
// 400, and after 408, it is not known whether the tool ran, and nothing is sent again.
func TestServerRefusesACall(t *testing.T) {
	t.Parallel()
	const noSession = `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
		sent   int
	}{
		"a bad request":         {http.StatusBadRequest, "no", tools.CodeUnknownOutcome, 1},
		"an empty one":          {http.StatusBadRequest, "", tools.CodeUnknownOutcome, 1},
		"about another session": {http.StatusBadRequest, "the checkout session could not be charged", tools.CodeUnknownOutcome, 1},
		"too late":              {http.StatusRequestTimeout, "", tools.CodeUnknownOutcome, 1},
		"the server's error":    {http.StatusBadRequest, `{"jsonrpc":"2.0","error":{"code":-32602,"message":"no"},"id":%s}`, tools.CodeToolFailed, 1},
		"an unknown session":    {http.StatusBadRequest, noSession, "", 2},
		"in words":              {http.StatusBadRequest, "Session 7 not found", "", 2},
		"not found":             {http.StatusNotFound, "", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFar(t)
			r := run(t, Server{Name: "f", URL: f.URL})
			r.offers("f.echo")
			var sent atomic.Int32
			f.answers(func(w http.ResponseWriter, r *http.Request) bool {
				if !isCall(r) || sent.Add(1) > 1 {
					return false
				}
				var call struct{ ID json.RawMessage }
				_ = json.NewDecoder(r.Body).Decode(&call)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, strings.ReplaceAll(c.body, "%s", string(call.ID)))
				return true
			})
			if got := r.call("f.echo", patience); got != c.want && (c.want != "" || !strings.HasSuffix(got, "C1")) || int(sent.Load()) != c.sent {
				t.Errorf("%s, sent %d times", got, sent.Load())
			}
		})
	}
}

// TestNewRefuses: names that no tool could have, and two servers of one name.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, servers := range [][]Server{{{Name: ""}}, {{Name: "a.b"}}, {{Name: "-a"}}, {{Name: strings.Repeat("n", 33)}}, {{Name: "a"}, {Name: "a"}}} {
		if _, err := New(Config{Servers: servers, Logger: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%+v is taken", servers)
		}
	}
}
