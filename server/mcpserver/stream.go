// This file is the writer of a response. Two write to it: the library, and the call that is held (beat).

package mcpserver

import (
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"aqueduct/internal/jsontext"
	"aqueduct/server/decode"
)

// responseStream is the response of one request. Each write has a deadline of its own, because a call may be held for as long
// as a person takes. The protocol's library writes whole events, between which a held call puts comments.
type responseStream struct {
	http.ResponseWriter
	c  echo.Context
	in *decode.Decoder

	mu    sync.Mutex
	ended bool
}

// Write implements http.ResponseWriter.
func (s *responseStream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in.Awaits(s.c, 0)
	if s.Header().Get("Content-Type") != "text/event-stream" {
		return s.ResponseWriter.Write(b)
	}
	if n, err := s.ResponseWriter.Write(jsontext.AppendLine(nil, b)); err != nil {
		return min(n, len(b)), err
	}
	return len(b), nil
}

// WriteHeader implements http.ResponseWriter.
func (s *responseStream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ResponseWriter.WriteHeader(status)
}

// FlushError is what http.ResponseController looks for.
func (s *responseStream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return http.NewResponseController(s.ResponseWriter).Flush()
}

// beat sends a comment, which no client reads, so that nothing in between takes the stream for dead. The library has set the
// headers before a tool is called.
func (s *responseStream) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.Header().Get("Content-Type") != "text/event-stream" {
		return
	}
	s.in.Awaits(s.c, 0)
	_, _ = s.ResponseWriter.Write([]byte(": held\n\n")) // a client that is gone ends the request's context
	_ = http.NewResponseController(s.ResponseWriter).Flush()
}

// end has a call that outlives its request write nothing more.
func (s *responseStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}
