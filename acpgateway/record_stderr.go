package acpgateway

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"aqueduct/acpgateway/acp"
	"aqueduct/store"
)

const (
	// stderrTime is how long lines are gathered: an agent that logs as it works would otherwise
	// make more records of its log than of its work. What ends it is on record behind them anyway.
	stderrTime = 5 * time.Second
)

// stderrLines gathers an agent's stderr to one record.
type stderrLines struct {
	text  strings.Builder
	chars int
	since time.Time // of the first line
	turn  string    // under way when that came
}

// stderrWords are the words of a signal that is a line of an agent's stderr.
func stderrWords(content json.RawMessage) (string, bool) {
	signal, err := acp.DecodeSignal(content)
	if err != nil {
		return "", false
	}
	text, ok := signal.(*acp.Text)
	if !ok {
		return "", false
	}
	words, ok := strings.CutPrefix(text.Text, strings.TrimRight(acp.PrefixStderr, " "))
	return strings.TrimPrefix(words, " "), ok
}

// stderr takes a line. Lines of different Turns are not one record.
func (r *recorder) stderr(ctx context.Context, words string) {
	turn := r.t.turnOf("")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err.chars > 0 && r.err.turn != turn {
		r.flushStderrLocked(ctx)
	}
	if r.err.chars == 0 {
		r.err.since, r.err.turn = time.Now(), turn
		r.t.g.keeper.due(r.t, r.err.since.Add(mergeTime))
	}
	if !strings.HasSuffix(words, "\n") {
		words += "\n"
	}
	words = r.log.Push(r.t.g.cfg.Hash.Filter, words) // a key has many lines, and they may be in several records
	r.err.text.WriteString(words)
	r.err.chars += utf8.RuneCountInString(words)
	if r.err.chars >= mergeChars {
		r.flushStderrLocked(ctx)
	}
}

// dueStderrLocked puts the lines on record when they were gathered long enough, and is called
// again otherwise.
func (r *recorder) dueStderrLocked(ctx context.Context) {
	switch {
	case r.err.chars == 0:
	case time.Since(r.err.since) >= stderrTime:
		r.flushStderrLocked(ctx)
	default:
		r.t.g.keeper.due(r.t, time.Now().Add(mergeTime))
	}
}

// endStderrLocked adds what was held back of an agent's stderr that is over.
func (r *recorder) endStderrLocked() {
	if left := r.log.End(r.t.g.cfg.Hash.Filter); left != "" {
		if r.err.chars == 0 {
			r.err.since = time.Now()
		}
		r.err.text.WriteString(left)
		r.err.chars += utf8.RuneCountInString(left)
	}
}

func (r *recorder) flushStderrLocked(ctx context.Context) {
	if r.err.chars == 0 {
		return
	}
	lines := r.err
	r.err = stderrLines{}
	r.t.g.keeper.record(ctx, store.Record{
		ID: newID(), SessionID: r.t.owner, TurnID: lines.turn, Source: store.SourceProxy, Type: updateReceived, TS: lines.since,
		Payload: mustJSON(map[string]string{"type": "text", "text": acp.PrefixStderr + lines.text.String()}),
	})
}
