package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

// relay is what an engineer writes in an afternoon: decode, encode with encoding/json,
// write, flush, keep nothing. It is the unit the table counts in.
type relay struct {
	upstream string
	client   *http.Client
}

func serveRelay(l net.Listener, upstream string) error {
	r := &relay{upstream: upstream, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/agui/chat", r.chat)
	return http.Serve(l, mux)
}

type relayEvent struct {
	Type      string `json:"type"`
	ThreadID  string `json:"threadId,omitempty"`
	RunID     string `json:"runId,omitempty"`
	MessageID string `json:"messageId,omitempty"`
	Role      string `json:"role,omitempty"`
	Delta     string `json:"delta,omitempty"`
}

func (r *relay) chat(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	resp, err := r.client.Post(r.upstream+"/invoke", "application/json", bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher)
	send := func(e relayEvent) {
		raw, _ := json.Marshal(e)
		fmt.Fprintf(w, "data: %s\n\n", raw)
		flush.Flush()
	}
	send(relayEvent{Type: "RUN_STARTED", ThreadID: "t", RunID: "r"})
	send(relayEvent{Type: "TEXT_MESSAGE_START", MessageID: "m", Role: "assistant"})
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var body struct{ Text string }
		if json.Unmarshal(data, &body) == nil && body.Text != "" {
			send(relayEvent{Type: "TEXT_MESSAGE_CONTENT", MessageID: "m", Delta: body.Text})
		}
	}
	send(relayEvent{Type: "TEXT_MESSAGE_END", MessageID: "m"})
	send(relayEvent{Type: "RUN_FINISHED", ThreadID: "t", RunID: "r"})
}
