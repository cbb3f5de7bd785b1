// The writing side of a stream. Two goroutines may write, the handler and the heartbeat's timer, and one mutex orders
// them: a comment in the middle of an event's frame would break the event.

package server

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"aqueduct/server/limit"
)

// stream is the writing side of one response. Its handler sends frames; a timer sends comments while the handler has
// nothing to send, so that idle streams need no goroutine of their own. It begins in streams.begin and ends with
// close; after that nothing writes. mu guards all that is below it.
type stream struct {
	limits limit.Limits
	cancel context.CancelFunc // ends the handler's waiting

	mu sync.Mutex // held while writing
	w  http.ResponseWriter
	rc *http.ResponseController
	// beat fires after Heartbeat of silence and re-arms itself.
	beat   *time.Timer
	last   time.Time // of the last write
	opened time.Time // what was appended before had no client waiting
	closed bool
	// err is the first write that failed; nothing is written after it.
	err error
}

// send writes and flushes; each piece has a deadline of its own. The first error stays, and every later send returns
// it.
func (s *stream) send(frames []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(frames)
}

// write is send with mu held. Large frames go out in pieces, since one deadline for a snapshot of megabytes would cut
// readers that keep up.
func (s *stream) write(frames []byte) error {
	for s.err == nil && len(frames) > 0 {
		n := min(len(frames), writeBytes)
		s.err = s.piece(frames[:n])
		frames = frames[n:]
	}
	if s.err == nil {
		s.err = s.rc.Flush()
	}
	// It counts as a sign of life even when it failed: the stream is ending then.
	s.last = time.Now()
	return s.err
}

// piece writes up to writeBytes within Limits.WriteTime. Writers of tests have no deadlines, which is no error.
func (s *stream) piece(p []byte) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.limits.WriteTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	_, err := s.w.Write(p)
	return err
}

// heartbeat is called by the timer. It writes only after a silence of a whole Heartbeat, and otherwise waits for the
// rest of it: on a busy stream the timer costs one wake-up a period and no bytes. A failed write is how an idle
// stream notices that its client is gone; it then ends the handler's wait.
func (s *stream) heartbeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.err != nil {
		return
	}
	// The timer is not reset at every write, which would cost an update of the timer for each delta.
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

// close returns when no heartbeat writes and none will. mu makes it wait for a heartbeat that is being written. It
// may be called twice.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.beat.Stop()
}

// failed reports whether a write failed, for whatever reason.
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
