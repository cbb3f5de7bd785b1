package acpgateway

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"aqueduct/acpgateway/wire"
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
func stderrWords(signal wire.Signal) (string, bool) {
	text, ok := signal.(*wire.Text)
	if !ok {
		return "", false
	}
	words, ok := strings.CutPrefix(text.Text, strings.TrimRight(wire.PrefixStderr, " "))
	return strings.TrimPrefix(words, " "), ok
}

// stderr takes a line. Lines of different Turns are not one record.
func (rec *recorder) stderr(ctx context.Context, words string) {
	turn := rec.turnOf("")
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.err.chars > 0 && rec.err.turn != turn {
		rec.flushStderrLocked(ctx)
	}
	if rec.err.chars == 0 {
		rec.err.since, rec.err.turn = time.Now(), turn
		rec.keeper.due(rec, rec.err.since.Add(mergeTime))
	}
	if !strings.HasSuffix(words, "\n") {
		words += "\n"
	}
	words = rec.log.Push(rec.secrets, words) // a key has many lines, and they may be in several records
	rec.err.text.WriteString(words)
	rec.err.chars += utf8.RuneCountInString(words)
	if rec.err.chars >= mergeChars {
		rec.flushStderrLocked(ctx)
	}
}

// dueStderrLocked puts the lines on record when they were gathered long enough, and is called
// again otherwise.
func (rec *recorder) dueStderrLocked(ctx context.Context) {
	switch {
	case rec.err.chars == 0:
	case time.Since(rec.err.since) >= stderrTime:
		rec.flushStderrLocked(ctx)
	default:
		rec.keeper.due(rec, time.Now().Add(mergeTime))
	}
}

// endStderrLocked adds what was held back of an agent's stderr that is over.
func (rec *recorder) endStderrLocked() {
	if left := rec.log.End(rec.secrets); left != "" {
		if rec.err.chars == 0 {
			rec.err.since = time.Now()
		}
		rec.err.text.WriteString(left)
		rec.err.chars += utf8.RuneCountInString(left)
	}
}

func (rec *recorder) flushStderrLocked(ctx context.Context) {
	if rec.err.chars == 0 {
		return
	}
	lines := rec.err
	rec.err = stderrLines{}
	rec.keeper.record(ctx, store.Record{
		ID: newID(), SessionID: rec.session, TurnID: lines.turn, Source: store.SourceProxy, Type: updateReceived, TS: lines.since,
		Payload: mustJSON(map[string]string{"type": "text", "text": wire.PrefixStderr + lines.text.String()}),
	})
}
