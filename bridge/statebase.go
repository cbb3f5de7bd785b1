package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"aqueduct/agui"
	"aqueduct/store"
)

// stateBase makes the state that a client sent with a POST the base of the Run that begins for it.
//
// A client sends its whole state with each POST, and may have seen an older one: another page of the same thread, or
// an Agent, has changed it since. Taking it whole would undo those changes; ignoring it would lose the client's own.
// So it is merged by top-level keys, against what the client can have seen.
type stateBase struct {
	store     store.Reader
	sessionID string
	state     *runState
	client    *clientState // nil when the client has no state
}

// take merges what the client changed, and gives the events by which the client, or anybody else who reads the log and
// has another state, gets the result. A prompt of a client that has no state is answered with the kept one.
// Three kinds of client come here. One without a state gets the kept one when it prompts. One that only names the hash
// of what it has gets a snapshot if that is an older one. One that sends its state has the keys that it changed merged
// in, and gets the result, unless that is what it sent.
func (b stateBase) take(ctx context.Context, prompted bool) (out []agui.Event, err error) {
	kept, c := b.state.doc.JSON(), b.client
	switch {
	case c == nil:
		if !prompted || isEmptyObject(kept) {
			return nil, nil
		}
	case c.State == nil:
		if c.Held == valueHash(kept) {
			return nil, nil
		}
	default:
		theirs, err := agui.NewStateDoc(c.State)
		if err != nil { // the intake has checked it
			return nil, err
		}
		if out, err = b.merge(ctx, theirs); err != nil {
			return nil, err
		}
		if now := valueHash(b.state.doc.JSON()); now == valueHash(kept) && now == valueHash(c.State) {
			return out, nil
		}
	}
	return append(out, b.state.snapshot()), nil
}

// merge takes the keys that the client changed.
//
// A key was changed by the client if its value is neither the present one nor one that the key had since the client
// last got the state.
// The reserved keys are an Agent's and are never taken from a client. What is too large to be kept is left out key by key,
// and the client gets their names.
func (b stateBase) merge(ctx context.Context, theirs *agui.StateDoc) ([]agui.Event, error) {
	if !theirs.IsObject() || !b.state.doc.IsObject() {
		return b.replace(theirs)
	}
	changed, err := b.changed(ctx, theirs)
	if err != nil {
		return nil, err
	}
	before := b.state.doc.Copy()
	left := b.state.doc.Take(theirs, changed)
	b.state.changes.between(before, b.state.doc)
	if len(left) == 0 {
		return nil, nil
	}
	return []agui.Event{notApplied{
		Source: stateOfClient, Code: CodeStateTooLarge, Keys: left[:min(len(left), maxChangedKeys)],
		Message: "With these keys of the client the state would be too large to keep.",
	}.event()}, nil
}

// changed returns the keys that the client changed.
func (b stateBase) changed(ctx context.Context, theirs *agui.StateDoc) (changed []string, err error) {
	seen, err := b.seen(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range theirs.Keys() {
		h := valueHash(theirs.Key(key))
		if !reservedKey(key) && h != valueHash(b.state.doc.Key(key)) && !seen.unchanged(key, h) {
			changed = append(changed, key)
		}
	}
	return changed, nil
}

// replace is merge where one of the two states has no keys: the client's is taken whole, unless keys of ours or of an
// Agent would be lost.
func (b stateBase) replace(theirs *agui.StateDoc) ([]agui.Event, error) {
	if b.state.doc.IsObject() && !isEmptyObject(b.state.doc.JSON()) {
		return []agui.Event{notApplied{
			Source: stateOfClient, Code: CodeStateInvalid, Message: "A state that is no object cannot take the place of one that is.",
		}.event()}, nil
	}
	next := theirs.Copy()
	for _, key := range theirs.Keys() {
		if reservedKey(key) {
			if err := next.SetKey(key, nil); err != nil {
				return nil, err
			}
		}
	}
	b.state.doc = next
	return nil, nil
}

// seenState is the values that a client may have without having changed them.
type seenState struct {
	begun map[string]string   // by key: its value when the first Run began that changed it and that the client has not seen
	part  map[string][]string // by key: its values in a Run that the client did not read to the end
}

func (s seenState) unchanged(key, hash string) bool {
	before, there := s.begun[key]
	return there && before == hash || slices.Contains(s.part[key], hash)
}

// seen reads what has become of the state since the client last got it. A client that has no message of the Session gives
// no clue about that: all it sends is taken as changed.
// It is read from the Runs' changes, which are kept as hashes: what a client may have is compared, never shown.
func (b stateBase) seen(ctx context.Context) (seenState, error) {
	var seen seenState
	if b.client.Run == "" {
		return seen, nil
	}
	rows, err := b.store.StateChanges(ctx, store.System(), b.sessionID, b.client.Run)
	if err != nil {
		return seen, err
	}
	seen.begun = make(map[string]string)
	for _, row := range rows {
		var changes map[string][]string
		if err := json.Unmarshal(row.Changes, &changes); err != nil {
			return seen, err
		}
		if row.RunID == b.client.Run {
			whole, err := b.readWhole(ctx)
			if err != nil {
				return seen, err
			}
			if !whole {
				seen.part = changes
			}
			continue
		}
		for key, values := range changes {
			if _, there := seen.begun[key]; !there && len(values) > 0 {
				seen.begun[key] = values[0]
			}
		}
	}
	return seen, nil
}

// skimmedMessage is the size from which a message that is known may come without its content; see agui.Skim.
const skimmedMessage = 4 << 10

// readWhole reports whether the client read its newest Run to the end: it has the Run's last message as it is kept.
// A client that read the Run to its end has seen its last state and nothing in between counts as the client's; one
// that broke off may hold any value that the Run went through. The hash of the last answer tells the two apart, since
// no client sends back how far it has read.
func (b stateBase) readWhole(ctx context.Context) (whole bool, err error) {
	row, err := b.store.LastAnswer(ctx, store.System(), b.sessionID, b.client.Run)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	m, err := decodeMessage(row)
	if err != nil {
		return false, err
	}
	whole = answerHash(m) == b.client.Answer
	if len(row.Data) > skimmedMessage { // its content may have been dropped as the body was read
		whole = whole || answerHash(agui.Message{ID: m.ID}) == b.client.Answer
	}
	return whole, nil
}
