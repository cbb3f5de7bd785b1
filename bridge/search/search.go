// Package search finds threads by the words of their titles and messages. It keeps the texts that are looked through, which
// the database holds beside the messages (store.SearchTx), up to date with them.
//
// What a commit writes is only marked by it: the texts are made after it, newest first, so that nothing that a client
// waits for becomes slower. A text counts only while it is that of its message, and of the current branch, so a change or
// a deletion takes effect with its own commit, and what is new is found a moment later. A search makes the newest texts
// first, so a client finds what it has just seen.
//
// A text is made of the message as it is kept. What was masked is not in it, and sealed originals are not read.
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
	// takeAtOnce bounds the texts of one transaction: SQLite's one writer waits for as long as it takes.
	takeAtOnce = 16
	// lookEvery is how often each replica looks for texts to make while there are none.
	lookEvery = time.Second
	// rest is how many times as long as a transaction took the pause after it is: what clients wait for comes first.
	rest = 19
	// catchUp bounds the transactions by which one search makes texts: those of the newest answers, and not all of a backlog.
	catchUp = 4
	// othersCommit is how long a search waits for texts that are made elsewhere, at most catchUp times.
	othersCommit = 20 * time.Millisecond
)

// Index finds threads. Run must be running, else texts are made by searches alone.
type Index struct {
	store store.Store
	log   *slog.Logger
}

// New makes an Index.
func New(st store.Store, log *slog.Logger) *Index { return &Index{store: st, log: log} }

// Run makes texts until ctx ends, those of threads from before there was a search too. After each transaction it rests,
// so that it uses a twentieth of the writer's time at most. Any number of replicas may run it at once.
func (x *Index) Run(ctx context.Context) {
	failing := false
	for {
		begun := time.Now()
		made, _, err := x.round(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			x.log.Warn("the texts of threads are not searched, trying again", slog.Any("error", err))
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

// pause waits, and reports whether ctx goes on.
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

// Threads lists the threads that the query finds; see store.SearchReader. The query has at least one word.
func (x *Index) Threads(ctx context.Context, in store.Scope, query store.SearchQuery) ([]store.Session, string, error) {
	for range catchUp {
		made, behind, err := x.round(ctx)
		if err != nil || !behind {
			break // on a full disk texts that are there are still found; Run logs the error
		}
		if made == 0 { // Run, or another replica, has taken them and has not committed yet
			pause(ctx, othersCommit)
		}
	}
	return x.store.Search(ctx, in, query)
}

// round makes a few texts, and returns how many, and whether any were to be made.
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
