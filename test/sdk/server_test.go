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
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// python is the interpreter: $PYTHON, or the system's.
func python() string {
	if p := os.Getenv("PYTHON"); p != "" {
		return p
	}
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		return "/usr/bin/python3"
	}
	return "python3"
}

// setting is an Aqueduct with the Python agent and a bank behind its tool.
type setting struct {
	url   string
	agent *agent
	bank  *bank
}

// toolsFile has the bank's tools, of which one always needs an approval.
const toolsFile = `tools:
  - name: payments.transfer
    kind: server_tool
    description: Transfers money.
    endpoint: %s/transfer
    schema: {type: object, required: [amount, to], properties: {amount: {type: number}, to: {type: string}}, additionalProperties: false}
    policy: {risk: high, verdict: require_approval}
  - name: payments.balance
    kind: server_tool
    endpoint: %s/balance
    policy: {risk: low}
`

func start(t *testing.T) *setting {
	t.Helper()
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	s := &setting{bank: openBank(t), agent: startAgent(t)}
	dir := t.TempDir()
	tools := filepath.Join(dir, "tools.yaml")
	if err := os.WriteFile(tools, fmt.Appendf(nil, toolsFile, s.bank.url, s.bank.url), 0o600); err != nil {
		t.Fatal(err)
	}
	s.url = spawn(t, exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--database", "sqlite:"+filepath.Join(dir, "aqueduct.db"),
		"--agent", "py="+s.agent.url, "--agent", "other="+startAgent(t).url, "--tools-file", tools, "--outbound", "127.0.0.0/8")).url
	return s
}

// bank is what payments.transfer and payments.balance call.
type bank struct {
	url  string
	mu   sync.Mutex
	paid []string
}

func openBank(t *testing.T) *bank {
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

// chat prompts and returns the Run's whole stream.
func (s *setting) chat(t *testing.T, thread, prompt string) string {
	t.Helper()
	body, _ := json.Marshal(map[string]any{
		"protocolVersion": "1.0", "threadId": thread, "runId": "r-" + thread,
		"messages": []map[string]string{{"id": "m-" + thread, "role": "user", "content": prompt}},
	})
	return s.send(t, http.MethodPost, "/api/agui/chat", body)
}

func (s *setting) decide(t *testing.T, id string, approved bool) {
	t.Helper()
	s.send(t, http.MethodPost, "/api/approvals/"+id+"/decision", fmt.Appendf(nil, `{"approved":%t}`, approved))
}

func (s *setting) send(t *testing.T, method, path string, body []byte) string {
	t.Helper()
	text, err := s.try(method, path, body)
	if err != nil {
		t.Error(err)
	}
	return text
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
	ID   string          `json:"approval_id"`
	Tool string          `json:"tool_name"`
	Args json.RawMessage `json:"args"`
}

// open is the thread's open question, nil when there is none.
func (s *setting) open(thread string) *approval {
	text, err := s.try(http.MethodGet, "/api/approvals?status=PENDING&thread_id="+url.QueryEscape(thread), nil)
	var page struct{ Approvals []approval }
	if err != nil || json.Unmarshal([]byte(text), &page) != nil || len(page.Approvals) == 0 {
		return nil
	}
	return &page.Approvals[0]
}

// pending waits for a question.
func (s *setting) pending(t *testing.T, thread string) *approval {
	t.Helper()
	var found *approval
	eventually(t, "a question", func() bool { found = s.open(thread); return found != nil })
	return found
}

// finished waits until the thread's last Run has ended well, with nothing open, and gives
// the assistant's text, its messages separated by "|".
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
	var messages []struct{ Role, Content string }
	if err := json.Unmarshal([]byte(s.send(t, http.MethodGet, "/api/threads/"+thread+"/messages?format=agui", nil)), &messages); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range messages {
		if m.Role == "assistant" && m.Content != "" {
			said = append(said, m.Content)
		}
	}
	return strings.Join(said, "|")
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
