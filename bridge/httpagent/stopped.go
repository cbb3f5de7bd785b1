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

// A person stops an answer and asks something else at once. The agent notices the first by its closed connection, and some
// frameworks take one run of a conversation at a time: until they have noticed, they refuse the second (Strands:
// THREAD_BUSY). No protocol has a sign by which the agent tells that it has noticed. So the next call of the conversation
// waits for noticeSpan after the connection was closed, and one that is refused as busy all the same is made once more.
const (
	// noticeSpan is longer than a server takes to find its connection closed and to run its clean-up, and short for a person.
	noticeSpan = 250 * time.Millisecond
	// busySpan is for a server that looks for the close only between two pieces of its answer.
	busySpan = time.Second
)

// stops knows the conversations of which a call was given up a moment ago.
type stops struct {
	mu sync.Mutex
	at map[string]time.Time // by bridge.Call.InstanceID; older ones than noticeSpan go with the next note
}

// note is called when the connection of a call was closed before the agent had ended.
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

// wait returns when the agent has had its time to notice.
func (s *stops) wait(ctx context.Context, conversation string) error {
	s.mu.Lock()
	at, stopped := s.at[conversation]
	s.mu.Unlock()
	if !stopped {
		return nil
	}
	return retry.Sleep(ctx, noticeSpan-time.Since(at))
}

// isBusyStatus reports whether an HTTP status refuses a call because another one of the conversation is under way.
func isBusyStatus(status int) bool {
	return status == http.StatusConflict || status == http.StatusLocked
}

// isBusy reports whether an answer is nothing but an error that means the same.
func isBusy(outputs []bridge.Output) bool {
	if len(outputs) != 1 || outputs[0].End == nil || outputs[0].End.Failure == nil {
		return false
	}
	code := strings.ToLower(outputs[0].End.Failure.Code)
	return strings.Contains(code, "busy") || code == bridge.RefusedRunInProgress
}
