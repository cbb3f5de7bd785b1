package faults_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"aqueduct/test/program"
)

// asksAsShipped is an agent that asks by CUSTOM on_interrupt, and keeps what it was resumed with.
type asksAsShipped struct {
	mu      sync.Mutex
	resumed []string
}

// ServeHTTP implements http.Handler.
func (a *asksAsShipped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ThreadID, RunID string
		Resume          []struct{ Payload json.RawMessage }
		ForwardedProps  struct {
			Command struct{ Resume, InterruptEvent json.RawMessage }
		}
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&in) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(event string) { _, _ = io.WriteString(w, "data: "+event+"\n\n") }
	send(fmt.Sprintf(`{"type":"RUN_STARTED","threadId":%q,"runId":%q}`, in.ThreadID, in.RunID))
	if len(in.Resume) == 0 {
		send(`{"type":"CUSTOM","name":"on_interrupt","value":"{\"question\":\"Your name?\"}","rawEvent":{"id":"lg"}}`)
	} else {
		a.mu.Lock()
		command := in.ForwardedProps.Command
		a.resumed = append(a.resumed, fmt.Sprintf("%s %s %s", in.Resume[0].Payload, command.Resume, command.InterruptEvent))
		a.mu.Unlock()
		send(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"went on"}`)
	}
	send(fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":%q,"runId":%q}`, in.ThreadID, in.RunID))
}

// TestOnInterruptAcrossAKill: what an agent asked by CUSTOM on_interrupt is still asked when the server was killed, and a client's
// command.resume, which names nothing of ours, reaches the agent as the direct client's would.
func TestOnInterruptAcrossAKill(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		asks := &asksAsShipped{}
		web := httptest.NewServer(asks)
		t.Cleanup(web.Close)
		h := &serverEnv{t: t, database: database, agent: newAgent(t), flags: []string{"--agent", "asks=" + web.URL + "/,protocol=agui"}}
		h.start(program.Shipped)
		drain := func(path, body string) {
			in, err := h.stream("POST", path, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			for {
				if _, err := in.next(); err != nil {
					return
				}
			}
		}
		drain("/api/agui/chat?agent=asks", string(prompt("T", "R1", "hi")))
		h.kill()
		h.start(program.Shipped)
		var inbox struct {
			Approvals []struct{ Title, Kind string }
		}
		if _, err := h.get("/api/approvals?status=PENDING", &inbox); err != nil || len(inbox.Approvals) != 1 || inbox.Approvals[0].Title != "Your name?" || inbox.Approvals[0].Kind != "input" {
			t.Fatalf("the inbox has %+v, %v", inbox, err)
		}
		drain("/api/agui/chat", `{"threadId":"T","runId":"R1","state":{},"tools":[],"context":[],"messages":[{"id":"R1-m","role":"user","content":"hi"}],
			"forwardedProps":{"command":{"resume":"Ada","interruptEvent":"{\"question\":\"Your name?\"}"}}}`)
		h.settled(t, "T")
		asks.mu.Lock()
		defer asks.mu.Unlock()
		if want := `"Ada" "Ada" "{\"question\":\"Your name?\"}"`; len(asks.resumed) != 1 || asks.resumed[0] != want {
			t.Errorf("the agent was resumed with %q, want %q", asks.resumed, want)
		}
	})
}
