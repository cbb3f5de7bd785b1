package models_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// upstream is a server of OpenAI's API on loopback. The name of a model picks what it does: m-text, m-tool, m-cut, m-hangs,
// and m-<status>.
type upstream struct {
	*httptest.Server
	left chan struct{} // a caller was seen to leave
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{left: make(chan struct{}, 8)}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

// used is what each answer says that it used.
const used = `{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}`

// words are the deltas of m-text, m-cut and m-hangs.
var words = strings.SplitAfter("one two three four five ", " ")

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var body struct {
		Model         string
		Stream        bool
		StreamOptions *struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	_ = json.Unmarshal(raw, &body)
	w.Header().Set("X-Request-Id", "req_1")
	w.Header().Set("Content-Type", "application/json")
	var status int
	switch n, _ := fmt.Sscanf(body.Model, "m-%d", &status); {
	case r.URL.Path == "/left":
		select {
		case <-u.left:
		case <-time.After(time.Second): // what is promised
			w.WriteHeader(http.StatusGatewayTimeout)
		}
	case body.StreamOptions != nil && r.URL.Path != "/v1/chat/completions": // as OpenAI
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":{"message":"Unknown parameter: 'stream_options.include_usage'.","type":"invalid_request_error","code":"unknown_parameter","param":"stream_options.include_usage"}}`)
	case r.URL.Path == "/v1/models":
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m-listed","object":"model","created":1,"owned_by":"them"}]}`)
	case n == 1:
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":"failed on purpose","type":"test","code":"c%d","param":null}}`, status)
	case r.URL.Path == "/v1/embeddings":
		fmt.Fprint(w, `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.25,0.5]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`)
	case r.URL.Path == "/v1/responses":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `event: response.output_text.delta`+"\n"+`data: {"type":"response.output_text.delta","sequence_number":1,"item_id":"i","output_index":0,"content_index":0,"delta":"hello","logprobs":[]}`+"\n\n"+
			`event: response.completed`+"\n"+`data: {"type":"response.completed","sequence_number":2,"response":{"id":"r","output":[],"usage":{"input_tokens":5,"output_tokens":6,"total_tokens":11}}}`+"\n\n")
	case !body.Stream:
		fmt.Fprint(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"one two three four five"},"finish_reason":"stop"}],"usage":`+used+`}`)
	default:
		u.stream(w, r, body.Model, body.StreamOptions != nil && body.StreamOptions.Usage)
	}
}

func (u *upstream) stream(w http.ResponseWriter, r *http.Request, model string, usage bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(delta, finish string) {
		fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
		_ = http.NewResponseController(w).Flush()
	}
	if model == "m-tool" {
		send(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]}`, "null")
		send(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}`, "null")
		send(`{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]}`, "null")
		send(`{}`, `"tool_calls"`)
	} else {
		send(`{"role":"assistant","content":""}`, "null")
		for _, word := range words[:5] {
			send(fmt.Sprintf(`{"content":%q}`, word), "null")
		}
		switch model {
		case "m-cut":
			panic(http.ErrAbortHandler)
		case "m-hangs":
			<-r.Context().Done()
			u.left <- struct{}{}
			return
		}
		send(`{}`, `"stop"`)
	}
	if usage {
		fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":`+used+`}`+"\n\n")
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}
