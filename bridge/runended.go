package bridge

import (
	"context"
	"errors"
	"time"

	"aqueduct/agui"
	"aqueduct/store"
)

// runEnded is the CUSTOM event of a join for a thread whose last Run failed or was cancelled.
const runEnded = "run_ended"

// cutOff is the message of a Run that failed without one.
const cutOff = "The answer was cut off."

// lastBroken is the thread's last Run, if that failed or was cancelled; else nil.
// A client that comes to a thread at rest would otherwise see a conversation that stops in the middle, and not why.
func (s *Feeds) lastBroken(ctx context.Context, in store.Scope, sessionID string) (*store.BrokenRun, error) {
	last, err := s.store.LastRun(ctx, in, sessionID)
	if errors.Is(err, store.ErrNotFound) || err == nil && last.Status != store.RunFailed && last.Status != store.RunCancelled {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	broken, err := s.store.BrokenRuns(ctx, in, sessionID, last.ID, last.ID)
	if err != nil || len(broken) == 0 {
		return nil, err
	}
	return &broken[0], nil
}

// endedNote is the CUSTOM event run_ended.
func endedNote(b *store.BrokenRun) *agui.Custom {
	type note struct {
		RunID   string `json:"runId"`
		Status  string `json:"status"`
		Code    string `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
		At      string `json:"at,omitempty"`
	}
	n := note{RunID: b.ExternalID, Status: "cancelled"}
	if b.Status == store.RunFailed {
		n.Status, n.Code, n.Message = "failed", b.ErrorCode, EndMessage(*b)
	}
	if !b.EndedAt.IsZero() {
		n.At = b.EndedAt.UTC().Format(time.RFC3339Nano)
	}
	return &agui.Custom{Name: runEnded, Value: mustJSON(n)}
}

// EndMessage is the sentence for a person about a Run that failed.
func EndMessage(b store.BrokenRun) string {
	if b.ErrorMessage == "" {
		return cutOff
	}
	return b.ErrorMessage
}

// brokenEnd is the last event of a join to a thread whose last Run failed or was cancelled: that Run's own. It is a plain
// finish for two clients. A TDesign page holds every later answer for failed once it saw a RUN_ERROR. And one that has
// just answered a question keeps it as pending until it sees a RUN_FINISHED, and would answer it for ever.
func brokenEnd(r Reply, b *store.BrokenRun) agui.Event {
	finished := &agui.RunFinished{ThreadID: r.Session.ExternalID, RunID: r.RunID}
	switch {
	case b.Status == store.RunFailed && r.answering, r.Dialect == DialectTDesign:
		finished.Outcome = &agui.Outcome{Type: agui.OutcomeSuccess}
	case b.Status == store.RunFailed:
		return &agui.RunError{Message: EndMessage(*b), Code: b.ErrorCode}
	default:
		finished.Outcome = &agui.Outcome{Type: agui.OutcomeCancelled}
	}
	return finished
}

// endedSentence tells a TDesign page the same in words.
func endedSentence(b *store.BrokenRun) []agui.Event {
	if b.Status == store.RunFailed {
		return textMessage(EndMessage(*b))
	}
	return textMessage("The answer was stopped.")
}
