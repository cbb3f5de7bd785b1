// Package agent is a base for HTTP agents of Aqueduct (docs/protocol.md, "HTTP agents"): one function behind POST /invoke
// and GET /health, with what an agent may ask Aqueduct for. It needs the standard library alone.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"time"
)

const (
	// maxBody is the most bytes of a request. Aqueduct keeps messages far below.
	maxBody = 16 << 20
	// maxCalls is how many answers are under way at a time; more are refused with 503.
	maxCalls = 256
	// heartbeat is the silence after which a comment shows that the agent is alive. Aqueduct gives up after minutes.
	heartbeat = 15 * time.Second
	// readPatience is how long a request may take to arrive.
	readPatience = 30 * time.Second
	// writePatience is how long a caller may take nothing of what is sent. Aqueduct pauses while its database does.
	writePatience = 5 * time.Minute
)

// Error is a failure with a stable code and words for people. A function that returns one ends its answer with it; of any
// other error people read only that the agent failed.
type Error struct {
	Code    string
	Message string
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Handler serves an agent that is made of one function. ctx ends when the caller has left. Keep the handler where only
// Aqueduct reaches it: who does can pretend to be Aqueduct and forge answers.
func Handler(answer func(ctx context.Context, run *Run) error) http.Handler {
	calls := make(chan struct{}, maxCalls)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("POST /invoke", func(w http.ResponseWriter, r *http.Request) {
		select {
		case calls <- struct{}{}:
			defer func() { <-calls }()
		default:
			refuse(w, http.StatusServiceUnavailable, "too many answers are under way")
			return
		}
		in, status, err := read(w, r)
		if err != nil {
			refuse(w, status, err.Error())
			return
		}
		stream(w, r, in, answer)
	})
	return mux
}

// read takes the request's body. Aqueduct sends no Origin. Browsers do: a page that reaches an agent by a name of its own
// (DNS rebinding) could answer the agent's questions in a person's stead.
func read(w http.ResponseWriter, r *http.Request) (in input, status int, err error) {
	if r.Header.Get("Origin") != "" {
		return in, http.StatusForbidden, errors.New("agents are not called by pages")
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return in, http.StatusUnsupportedMediaType, errors.New("the body must be application/json")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readPatience)) // a recorder of tests has none
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return in, http.StatusRequestEntityTooLarge, errors.New("the body is too large")
	}
	if err != nil {
		return in, http.StatusRequestTimeout, errors.New("the body did not arrive in time")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if err := json.Unmarshal(raw, &in); err != nil {
		return in, http.StatusBadRequest, errors.New("the body is not what Aqueduct sends")
	}
	return in, 0, nil
}

// stream answers: frames until the end, or until the caller has left. The heartbeats end before it returns, because a
// response must not be written to afterwards.
func stream(w http.ResponseWriter, r *http.Request, in input, answer func(context.Context, *Run) error) {
	ctx, leave := context.WithCancel(r.Context())
	defer leave()
	out := &outlet{w: w, control: http.NewResponseController(w), leave: leave}
	run, err := newRun(r.Header, in, out)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	w.Header().Set("X-Aqueduct-Resumable", "true")
	w.WriteHeader(http.StatusOK)
	out.write(nil) // at once: a caller measures the first byte apart from the first frame
	beaten := make(chan struct{})
	go func() {
		defer close(beaten)
		out.beat(ctx)
	}()
	defer func() {
		leave()
		<-beaten
		_ = out.control.SetWriteDeadline(time.Time{}) // the connection may serve another call
	}()
	run.end(ctx, call(ctx, run, answer))
}

// call calls the function; a panic is a failure like another.
func call(ctx context.Context, run *Run, answer func(context.Context, *Run) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return answer(ctx, run)
}

// refuse answers a call that does not begin, with a problem in JSON.
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Connection", "close") // a refused body is not read
	reply(w, status, map[string]string{"detail": detail})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may have left
}
