package sdk_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestUnits runs the SDK's own tests.
func TestUnits(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), python(), "-W", "error", "-m", "unittest", "discover", "-s", "../../sdk/python/tests").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Log(strings.Join(lines[max(0, len(lines)-3):], " "))
}

// chunk is what chat.py prints of each thing its iterator yields.
type chunk struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// TestClient: the SDK's client receives everything once, approves, and receives the rest; over a
// steady connection and over one that breaks every few hundred bytes.
func TestClient(t *testing.T) {
	t.Parallel()
	s := start(t)
	want := []chunk{{"text", "I will transfer 10 to ada. "}, {"Approval", "payments.transfer"}, {"Settled", ""}, {"ToolResult", ""}, {"text", "Done, receipt R."}}
	for name, url := range map[string]string{"steady": s.url, "cut": cutting(t, s.url, 700)} {
		got := talk(t, url, name, "transfer 10 to ada", "approve")
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if paid := s.bank.executed(); len(paid) != 2 {
		t.Errorf("paid %v", paid)
	}
}

// TestClientWithoutTools receives words alone, while another client rejects.
func TestClientWithoutTools(t *testing.T) {
	t.Parallel()
	s := start(t)
	go func() {
		for s.open("t1") == nil && t.Context().Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		if asked := s.open("t1"); asked != nil {
			s.decide(t, asked.ID, false)
		}
	}()
	got := talk(t, s.url, "t1", "transfer 10 to ada", "words")
	want := []chunk{{"text", "I will transfer 10 to ada. It was not done (rejected)."}}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// talk runs chat.py; adjacent texts are joined, and receipts made comparable.
func talk(t *testing.T, url, thread, prompt, mode string) []chunk {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python(), "chat.py", url, thread, prompt, mode)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chat.py: %v\n%s%s", err, out, &stderr)
	}
	var chunks []chunk
	for line := range bytes.Lines(out) {
		var c chunk
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if n := len(chunks); n > 0 && c.Kind == "text" && chunks[n-1].Kind == "text" {
			chunks[n-1].Text += c.Text
			continue
		}
		chunks = append(chunks, c)
	}
	for i := range chunks {
		if before, _, ok := strings.Cut(chunks[i].Text, "receipt r-"); ok {
			chunks[i].Text = before + "receipt R."
		}
	}
	return chunks
}

// TestFiles: the example reads what a person uploaded, of any size.
func TestFiles(t *testing.T) {
	t.Parallel()
	s := start(t)
	var parts []any
	for _, size := range []int{10, 100 << 10, 6 << 20} {
		var file struct{ Type, URL string }
		text, err := s.tryAs("image/png", http.MethodPost, "/api/attachments", bytes.Repeat([]byte{0x89}, size))
		if err == nil {
			err = json.Unmarshal([]byte(text), &file)
		}
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, map[string]any{"type": file.Type, "source": map[string]string{"type": "url", "value": file.URL}})
	}
	body, err := json.Marshal(map[string]any{
		"protocolVersion": "1.0", "threadId": "t1", "runId": "r1",
		"messages": []any{map[string]any{"id": "m1", "role": "user", "content": append([]any{map[string]string{"type": "text", "text": "size"}}, parts...)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.try(http.MethodPost, "/api/agui/chat?agent=py", body); err != nil || !strings.Contains(got, "Bytes: 10, 102400, 6291456.") {
		t.Fatal(got, err)
	}
}
