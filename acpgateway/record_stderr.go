package acpgateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"aqueduct/acpgateway/wire"
	"aqueduct/store"
)

// /ws/client shows lines of stderr immediately: a person who checks why an agent does not start must not wait for the record.
// Each line is an event_added with the record's id, a dot and the line's number as its id. The record itself is sent if one
// of its lines was not, because no page watched then.

const (
	// stderrTime is how long lines are gathered: an agent that logs as it works would otherwise
	// make more records of its log than of its work. What ends it is on record behind them anyway.
	stderrTime = 5 * time.Second
)

// stderrLines gathers an agent's stderr to one record.
type stderrLines struct {
	id    string // of the record
	text  strings.Builder
	chars int
	parts int       // of the text, each shown by itself
	shown bool      // all of them were
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
	rec.addStderrLocked(rec.log.Push(rec.secrets, words)) // a key has many lines, and they may be in several records
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
		rec.addStderrLocked(left)
	}
}

// addStderrLocked adds text whose secrets are masked, and publishes it.
func (rec *recorder) addStderrLocked(words string) {
	if words == "" {
		return
	}
	if rec.err.id == "" {
		rec.err.id, rec.err.shown = newID(), true
	}
	rec.err.text.WriteString(words)
	rec.err.chars += utf8.RuneCountInString(words)
	rec.err.parts++
	hints := rec.keeper.g.cfg.Hints
	if !hints.Watched() {
		rec.err.shown = false
		return
	}
	hints.Publish(rec.session, eventAdded(store.Record{
		ID: fmt.Sprint(rec.err.id, ".", rec.err.parts), SessionID: rec.session, Type: updateReceived, TS: time.Now(), Payload: stderrPayload(words),
	}))
}

func stderrPayload(words string) json.RawMessage {
	return mustJSON(map[string]string{"type": wire.BlockText, "text": wire.PrefixStderr + words})
}

func (rec *recorder) flushStderrLocked(ctx context.Context) {
	if rec.err.chars == 0 {
		return
	}
	lines := rec.err
	rec.err = stderrLines{}
	rec.keeper.record(ctx, store.Record{
		ID: lines.id, SessionID: rec.session, TurnID: lines.turn, Source: store.SourceProxy, Type: updateReceived, TS: lines.since,
		Payload: stderrPayload(lines.text.String()),
	}, lines.shown)
}
