package sdk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/test/program"
)

// folder is where the example in Go is built.
var folder string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if folder, err = os.MkdirTemp("", "aqueduct-sdk"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	return program.Main(m)
}

// setting is an Aqueduct with all examples as agents, and a bank behind their tool.
type setting struct {
	url    string
	agents map[string]*agent
	bank   *bank

	command func() *exec.Cmd // of the server
	server  process
}

// restart ends the server, well or by kill -9, and starts it again.
func (s *setting) restart(t *testing.T, kill bool) {
	t.Helper()
	if kill {
		s.server.kill()
	} else {
		s.server.stop()
	}
	s.server = spawn(t, s.command())
	s.url = s.server.url
}

// toolsFile has the bank's tools, of which one always needs an approval.
const toolsFile = `tools:
  - name: payments.transfer
    kind: server_tool
    description: Transfers money.
    endpoint: %s/transfer
    schema: {type: object, required: [amount, to], properties: {amount: {type: number}, to: {type: string}}, additionalProperties: false}
    policy: {risk: high, verdict: require_approval, may_edit: true}
  - name: payments.balance
    kind: server_tool
    endpoint: %s/balance
    policy: {risk: low}
`

// modelsFile names one model of an upstream that no test calls.
const modelsFile = `upstreams:
  - {name: nowhere, url: "http://127.0.0.1:9/v1", models: [judge-1]}
`

func start(t *testing.T) *setting {
	t.Helper()
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	s := &setting{bank: openBank(t), agents: agents(t)}
	dir := t.TempDir()
	tools, models := filepath.Join(dir, "tools.yaml"), filepath.Join(dir, "models.yaml")
	for name, text := range map[string]string{tools: fmt.Sprintf(toolsFile, s.bank.url, s.bank.url), models: modelsFile} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.command = func() *exec.Cmd {
		return exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--database", "sqlite:"+filepath.Join(dir, "aqueduct.db"),
			"--agent", "node="+s.agents["node"].url, "--agent", "go="+s.agents["go"].url, "--agent", "py="+s.agents["py"].url,
			"--tools-file", tools, "--models-file", models, "--outbound", "127.0.0.0/8")
	}
	s.server = spawn(t, s.command())
	s.url = s.server.url
	return s
}

// bank is what payments.transfer and payments.balance call.
type bank struct {
	url  string
	mu   sync.Mutex
	paid []string
}

func openBank(t *testing.T) *bank {
	t.Helper()
	b := &bank{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Args json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&body)
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/balance" {
			_, _ = io.WriteString(w, `{"amount":42}`)
			return
		}
		b.mu.Lock()
		b.paid = append(b.paid, string(body.Args))
		n := len(b.paid)
		b.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"receipt":"r-%d"}`, n)
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

func (b *bank) executed() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.paid...)
}

// chat prompts an agent and returns the Run's whole stream. A thread has one Turn for each prompt, which differ.
func (s *setting) chat(t *testing.T, agent, thread, prompt string) string {
	t.Helper()
	id := thread + "-" + strings.ReplaceAll(prompt, " ", "-")
	return s.run(t, agent, map[string]any{"protocolVersion": "1.0", "threadId": thread, "runId": "r-" + id},
		map[string]any{"id": "m-" + id, "role": "user", "content": prompt})
}

// run posts a RunAgentInput with messages and returns the Run's whole stream.
func (s *setting) run(t *testing.T, agent string, input map[string]any, messages ...map[string]any) string {
	t.Helper()
	input["messages"] = messages
	body, _ := json.Marshal(input)
	text, err := s.try(http.MethodPost, "/api/agui/chat?agent="+agent, body)
	if err != nil {
		t.Error(err)
	}
	return text
}

var callID = regexp.MustCompile(`"type":"TOOL_CALL_START"[^\n]*?"toolCallId":"([^"]+)"`)

// toolCallID is the id of the one tool call of a stream.
func toolCallID(t *testing.T, stream string) string {
	t.Helper()
	found := callID.FindAllStringSubmatch(stream, -1)
	if len(found) != 1 {
		t.Fatalf("%d tool calls in\n%s", len(found), stream)
	}
	return found[0][1]
}

func (s *setting) decide(t *testing.T, id string, approved bool) {
	t.Helper()
	if _, err := s.try(http.MethodPost, "/api/approvals/"+id+"/decision", fmt.Appendf(nil, `{"approved":%t}`, approved)); err != nil {
		t.Error(err)
	}
}

func (s *setting) try(method, path string, body []byte) (string, error) {
	return s.tryAs("application/json", method, path, body)
}

// tryAs is try with a body of that type.
func (s *setting) tryAs(kind, method, path string, body []byte) (string, error) {
	req, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	return string(raw), err
}

// approval is a question as the inbox lists it.
type approval struct {
	ID     string          `json:"approval_id"`
	Kind   string          `json:"kind"`
	Tool   string          `json:"tool_name"`
	Args   json.RawMessage `json:"args"`
	Thread string          `json:"thread_id"`
}

// open is a thread's open question, in whatever agent's run; nil where there is none.
func (s *setting) open(thread string) *approval {
	text, err := s.try(http.MethodGet, "/api/approvals?status=PENDING&thread_id="+url.QueryEscape(thread), nil)
	var page struct{ Approvals []approval }
	if err != nil || json.Unmarshal([]byte(text), &page) != nil || len(page.Approvals) == 0 {
		return nil
	}
	return &page.Approvals[0]
}

// pending waits for a question of a thread.
func (s *setting) pending(t *testing.T, thread string) (found *approval) {
	t.Helper()
	eventually(t, "a question", func() bool { found = s.open(thread); return found != nil })
	return found
}

// finished waits until the thread's last Run has ended well, with nothing open, and gives the assistant's text, its
// messages separated by "|".
func (s *setting) finished(t *testing.T, thread string) string {
	t.Helper()
	eventually(t, "the run's end", func() bool {
		text, err := s.try(http.MethodGet, "/api/threads/"+thread, nil)
		var row struct {
			LastRun   struct{ Status string }
			Questions []string
		}
		return err == nil && json.Unmarshal([]byte(text), &row) == nil && len(row.Questions) == 0 && row.LastRun.Status == "FINISHED"
	})
	text, err := s.try(http.MethodGet, "/api/threads/"+thread+"/messages?format=agui", nil)
	if err != nil {
		t.Fatal(err)
	}
	var messages []struct{ Role, Content string }
	if err := json.Unmarshal([]byte(text), &messages); err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, m := range messages {
		if m.Role == "assistant" && m.Content != "" {
			written = append(written, m.Content)
		}
	}
	return strings.Join(written, "|")
}

// answers prompts, and gives what the thread's newest message is then.
func (s *setting) answers(t *testing.T, agent, thread, prompt string) string {
	t.Helper()
	s.chat(t, agent, thread, prompt)
	all := s.finished(t, thread)
	return all[strings.LastIndex(all, "|")+1:]
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s never came", what)
}
