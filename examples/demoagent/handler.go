// This file is the HTTP edge of the agent: one call in, one stream out. It is what an agent in any language needs
// first.

package demoagent

import (
	"encoding/json"
	"net/http"
	"time"
)

// maxBody bounds a call's body: a transcript of several thousand messages fits.
const maxBody = 128 << 20

// Options are the agent's speeds. The zero value does not pause at all.
type Options struct {
	Pace time.Duration // between two deltas
	Slow time.Duration // between two deltas of the part "slow"; the words of "hold" have a share of it
}

// Default is the pace of a person reading along.
func Default() Options {
	return Options{Pace: 20 * time.Millisecond, Slow: time.Second}
}

// Handler is the agent at its default pace.
func Handler() http.Handler { return New(Default()) }

// New is the agent at a pace of its caller's choosing.
func New(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	})
	mux.HandleFunc("POST /invoke", o.invoke)
	return mux
}

// invoke answers one call. Once the stream has begun, a failure is an error frame or a broken stream; the status was
// sent.
func (o Options) invoke(w http.ResponseWriter, r *http.Request) {
	var call invocation
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&call); err != nil {
		http.Error(w, "the body is not an invocation: "+err.Error(), http.StatusBadRequest)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	w.WriteHeader(http.StatusOK)
	s := newStream(r.Context(), w, o)
	// Headers go out at once: a caller measures the first byte apart from the first frame.
	s.flush()
	pick(call.prompt()).show(s, call)
}
