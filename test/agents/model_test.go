package agents_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// model speaks the chat completions API, streamed and not, and answers as the script demands.
type model struct {
	url string

	mu   sync.Mutex
	seen []chatRequest
}

// chatRequest is what an agent asks. Content is a text or a list of parts.
type chatRequest struct {
	Model    string            `json:"model"`
	Stream   bool              `json:"stream"`
	Messages []chatMessage     `json:"messages"`
	Tools    []json.RawMessage `json:"tools,omitempty"`
}

type chatMessage struct {
	Role    string   `json:"role"`
	Content chatText `json:"content"`
}

// chatText joins the texts of a message, whichever of the two forms it came in.
type chatText string

func (c *chatText) UnmarshalJSON(data []byte) error {
	var parts []struct{ Text string }
	if json.Unmarshal(data, &parts) != nil {
		return json.Unmarshal(data, (*string)(c))
	}
	for _, p := range parts {
		*c += chatText(p.Text)
	}
	return nil
}

func newModel(t *testing.T) *model {
	m := &model{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", m.complete)
	mux.HandleFunc("GET /requests", m.list)
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		srv.CloseClientConnections() // an agent may hold one for the next request
		srv.Close()
	})
	m.url = srv.URL
	return m
}

func (m *model) complete(w http.ResponseWriter, r *http.Request) {
	var req chatRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.seen = append(m.seen, req)
	m.mu.Unlock()
	if req.Stream {
		stream(w, r, script(req))
		return
	}
	whole(w, script(req))
}

// requests is what was asked so far, without the titles agents ask for on the side.
func (m *model) requests() []chatRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []chatRequest
	for _, req := range m.seen {
		if len(req.Tools) > 0 {
			out = append(out, req)
		}
	}
	return out
}

// list is requests for judges outside of this process.
func (m *model) list(w http.ResponseWriter, _ *http.Request) {
	out := m.requests()
	for i := range out {
		out[i].Tools = nil
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the judge sees a cut answer
}

// users is what people wrote in a conversation, in order.
func (req chatRequest) users() []string {
	var out []string
	for _, msg := range req.Messages {
		if msg.Role == "user" {
			out = append(out, strings.TrimSpace(string(msg.Content)))
		}
	}
	return out
}
