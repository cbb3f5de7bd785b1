package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTravelServed plays the ten-step example through the whole program, the demo agent's
// `all`, in each dialect, and compares every byte that was sent but for the ids made, and
// the times.
func TestTravelServed(t *testing.T) {
	t.Parallel()
	for dialect, bodies := range map[string][2]string{
		"agui-1.0": {
			`{"protocolVersion":"1.0","threadId":"trip","runId":"r1","messages":[{"id":"u1","role":"user","content":"all"}]}`,
			`{"protocolVersion":"1.0","threadId":"trip","runId":"r2","messages":[],"resume":[{"interruptId":"%s","status":"resolved","payload":{"choice":"舒适型"}}]}`,
		},
		"agui-0.x": {
			`{"threadId":"trip","runId":"r1","messages":[{"id":"u1","role":"user","content":"all"}]}`,
			`{"threadId":"trip","runId":"r2","messages":[],"resume":[{"interruptId":"%s","status":"resolved","payload":{"choice":"舒适型"}}]}`,
		},
		"tdesign": {
			`{"threadId":"trip","prompt":"all"}`,
			`{"threadId":"trip","toolCallMessage":{"toolCallId":"%s","toolCallName":"collect_preferences","result":"{\"choice\":\"舒适型\"}"}}`,
		},
	} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			r := start(t, "--demo", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"))
			first := postChat(t, r, bodies[0])
			question := regexp.MustCompile(`"interrupts":\[\{"id":"([^"]+)"`).FindStringSubmatch(first)
			if question == nil {
				t.Fatalf("nothing is asked in\n%s", first)
			}
			second := postChat(t, r, fmt.Sprintf(bodies[1], question[1]))
			compareGolden(t, "travel-"+dialect+".sse", withoutChance(first+second))
		})
	}
}

func postChat(t *testing.T, r *running, body string) string {
	t.Helper()
	resp, err := r.client.Post(r.URL+"/api/agui/chat", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %v\n%s", resp.Status, err, raw)
	}
	return string(raw)
}

// withoutChance numbers the ids in the order they come, and takes the times out.
func withoutChance(stream string) string {
	seen := make(map[string]string)
	stream = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).ReplaceAllStringFunc(stream, func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("id-%d", len(seen)+1)
		}
		return seen[id]
	})
	stream = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`).ReplaceAllString(stream, "TIME")
	return regexp.MustCompile(`(?m)^(retry: \d+|: .*)\n\n?`).ReplaceAllString(stream, "")
}

// compareGolden compares with a file under testdata; -update writes it.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got\n%s", name, got)
	}
}

var update = flag.Bool("update", false, "write the golden files")
