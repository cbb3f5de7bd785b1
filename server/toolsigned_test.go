package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/signed"
	"aqueduct/bridge/tools"
	"aqueduct/internal/ownfile"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/storetest"
)

// TestS16ToolCallsAreSigned: a tool can verify that a call comes from here, that it was approved, and that its body is
// byte for byte what was approved: nothing escapes <, > and & in between. On both databases.
func TestS16ToolCallsAreSigned(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t testing.TB) (store.Store, error){
		"SQLite": nil, "PostgreSQL": func(t testing.TB) (store.Store, error) {
			return postgres.Open(t.Context(), storetest.Postgres(t), postgres.Options{Tracer: &sentPostgres})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const secret = "a secret of the tool"
			type came struct {
				header http.Header
				body   []byte
			}
			calls := make(chan came, 2)
			tool := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				calls <- came{r.Header.Clone(), raw}
			}))
			defer tool.Close()
			const args = `{"path":"<a> & b","more":"é\u0001"}`
			w := &toolEnv{}
			w.env = newEnvWith(t, func(_ context.Context, _ func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
				w.settled(c, w.invoke(c, "write", args))
				w.invoke(c, "read", args)
			}, plan{rules: "tools: {nothing: low}", open: open})
			file := filepath.Join(t.TempDir(), "secret")
			define := func(name, policy string) tools.Definition {
				return tools.Definition{Policy: json.RawMessage(policy), Name: name, Kind: tools.WireServer, Endpoint: tool.URL, SecretFile: ownfile.Secret(file)}
			}
			load := func(mode os.FileMode, text string) error {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(file, mode); err != nil {
					t.Fatal(err)
				}
				return w.tools.Load(t.Context(), []tools.Definition{define("write", highRisk), define("read", lowRisk)}, func(string) error { return nil })
			}
			if load(0o644, secret) == nil || load(0o600, "short") == nil {
				t.Error("a secret that others can read, or guess, was taken")
			}
			if err := load(0o600, secret+"\n"); err != nil {
				t.Fatal(err)
			}
			// Over the API it would have any file of the machine used as a key.
			body := fmt.Sprintf(`{"name":"x","kind":"server_tool","endpoint":%q,"secret_file":%q}`, tool.URL, file)
			if got := w.do("POST", "/v1/tools", body); got.status/100 != 4 {
				t.Errorf("a secret_file by the API: %d %s", got.status, got.body)
			}
			w.chat("T", "R", "go")
			id := w.question()
			asked := fields(t, w.do("GET", "/api/approvals/"+id, ""))
			// The tool and arguments in a decision do not count.
			forged := `{"decision":"approve","tool_name":"read","args":{"path":"/etc/shadow"},"args_sha256":"00"}`
			if got := w.decide(id, forged); got.status != 200 {
				t.Fatal(got.status, got.body)
			}
			for _, approved := range []bool{true, false} {
				c := <-calls
				var sent struct {
					ApprovalID string          `json:"approval_id"`
					SHA256     string          `json:"args_sha256"`
					Args       json.RawMessage `json:"args"`
				}
				if err := json.Unmarshal(c.body, &sent); err != nil {
					t.Fatal(err)
				}
				sum := sha256.Sum256(sent.Args)
				if got := hex.EncodeToString(sum[:]); got != asked["args_sha256"] || got != sent.SHA256 || !strings.Contains(string(sent.Args), "<a> & b") {
					t.Errorf("args %s have hash %s, approved were %v", sent.Args, got, asked["args_sha256"])
				}
				want := ""
				if approved {
					want = id
				}
				if sent.ApprovalID != want || c.header.Get(signed.HeaderApproval) != want {
					t.Errorf("approval %q %q, want %q", sent.ApprovalID, c.header.Get(signed.HeaderApproval), want)
				}
				if err := signed.Verify(secret, c.header.Get(signed.HeaderSignature), c.body, time.Now(), time.Minute); err != nil {
					t.Error(err)
				}
				verifyInPython(t, secret, c.header, c.body)
			}
		})
	}
}

// verifyInPython has the Python helper check a request, and refuse it with another body.
func verifyInPython(t *testing.T, secret string, header http.Header, body []byte) {
	t.Helper()
	flat := make(map[string]string)
	for name := range header {
		flat[name] = header.Get(name)
	}
	in, err := json.Marshal(map[string]any{"secret": secret, "headers": flat, "body": string(body)})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-c", `
import json, sys
from aqueduct import BadSignature, verify
r = json.load(sys.stdin)
verify(r["secret"], r["headers"], r["body"].encode())
try:
    verify(r["secret"], r["headers"], r["body"].replace("<a>", "<b>").encode())
except BadSignature:
    print("good")`)
	cmd.Env = append(os.Environ(), "PYTHONPATH=../sdk/python", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdin = strings.NewReader(string(in))
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "good" {
		t.Errorf("%v %s", err, out)
	}
}
