// Package search finds threads by the words of their titles and messages. It keeps the searchable texts, which the database
// stores next to the messages (store.SearchTx), up to date.
//
// A commit only marks the rows that it writes. Their texts are made after it, newest first, so that no request of a client
// becomes slower. A text counts only while it matches its message, on the current branch. So a change or a deletion takes
// effect with its own commit, and a new message is found a moment later. A search makes the newest texts first, so a client
// finds the messages that it has just seen.
//
// A text is made from the stored message. It does not contain masked values, and sealed originals are not read.
package search

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"aqueduct/internal/grams"
	"aqueduct/store"
)

const (
	// takeAtOnce bounds the texts of one transaction, because SQLite's one writer waits for it.
	takeAtOnce = 16
	// lookEvery is the interval at which an idle replica checks for texts to make.
	lookEvery = time.Second
	// rest is the length of the pause after a transaction, as a multiple of the transaction's time. It gives the requests of
	// clients priority.
	rest = 19
	// catchUp bounds the transactions by which one search makes texts: enough for the newest answers, not for a backlog.
	catchUp = 4
	// othersCommit is the time for which a search waits for texts that another replica makes, at most catchUp times.
	othersCommit = 20 * time.Millisecond
)

// Index finds threads. Unless Run is running, only searches make texts.
type Index struct {
	store store.Store
	log   *slog.Logger
}

// New returns an Index.
func New(st store.Store, log *slog.Logger) *Index { return &Index{store: st, log: log} }

// Run makes texts until ctx ends, also those of threads from before the search existed. It pauses after each transaction, so
// that it uses at most a twentieth of the writer's time. Several replicas may run it at once.
func (x *Index) Run(ctx context.Context) {
	failing := false
	for {
		begun := time.Now()
		made, _, err := x.round(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			x.log.Warn("the texts of threads were not indexed, trying again", slog.Any("error", err))
		}
		failing = err != nil
		after := lookEvery
		if made > 0 && err == nil {
			after = rest * time.Since(begun)
		}
		if !pause(ctx, after) {
			return
		}
	}
}

// pause waits, and reports whether ctx is still active.
func pause(ctx context.Context, d time.Duration) bool {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Threads lists the threads that match the query; see store.SearchReader. The query has at least one word.
func (x *Index) Threads(ctx context.Context, in store.Scope, query store.SearchQuery) ([]store.Session, string, error) {
	for range catchUp {
		made, behind, err := x.round(ctx)
		if err != nil || !behind {
			break // on a full disk, existing texts are still found; Run logs the error
		}
		if made == 0 { // Run or another replica has taken them and has not committed yet
			pause(ctx, othersCommit)
		}
	}
	return x.store.Search(ctx, in, query)
}

// round makes a few texts. It returns their number, and whether there were any to make.
func (x *Index) round(ctx context.Context) (made int, behind bool, err error) {
	if behind, err = x.store.SearchBehind(ctx, store.System()); err != nil || !behind {
		return 0, false, err
	}
	err = x.store.InTx(ctx, func(tx store.Tx) error {
		messages, err := tx.TakeMessages(ctx, takeAtOnce)
		if err != nil {
			return err
		}
		titles, err := tx.TakeTitles(ctx, takeAtOnce)
		if err != nil {
			return err
		}
		made = len(messages) + len(titles)
		for _, m := range messages {
			if err := tx.PutSearchText(ctx, store.SearchText{ID: m.ID, SessionID: m.SessionID, Body: grams.Fold(textOf(m))}); err != nil {
				return err
			}
		}
		for _, s := range titles {
			if err := tx.PutSearchText(ctx, store.SearchText{ID: s.ID, SessionID: s.ID, Body: grams.Fold(s.Title)}); err != nil {
				return err
			}
		}
		return nil
	})
	return made, true, err
}

// textOf returns the text of a user's or an assistant's message. Other messages are for programs: results of tools, thoughts, activities.
func textOf(m store.Message) string {
	if m.Role != "user" && m.Role != "assistant" {
		return ""
	}
	var message struct {
		Content json.RawMessage `json:"content"`
	}
	var text string
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Data, &message) != nil || json.Unmarshal(message.Content, &text) == nil || json.Unmarshal(message.Content, &parts) != nil {
		return text
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n")
}
