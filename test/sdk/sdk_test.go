// Package sdk_test runs sdk/python with the system's python3: its own tests, and
// examples/pyagent behind the built program, asked over HTTP and by the SDK's client.
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

// TestToolNeedsApproval: the agent calls payments.transfer, a person is asked, approves over
// REST, and the agent, which waited all the while, tells the receipt.
func TestToolNeedsApproval(t *testing.T) {
	t.Parallel()
	s := start(t)
	first := s.chat(t, "t1", "transfer 10 to ada")
	if !strings.Contains(first, `\"tool\":\"payments.transfer\"`) || !strings.Contains(first, `"type":"interrupt"`) {
		t.Fatalf("no question was shown:\n%s", first)
	}
	asked := s.pending(t, "t1")
	if asked.Tool != "payments.transfer" || string(asked.Args) != `{"amount":10,"to":"ada"}` {
		t.Fatalf("asked %+v", asked)
	}
	if paid := s.bank.executed(); len(paid) != 0 {
		t.Fatalf("paid %v before anybody approved", paid)
	}
	s.decide(t, asked.ID, true)
	if got := s.finished(t, "t1"); !strings.HasSuffix(got, "Done, receipt r-1.") {
		t.Fatalf("the chat ends with %q", got)
	}
	if paid := s.bank.executed(); !slices.Equal(paid, []string{`{"amount":10,"to":"ada"}`}) {
		t.Fatalf("paid %v", paid)
	}
}

// TestToolShownByAgent: a call that the agent shows itself is in the chat once, with the platform's result.
func TestToolShownByAgent(t *testing.T) {
	t.Parallel()
	s := start(t)
	stream := s.chat(t, "b", "balance of ada")
	if n := strings.Count(stream, `"TOOL_CALL_START"`); n != 1 || !strings.Contains(stream, `"content":"{\"amount\":42}"`) {
		t.Errorf("the call is there %d times:\n%s", n, stream)
	}
	if got := s.finished(t, "b"); !strings.HasSuffix(got, "ada has 42.") {
		t.Errorf("%q", got)
	}
}

func TestToolRejected(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.chat(t, "t1", "transfer 10 to ada")
	s.decide(t, s.pending(t, "t1").ID, false)
	if got := s.finished(t, "t1"); !strings.Contains(got, "It was not done") {
		t.Fatalf("the chat ends with %q", got)
	}
	if paid := s.bank.executed(); len(paid) != 0 {
		t.Fatalf("paid %v", paid)
	}
}

// TestCancelWhileAToolWaits: the question closes, nothing is run, and the agent is rid of
// the call it waited for.
func TestCancelWhileAToolWaits(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.chat(t, "t1", "transfer 10 to ada")
	asked := s.pending(t, "t1")
	s.send(t, http.MethodPost, "/api/runs/r-t1/cancel", []byte("{}"))
	eventually(t, "the question's end", func() bool { return s.open("t1") == nil })
	if _, err := s.try(http.MethodPost, "/api/approvals/"+asked.ID+"/decision", []byte(`{"approved":true}`)); err == nil {
		t.Error("a cancelled question was approved")
	}
	s.agent.restart(t) // it ends at once: nothing is under way in it
	if paid := s.bank.executed(); len(paid) != 0 {
		t.Fatalf("paid %v", paid)
	}
}

// TestAgentAsksTwice: each answer calls the agent again, which keeps nothing between calls;
// it is another process the second time.
func TestAgentAsksTwice(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.chat(t, "t1", "tidy a b")
	s.agent.restart(t)
	s.decide(t, s.pending(t, "t1").ID, true)
	second := s.pending(t, "t1")
	if string(second.Args) != `{"path":"b"}` {
		t.Fatalf("asked %s", second.Args)
	}
	s.agent.restart(t)
	s.decide(t, second.ID, false)
	if got := s.finished(t, "t1"); got != "I would like to delete a. |a is deleted. I would like to delete b. |b stays. " {
		t.Fatalf("the chat is %q", got)
	}
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
	want := []chunk{{"text", "I will transfer 10 to ada. It was not done: A person rejected it."}}
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

// TestContext: the example keeps notes in the context store, across runs and its own restart.
func TestContext(t *testing.T) {
	t.Parallel()
	s := start(t)
	ask := func(prompt string) string {
		t.Helper()
		return talk(t, s.url, "t1", prompt, "words")[0].Text
	}
	if got := ask("recall"); got != "I remember nothing." {
		t.Fatal(got)
	}
	if got := ask("remember the milk"); got != "I will remember that (version 1)." {
		t.Fatal(got)
	}
	s.agent.restart(t)
	if got := ask("remember the bread"); got != "I will remember that (version 2)." {
		t.Fatal(got)
	}
	if got := ask("recall"); got != "I remember: the milk, the bread." {
		t.Fatal(got)
	}
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
	if got := s.send(t, http.MethodPost, "/api/agui/chat", body); !strings.Contains(got, "Bytes: 10, 102400, 6291456.") {
		t.Fatal(got)
	}
}

// TestAgentsAndTranscript: the example has another agent work, whose question is asked in this chat, and reads the thread.
func TestAgentsAndTranscript(t *testing.T) {
	t.Parallel()
	s := start(t)
	if got := talk(t, s.url, "t1", "ask other hello there", "words")[0].Text; got != "other answers: You wrote: hello there " {
		t.Fatalf("%q", got)
	}
	got := talk(t, s.url, "t1", "ask other transfer 5 to bob", "approve")
	var text string
	for _, c := range got {
		text += c.Text
	}
	if !strings.Contains(text, "other answers: I will transfer 5 to bob. Done, receipt R.") && !strings.Contains(text, "other answers: I will transfer 5 to bob. Done, receipt r-1.") {
		t.Errorf("%v", got)
	}
	if paid := s.bank.executed(); len(paid) != 1 {
		t.Errorf("paid %v", paid)
	}
	if got := talk(t, s.url, "t1", "ask nobody hello", "words")[0].Text; !strings.HasPrefix(got, "nobody did not answer: ") {
		t.Errorf("%q", got)
	}
	if got := talk(t, s.url, "t1", "history", "words")[0].Text; !strings.Contains(got, "the first is 'ask other hello there'") {
		t.Errorf("%q", got)
	}
}
