package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"aqueduct/bridge/redact"
)

// hostile are names that would forge a line of the log, steer a terminal or show other text than is there.
var hostile = []string{
	"x\r\ntime=2000-01-01T00:00:00.000Z level=INFO msg=forged", "x\n{\"level\":\"INFO\",\"msg\":\"forged\"}", `x" level=ERROR msg="forged`,
	`x","msg":"forged","level":"ERROR`, "\x1b[2K\x1b[1Aforged", "\u202edegrof\u2066", "a\u200bb\ufeff", "\u0085forged", "\u2028forged", "\x00\x7f\u009b31m", "\U000e0041",
}

// TestS29NoNameForgesALogLine: in both formats, whatever a name holds stays within its entry, and everything of it can be seen.
func TestS29NoNameForgesALogLine(t *testing.T) {
	t.Parallel()
	filter, err := redact.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log := newLogger(format, &out, filter)
		for _, name := range hostile {
			log.With("agent", name).WithGroup("g").Warn("said "+name, "thread", name, "tool", []string{name}, "of", map[string]string{name: name}, "error", errors.New(name))
		}
		lines := wellFormed(t, format, out.String())
		if len(lines) != len(hostile) {
			t.Errorf("%s: %d lines of %d entries:\n%s", format, len(lines), len(hostile), &out)
		}
		for i, line := range lines {
			var entry struct{ Msg, Agent string }
			if format == "json" && (json.Unmarshal([]byte(line), &entry) != nil || entry.Msg != "said "+hostile[i] || entry.Agent != hostile[i]) {
				t.Errorf("%q was logged as %s", hostile[i], line)
			}
		}
	}
}

// TestS29RequestsForgeNoLogLine: the same of the program, whose requests have such names wherever they can.
func TestS29RequestsForgeNoLogLine(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		r := start(t, "--demo", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"), "--log-format", format)
		for _, name := range hostile {
			quoted, _ := json.Marshal(name)
			for path, body := range map[string]string{
				"/api/agui/chat":                    fmt.Sprintf(`{"threadId":%s,"runId":%[1]s,"messages":[{"id":%[1]s,"role":"user","content":%[1]s}],"forwardedProps":{"agentId":%[1]s}}`, quoted),
				"/v1/tools":                         fmt.Sprintf(`{"name":%s,"kind":"server_tool","endpoint":"http://127.0.0.1:1"}`, quoted),
				"/api/admin/acp-proxy/register":     fmt.Sprintf(`{"proxy_id":%s,"bootstrap_token":%[1]s}`, quoted),
				"/api/session":                      fmt.Sprintf(`{"token":%s}`, quoted),
				"/api/approvals/%0a%1b[2K/decision": `{"decision":"approve"}`,
			} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("User-Agent", strings.Map(func(c rune) rune {
					if unicode.IsControl(c) {
						return ' ' // no client sends these
					}
					return c
				}, name))
				resp, err := r.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
			}
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d lines with %d requests", format, len(wellFormed(t, format, r.log.String())), 5*len(hostile))
	}
}

// wellFormed splits a log, each of whose lines must be an entry in which everything can be seen.
func wellFormed(t *testing.T, format, log string) []string {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(log, "\n"), "\n")
	for _, line := range lines {
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: a line has what cannot be seen: %q", format, line)
		}
		if format == "json" && !json.Valid([]byte(line)) || format == "text" && (!strings.HasPrefix(line, "time=") || strings.HasPrefix(line, "time=2000")) {
			t.Errorf("%s: a forged line: %q", format, line)
		}
	}
	return lines
}
