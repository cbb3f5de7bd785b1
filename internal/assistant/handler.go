// This file takes a call of the assistant: the body, the run token, and the stream of the answer. It is the contract
// of any HTTP agent (docs/protocol.md). Who calls is not checked: the assistant has no port, and is called by its own server
// alone.

package assistant

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"time"
)

// Config is what the assistant needs.
type Config struct {
	Model string // by which the model proxy knows it
	// BaseURL is where it reaches the server that it belongs to. The header x-aqueduct-base-url is for agents elsewhere.
	BaseURL string
	Client  *http.Client // http.DefaultClient when nil; its answers are streams, so it has no timeout
	Logger  *slog.Logger // nil logs nothing
}

// maxBody bounds a call's body: the transcript is bounded by the server that sends it.
const maxBody = 256 << 20

// New is the assistant.
func New(cfg Config) http.Handler {
	if cfg.Client == nil {
		cfg.Client = http.DefaultClient
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"ok"}`)) // a probe that has left needs no answer
	})
	mux.HandleFunc("POST /invoke", cfg.invoke)
	return mux
}

// invocation is the body of POST /invoke, the conversation in OpenAI's form. RunID is the Turn's, by which tool calls
// name their run; Tools are the page's alone, and Resume has what those of an earlier call gave.
type invocation struct {
	RunID    string            `json:"run_id"`
	Messages []json.RawMessage `json:"messages"`
	Tools    []pageTool        `json:"tools"`
	Resume   []answer          `json:"resume"`
	// FunctionNames has the original names of tools that Messages and Tools rename.
	FunctionNames map[string]string `json:"function_names"`
}

// pageTool is a tool that the user's client has.
type pageTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// answer is what came of a call of such a tool. CallID is the call's id in the messages. Status is "cancelled" where
// the client did not run it; Payload is what it gave.
type answer struct {
	CallID  string          `json:"call_id"`
	Status  string          `json:"status"`
	Payload json.RawMessage `json:"payload"`
}

// invoke answers one call. It returns when the answer has ended or the caller has left: nothing of a call outlives
// its request.
func (cfg Config) invoke(w http.ResponseWriter, r *http.Request) {
	var in invocation
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
		http.Error(w, "the body is not an invocation: "+err.Error(), http.StatusBadRequest)
		return
	}
	out := newStream(w)
	defer out.close()
	t := &turn{
		in: in, model: cfg.Model, out: out, logger: cfg.Logger,
		platform: platform{client: cfg.Client, base: cfg.BaseURL, token: r.Header.Get("x-aqueduct-run-token")},
	}
	t.run(r.Context())
}

// aliveEvery is how often a stream that has nothing to send sends a comment: a model may think for minutes, and who reads
// the stream takes silence for the end.
const aliveEvery = 15 * time.Second
