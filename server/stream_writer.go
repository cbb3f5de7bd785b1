package server

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"
)

// stream is the writing side of one response. Its handler sends frames; a timer sends
// comments while the handler has nothing to send, so that idle streams need no goroutine
// of their own.
type stream struct {
	limits Limits
	cancel context.CancelFunc // ends the handler's waiting

	mu     sync.Mutex // held while writing
	w      http.ResponseWriter
	rc     *http.ResponseController
	beat   *time.Timer
	last   time.Time // of the last write
	opened time.Time // what was appended before was waiting for nobody
	closed bool
	err    error
}

// send writes and flushes; each piece has a deadline of its own.
func (s *stream) send(frames []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(frames)
}

func (s *stream) write(frames []byte) error {
	for s.err == nil && len(frames) > 0 {
		n := min(len(frames), writeBytes)
		s.err = s.piece(frames[:n])
		frames = frames[n:]
	}
	if s.err == nil {
		s.err = s.rc.Flush()
	}
	s.last = time.Now()
	return s.err
}

func (s *stream) piece(p []byte) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.limits.WriteTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	_, err := s.w.Write(p)
	return err
}

// heartbeat is called by the timer.
func (s *stream) heartbeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.err != nil {
		return
	}
	if quiet := time.Since(s.last); quiet < s.limits.Heartbeat {
		s.beat.Reset(s.limits.Heartbeat - quiet)
		return
	}
	if s.write([]byte(": alive\n\n")) != nil {
		s.cancel()
		return
	}
	s.beat.Reset(s.limits.Heartbeat)
}

// close returns when no heartbeat writes and none will.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.beat.Stop()
}

func (s *stream) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// slow reports whether the reader could not take a write in its time.
func (s *stream) slow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Is(s.err, os.ErrDeadlineExceeded)
}
