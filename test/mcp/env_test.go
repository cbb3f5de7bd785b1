// Package mcp_test starts aqueduct between agents and MCP servers of others (npm's) and of its own, and between MCP clients of
// others and tools.
package mcp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aqueduct/test/npmmcp"
	"aqueduct/test/program"
)

// TestMain makes this program the shop where it is started as one.
func TestMain(m *testing.M) {
	if file := os.Getenv(shopVar); file != "" {
		os.Exit(serveShop(file))
	}
	os.Exit(program.Main(m))
}

// patience bounds every wait of these tests. A replica that died is fenced after 12 s.
const patience = 40 * time.Second

// env is a running aqueduct, and an agent whose Turn is under way.
type env struct {
	t      *testing.T
	db     string
	agent  *httptest.Server
	called chan prompted
	user   string // who decides; "" is the server's own
	prompted
	server *server
}

// prompted is what the agent was called with.
type prompted struct{ token, run string }

// newEnv starts both, with further flags.
func newEnv(t *testing.T, args ...string) *env {
	t.Helper()
	npmmcp.Need(t)
	e := &env{t: t, db: filepath.Join(t.TempDir(), "a.db"), called: make(chan prompted, 8)}
	release := make(chan struct{})
	e.agent = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.URL.Path != "/invoke" {
			return
		}
		var body struct {
			RunID string `json:"run_id"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body) // without it the calls fail
		_ = http.NewResponseController(w).Flush()
		e.called <- prompted{r.Header.Get("X-Aqueduct-Run-Token"), body.RunID}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "event: done\ndata: {}\n\n")
	}))
	t.Cleanup(func() {
		close(release)
		e.agent.Close()
	})
	e.start(args...)
	e.prompt("T")
	return e
}

// start starts the server on the env's database.
func (e *env) start(args ...string) {
	e.t.Helper()
	e.server = serve(e.t, append([]string{"--name", "one", "--database", "sqlite:" + e.db, "--agent", "held=" + e.agent.URL}, args...)...)
}

// prompt has the agent called on a thread, and waits for its token.
func (e *env) prompt(thread string) {
	e.t.Helper()
	url := e.server.url
	go func() {
		body := fmt.Sprintf(`{"threadId":%q,"runId":%q,"messages":[{"id":"u","role":"user","content":"go"}],"state":{},"tools":[],"context":[],"forwardedProps":{}}`, thread, thread+"-r")
		if resp, err := http.Post(url+"/api/agui/chat", "application/json", strings.NewReader(body)); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	select {
	case e.prompted = <-e.called:
	case <-time.After(patience):
		e.t.Fatal("the agent is not called\n" + e.server.log())
	}
}

// server is a running program.
type server struct {
	url string
	cmd *exec.Cmd

	mu    sync.Mutex
	lines bytes.Buffer
	read  chan struct{} // closed at the end of its output
}

// fused is the program that dies at failpoints.
var fused = program.Built("aqueduct-fused", "-tags", "failpoints")

func serve(t *testing.T, args ...string) *server {
	t.Helper()
	return serveBy(t, program.Shipped, nil, args...)
}

// serveBy is serve by one of the programs, with further variables.
func serveBy(t *testing.T, by func() (string, error), env []string, args ...string) *server {
	t.Helper()
	path, err := by()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{cmd: exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0"}, append(program.State(t, args...), args...)...)...), read: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = s.cmd.Stdout
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	go func() {
		defer close(s.read)
		address := regexp.MustCompile(`listening on .*?(127\.0\.0\.1:\d+)`)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			s.mu.Lock()
			s.lines.WriteString(sc.Text() + "\n")
			s.mu.Unlock()
			if m := address.FindStringSubmatch(sc.Text()); m != nil {
				found <- "http://" + m[1]
			}
		}
	}()
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	select {
	case s.url = <-found:
	case <-s.read:
		t.Fatal("aqueduct ended before it listened\n" + s.log())
	case <-time.After(patience):
		t.Fatal("aqueduct does not listen\n" + s.log())
	}
	return s
}

// end ends the program by a signal, and waits for it.
func (s *server) end(by syscall.Signal) {
	_ = s.cmd.Process.Signal(by)
	<-s.read
	_ = s.cmd.Wait()
}

func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.String()
}

// request is one call of the API, answered into got.
func (e *env) request(method, path, token, body string, got any) (status int) {
	e.t.Helper()
	req, err := http.NewRequest(method, e.server.url+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && got != nil {
		err = json.Unmarshal(raw, got)
	}
	if err != nil {
		e.t.Fatalf("%s %s: %v\n%s", method, path, err, raw)
	}
	return resp.StatusCode
}

// call is a tool call as agents see it.
type call struct {
	Status string
	ID     string `json:"tool_call_id"`
	Result json.RawMessage
	Error  struct{ Code, Message string }
	State  string
}

// invoke calls a tool as the agent.
func (e *env) invoke(tool, args string) (c call) {
	e.t.Helper()
	if status := e.request(http.MethodPost, "/v1/tools/"+tool+":invoke", e.token, fmt.Sprintf(`{"run_id":%q,"args":%s}`, e.run, args), &c); status != http.StatusOK {
		e.t.Fatalf("%s: %d %+v", tool, status, c)
	}
	return c
}

// wait waits for the end of a call.
func (e *env) wait(id string) (c call) {
	e.t.Helper()
	e.request(http.MethodPost, "/v1/tool_calls/"+id+":wait?timeout_ms=20000", e.token, "{}", &c)
	return c
}

// question is an open Question.
type question struct {
	ID    string `json:"approval_id"`
	Tool  string `json:"tool_name"`
	Kind  string
	Title string
	Risk  string
}

// asked waits for an open question whether a tool may run.
func (e *env) asked(tool string) question {
	e.t.Helper()
	return e.question("permission", tool)
}

// lost waits for an open question about what became of a call.
func (e *env) lost(tool string) question {
	e.t.Helper()
	return e.question("input", tool)
}

// question waits for one that is open, beside those that the test knows.
func (e *env) question(kind, tool string, known ...string) (found question) {
	e.t.Helper()
	e.eventually("no question about "+tool, func() error {
		open := e.pending()
		for _, q := range open {
			if q.Tool == tool && q.Kind == kind && !slices.Contains(known, q.ID) {
				found = q
				return nil
			}
		}
		return fmt.Errorf("%+v", open)
	})
	return found
}

// pending are the open questions.
func (e *env) pending() []question {
	e.t.Helper()
	var list struct{ Approvals []question }
	e.request(http.MethodGet, "/api/approvals?status=PENDING", e.user, "", &list)
	return list.Approvals
}

// decide answers a question.
func (e *env) decide(id, body string) {
	e.t.Helper()
	var got json.RawMessage
	if status := e.request(http.MethodPost, "/api/approvals/"+id+"/decision", e.user, body, &got); status != http.StatusOK {
		e.t.Fatalf("%d %s", status, got)
	}
}

// approved invokes a tool, approves the call and gives its end.
func (e *env) approved(tool, args string) call {
	e.t.Helper()
	c := e.invoke(tool, args)
	if c.Status != "pending" || c.State != "WAITING_APPROVAL" {
		e.t.Fatalf("%s was not asked for: %+v", tool, c)
	}
	e.decide(e.asked(tool).ID, `{"approved":true}`)
	return e.wait(c.ID)
}

// listed are the names of the tools that the agent may call, with their descriptions.
func (e *env) listed() map[string]tool {
	e.t.Helper()
	var list struct{ Tools []tool }
	e.request(http.MethodGet, "/v1/tools?limit=1000", e.token, "", &list)
	tools := make(map[string]tool)
	for _, one := range list.Tools {
		tools[one.Name] = one
	}
	return tools
}

type tool struct {
	Name, Kind, Description, Source, Endpoint string
	Schema                                    json.RawMessage
}

// offers waits until a tool is listed, or is not any more.
func (e *env) offers(name string, yes bool) {
	e.t.Helper()
	e.eventually(name, func() error {
		if _, ok := e.listed()[name]; ok != yes {
			return fmt.Errorf("listed: %v", ok)
		}
		return nil
	})
}

// eventually waits until do has no error.
func (e *env) eventually(what string, do func() error) {
	e.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			e.t.Fatalf("%s: %v\n%s", what, err, e.server.log())
		}
	}
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// refused runs a start that is to fail, and gives what it prints.
func refused(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.WaitDelay = time.Second
	stop := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// policyFile lets what only looks run unasked, and blocks one tool.
func policyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	rules := "tools: {shop.look: low, shop.pay: medium}\nrules:\n  - {name: editable, tool: shop.pay, verdict: require_approval, may_edit: true}\n" +
		"  - {name: no death, tool: shop.die, verdict: block, reason: It must live.}\n"
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(raw, text...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
