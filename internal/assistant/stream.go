// This file writes the frames of an answer, in the form of an HTTP agent (docs/protocol.md). What a frame means is
// decided by the server that reads it (bridge/httpagent).

package assistant

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"aqueduct/internal/fault"
)

// stream writes the frames of an answer. After the first failure, which mostly is that the caller has left, it writes no
// more, so that who writes need not look at an error after each frame. Its comments come from a goroutine of its own, which
// close ends; mu orders it and the writer.
type stream struct {
	mu  sync.Mutex
	w   http.ResponseWriter
	to  *http.ResponseController
	err error

	stop chan struct{}
	done chan struct{}
}

// newStream begins the response. The status is 200 whatever comes: how a call ended is the name of its last frame.
func newStream(w http.ResponseWriter) *stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	s := &stream{w: w, to: http.NewResponseController(w), stop: make(chan struct{}), done: make(chan struct{})}
	s.write(nil) // the headers go out at once
	go func() {
		defer close(s.done)
		s.keepAlive()
	}()
	return s
}

func (s *stream) keepAlive() {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.write([]byte(": alive\n\n"))
		case <-s.stop:
			return
		}
	}
}

// close ends the comments; the response must not be written to after the handler has returned.
func (s *stream) close() {
	close(s.stop)
	<-s.done
}

func (s *stream) write(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		_, s.err = s.w.Write(text)
	}
	if s.err == nil {
		s.err = s.to.Flush()
	}
}

// send writes one frame.
func (s *stream) send(name string, data any) {
	body, err := json.Marshal(data)
	if err != nil { // of values that all encode
		return
	}
	s.write([]byte("event: " + name + "\ndata: " + string(body) + "\n\n"))
}

type textFrame struct {
	Text string `json:"text"`
}

func (s *stream) say(text string)   { s.send("delta", textFrame{text}) }
func (s *stream) think(text string) { s.send("thought", textFrame{text}) }

// callFrame is a frame of a tool call: its start, a piece of its arguments, its end, its result, or that the client is to
// run it.
type callFrame struct {
	ID      string          `json:"id"`
	Name    string          `json:"name,omitempty"`
	Delta   string          `json:"delta,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	Content string          `json:"content,omitempty"`
}

// finish ends the answer; pending are the calls of the client's tools that it ends to wait for. The server calls the
// assistant again when all of them have an answer.
func (s *stream) finish(pending []string) {
	s.send("done", struct {
		Pending []string `json:"pending,omitempty"`
	}{pending})
}

// fail ends the answer with an error that the user reads.
func (s *stream) fail(f *fault.Error) {
	s.send("error", struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{f.Code, f.Message})
}
