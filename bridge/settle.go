package bridge

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"aqueduct/bridge/eventlog"
	"aqueduct/store"
)

// reserved is the Run that what was settled goes into: one that is reserved for it (ok), or the open one.
type reserved struct {
	run store.Run
	ok  bool
}

// posted is what a chat POST asks for the Run it names.
type posted struct {
	profile  []byte
	bodyHash []byte
	parent   string // AG-UI's parentRunId
	tails    string
}

// reserveNext reserves the Run that a chat POST with an answer names, unless one is reserved already, or one is open:
// what was settled goes into that. The Session is locked.
// A parked Turn may be answered from several pages at once. The first reserves the Run, under its own runId; the
// others find that one and join it.
func reserveNext(ctx context.Context, tx store.Tx, turnID, externalID string, post posted) (reserved, error) {
	// A Turn that is not paused any more has gone on or ended since the Question was asked: what was settled is its
	// owner's to show, in a Run that no client reserves.
	turn, err := tx.Turn(ctx, store.System(), turnID)
	if err != nil || !turn.Status.Paused() {
		return reserved{}, err
	}
	runs, err := tx.RunsOfTurn(ctx, store.System(), turnID)
	if err != nil {
		return reserved{}, err
	}
	last := runs[len(runs)-1]
	open := slices.IndexFunc(runs, func(r store.Run) bool { return r.Status == store.RunRunning })
	switch {
	case open >= 0:
		return reserved{run: runs[open]}, nil
	case last.Status == store.RunReserved:
		return reserved{run: last, ok: true}, nil
	}
	next := nextRun(last, externalID, &post)
	return reserved{run: next, ok: true}, tx.InsertRun(ctx, next)
}

// nextRun is the Run after another of the same Turn. No client posted it, so it inherits
// the profile of the one before.
// An answer from the inbox or from a policy names no Run: it then gets an id of ours.
func nextRun(last store.Run, externalID string, post *posted) store.Run {
	run := store.Run{
		ID: newID(), SessionID: last.SessionID, TurnID: last.TurnID, ExternalID: externalID,
		Status: store.RunReserved, Profile: withoutClient(last.Profile), CreatedAt: time.Now(),
	}
	if externalID == "" {
		run.ExternalID = run.ID
	}
	if post != nil {
		run.Profile, run.BodyHash = mergeProfile(last.Profile, post.profile), post.bodyHash
		run.ParentRunID, run.Tails = post.parent, post.tails
	}
	return run
}

// mergeProfile keeps earlier declarations that an answer does not repeat: tools, and the messages and forwardedProps for the
// Agent.
func mergeProfile(last, now []byte) []byte {
	var before, after Profile
	if json.Unmarshal(now, &after) != nil || json.Unmarshal(last, &before) != nil {
		return now
	}
	if len(after.Tools) == 0 {
		after.Tools = before.Tools
	}
	if len(after.Added) == 0 {
		after.Added = before.Added
	}
	if len(after.Props) == 0 {
		after.Props = before.Props
	}
	return mustJSON(after)
}

// entryOf is an Entry of moves alone.
func entryOf(moves ...store.Move) eventlog.Entry { return eventlog.Entry{Moves: moves} }
