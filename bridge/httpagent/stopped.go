package httpagent

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"aqueduct/bridge"
	"aqueduct/internal/retry"
)

// A person stops an answer and sends a new message at once:
//
//  1. The agent notices the stop by its closed connection.
//  2. Some frameworks allow one run of a conversation at a time. Until they have noticed the stop, they refuse the next run
//     (Strands: THREAD_BUSY).
//  3. No protocol reports that the agent has noticed.
//
// So the next call of the conversation waits for noticeSpan after the connection was closed. A call that is still refused as
// busy is repeated once.
const (
	// noticeSpan is longer than a server needs to detect the closed connection and to clean up, and short for a person.
	noticeSpan = 250 * time.Millisecond
	// busySpan is for a server that checks for the close only between two pieces of its answer.
	busySpan = time.Second
)

// stops records the conversations whose call was cancelled a moment ago.
type stops struct {
	mu sync.Mutex
	at map[string]time.Time // by bridge.Call.InstanceID; the next note removes entries older than noticeSpan
}

// note records that the connection of a call was closed before the agent had ended.
func (s *stops) note(conversation string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = make(map[string]time.Time)
	}
	for of, at := range s.at {
		if now.Sub(at) > noticeSpan {
			delete(s.at, of)
		}
	}
	s.at[conversation] = now
}

// wait returns after the agent has had noticeSpan to notice the stop.
func (s *stops) wait(ctx context.Context, conversation string) error {
	s.mu.Lock()
	at, stopped := s.at[conversation]
	s.mu.Unlock()
	if !stopped {
		return nil
	}
	return retry.Sleep(ctx, noticeSpan-time.Since(at))
}

// isBusyStatus reports whether an HTTP status refuses a call because another call of the conversation is under way.
func isBusyStatus(status int) bool {
	return status == http.StatusConflict || status == http.StatusLocked
}

// isBusy reports whether an answer consists only of an error that means the same.
func isBusy(outputs []bridge.Output) bool {
	if len(outputs) != 1 || outputs[0].End == nil || outputs[0].End.Failure == nil {
		return false
	}
	code := strings.ToLower(outputs[0].End.Failure.Code)
	return strings.Contains(code, "busy") || code == bridge.RefusedRunInProgress
}
