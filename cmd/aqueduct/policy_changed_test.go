package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aqueduct/store/storetest"
)

// TestS42PolicyChangedIsKept: a policy that comes in force is in the audit with both hashes, in the inbox and in webhooks, once;
// also one that was put there while no server ran.
func TestS42PolicyChangedIsKept(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "data", "a.db") },
		"postgres": func(t *testing.T) string { return storetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hooks := make(chan string, 10)
			target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				hooks <- string(raw)
			}))
			t.Cleanup(target.Close)
			one, two, three := "rules: [{name: one, verdict: block}]", "rules: [{name: second, verdict: block}]", "rules: [{name: third one, verdict: block}]"
			path := written(t, "p.yaml", one)
			args := []string{
				"--demo", "--database", database(t), "--policy-file", path, "--signing-key-file", filepath.Join(t.TempDir(), "k"), "--outbound", "127.0.0.0/8",
				"--webhooks", "[{name: ops, url: " + target.URL + ", secret_file: " + written(t, "secret", strings.Repeat("s", 32)) + "}]",
			}
			hash := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
			told := func(before, after string) {
				t.Helper()
				var m map[string]string
				if err := json.Unmarshal([]byte(<-hooks), &m); err != nil || m["type"] != "policy.changed" || m["before_sha256"] != before || m["after_sha256"] != after {
					t.Errorf("%+v %v, want %s, %s", m, err, before, after)
				}
			}
			first := start(t, args...)
			told("", hash(one))
			inbox := first.inbox(t)
			if synced := inbox("inbox_synced"); !strings.Contains(synced, hash(one)) {
				t.Error(synced)
			}
			if err := os.WriteFile(path, []byte(two), 0o600); err != nil {
				t.Fatal(err)
			}
			if changed := inbox("policy_changed"); !strings.Contains(changed, hash(one)) || !strings.Contains(changed, hash(two)) {
				t.Error(changed)
			}
			told(hash(one), hash(two))
			if err := first.stop(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(three), 0o600); err != nil {
				t.Fatal(err)
			}
			second := start(t, args...)
			told(hash(two), hash(three))
			resp, err := second.client.Get(second.URL + "/api/audit")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			raw, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			audit := string(raw)
			if n := strings.Count(audit, `"policy.changed"`); n != 3 || !strings.Contains(audit, hash(one)) || !strings.Contains(audit, hash(three)) {
				t.Errorf("%d entries: %s", n, audit)
			}
			if len(hooks) > 0 {
				t.Errorf("told twice: %s", <-hooks)
			}
		})
	}
}

// inbox opens the inbox's stream, and returns a wait for the data of an event.
func (r *running) inbox(t *testing.T) func(event string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL+"/api/approvals", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines, at := bufio.NewScanner(resp.Body), ""
	return func(event string) string {
		t.Helper()
		late := time.AfterFunc(time.Minute, func() { _ = resp.Body.Close() })
		defer late.Stop()
		for lines.Scan() {
			switch line := lines.Text(); {
			case strings.HasPrefix(line, "event: "):
				at = strings.TrimPrefix(line, "event: ")
			case strings.HasPrefix(line, "data: ") && at == event:
				return line
			}
		}
		t.Fatalf("no %s: %v", event, lines.Err())
		return ""
	}
}
