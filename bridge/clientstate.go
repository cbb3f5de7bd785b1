package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"aqueduct/agui"
	"aqueduct/store"
)

// A client sends its whole state with every POST, changed or not. Its copy becomes the base of the Run, key by key: a
// key that it changed since the state it last got is taken, and one that it did not change must not undo what an Agent,
// or another tab, wrote meanwhile. Which state it last got its messages tell: the newest Run that one of them belongs
// to. A key that it does not send is left as it is, because a page that has just been opened sends {}; it clears a key
// by null.

// clientState is what a POST says about the state; kept on the Run that it names until that begins.
type clientState struct {
	// Held is the hash of the Session's state when the client has just that; State is then not kept.
	Held  string          `json:"held,omitempty"`
	State json.RawMessage `json:"state,omitempty"`
	// Run is the newest Run that the client has a message of; "" when it knows of none.
	Run string `json:"run,omitempty"`
	// Answer is the hash of the newest message of an assistant the client has. It tells whether the client has seen
	// Run to its end, or had stopped reading before.
	Answer string `json:"answer,omitempty"`
}

// checkState refuses a state that could not be kept.
func (req *ChatRequest) checkState() error {
	_, err := agui.NewStateDoc(req.State)
	if errors.Is(err, agui.ErrStateTooLarge) {
		return &Refusal{Code: CodeStateTooLarge, Message: "The state is larger than 256 KiB."}
	}
	return err
}

// clientState reads what the request says about the state of the Session that it found.
func (in *intake) clientState(ctx context.Context) (*clientState, error) {
	if isEmptyObject(in.req.State) {
		return nil, nil
	}
	if held := valueHash(in.session.State); valueHash(in.req.State) == held {
		return &clientState{Held: held}, nil
	}
	c := &clientState{State: in.req.State}
	if !in.exists {
		return c, nil
	}
	ids := idsOf(in.req.Messages)
	var err error
	c.Run, err = in.tx.NewestRunOf(ctx, store.System(), in.session.ID, ids[max(0, len(ids)-maxHistoryTail):])
	for _, m := range slices.Backward(in.req.Messages) {
		if m.Role == agui.RoleAssistant {
			c.Answer = answerHash(m)
			break
		}
	}
	return c, err
}

// noteStateMissed warns a client whose answer goes into a Run that is open already: its state is the base of none.
func (in *intake) noteStateMissed() {
	var p Profile
	if json.Unmarshal(in.profile, &p) == nil && p.Client != nil && p.Client.State != nil {
		in.note(stateNotApplied, notApplied{
			Source: stateOfClient, Code: RefusedRunInProgress, Message: "A run was under way when the answer came, so the state that came with it was not taken.",
		})
	}
}

// maxHistoryTail is how many of the newest messages in a client's history are looked at for the newest Run.
const maxHistoryTail = 256

// answerHash tells whether two messages of an assistant say the same.
func answerHash(m agui.Message) string {
	calls := make([]string, 0, len(m.ToolCalls))
	for _, call := range m.ToolCalls {
		calls = append(calls, call.ID, call.Function.Arguments)
	}
	return valueHash(mustJSON([]any{m.ID, m.Content.String(), calls}))
}

// baseState makes the client's state the base of the Run that is beginning, and tells the state where the client, or
// anybody else who reads the log, has another. A prompt of a client that has no state is told the kept one.
func (t *turn) baseState(ctx context.Context, prompted bool) error {
	r, c := t.run, t.run.profile.Client
	kept := r.state.JSON()
	switch {
	case c == nil:
		if !prompted || isEmptyObject(kept) {
			return nil
		}
	case c.State == nil:
		if c.Held == valueHash(kept) {
			return nil
		}
	default:
		theirs, err := agui.NewStateDoc(c.State)
		if err != nil { // the intake has checked it
			return err
		}
		if err := t.mergeState(ctx, c, theirs); err != nil {
			return err
		}
		if now := valueHash(r.state.JSON()); now == valueHash(kept) && now == valueHash(c.State) {
			return nil
		}
	}
	return r.showState()
}

// mergeState takes what the client changed.
func (t *turn) mergeState(ctx context.Context, c *clientState, theirs *agui.StateDoc) error {
	r := t.run
	if !theirs.IsObject() || !r.state.IsObject() {
		return t.replaceState(theirs)
	}
	seen, err := t.seenBy(ctx, c)
	if err != nil {
		return err
	}
	var changed []string
	for _, key := range theirs.Keys() {
		h := valueHash(theirs.Key(key))
		if !reservedKey(key) && h != valueHash(r.state.Key(key)) && !seen.unchanged(key, h) {
			changed = append(changed, key)
		}
	}
	before := r.state.Copy()
	left := r.state.Take(theirs, changed)
	r.changes.between(before, r.state)
	if len(left) > 0 {
		return r.admit(&agui.Custom{Name: stateNotApplied, Value: mustJSON(notApplied{
			Source: stateOfClient, Code: CodeStateTooLarge, Keys: left[:min(len(left), maxChangedKeys)],
			Message: "With these keys of the client the state would be too large to keep.",
		})})
	}
	return nil
}

// replaceState is mergeState where one of the two states has no keys: the client's is taken whole, unless keys of ours
// or of an Agent would be lost.
func (t *turn) replaceState(theirs *agui.StateDoc) error {
	r := t.run
	if r.state.IsObject() && !isEmptyObject(r.state.JSON()) {
		return r.admit(&agui.Custom{Name: stateNotApplied, Value: mustJSON(notApplied{
			Source: stateOfClient, Code: CodeStateInvalid, Message: "A state that is no object cannot take the place of one that is.",
		})})
	}
	next := theirs.Copy()
	for _, key := range theirs.Keys() {
		if reservedKey(key) {
			if err := next.SetKey(key, nil); err != nil {
				return err
			}
		}
	}
	r.state = next
	return nil
}

// seenState tells which values a client may have that it did not change.
type seenState struct {
	begun map[string]string   // by key: its value when the first Run began that changed it and that the client has not seen
	part  map[string][]string // by key: its values in a Run that the client did not read to the end
}

func (s seenState) unchanged(key, hash string) bool {
	before, there := s.begun[key]
	return there && before == hash || slices.Contains(s.part[key], hash)
}

// seenBy reads what has become of the state since the client last got it. One that has no message of the Session says
// nothing about that: all it sends is taken as changed.
func (t *turn) seenBy(ctx context.Context, c *clientState) (seenState, error) {
	var seen seenState
	if c.Run == "" {
		return seen, nil
	}
	st, in := t.s.m.cfg.Store, store.System()
	var rows []store.StateChange
	err := patiently(ctx, func() (err error) {
		rows, err = st.StateChanges(ctx, in, t.s.id, c.Run)
		return err
	})
	if err != nil {
		return seen, err
	}
	seen.begun = make(map[string]string)
	for _, row := range rows {
		var changes map[string][]string
		if err := json.Unmarshal(row.Changes, &changes); err != nil {
			return seen, err
		}
		if row.RunID == c.Run {
			whole, err := t.readWhole(ctx, c)
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

// readWhole reports whether the client read its newest Run to the end: it has the Run's last message as it is kept.
func (t *turn) readWhole(ctx context.Context, c *clientState) (whole bool, err error) {
	err = patiently(ctx, func() error {
		row, err := t.s.m.cfg.Store.LastAnswer(ctx, store.System(), t.s.id, c.Run)
		if errors.Is(err, store.ErrNotFound) {
			whole = true
			return nil
		}
		if err != nil {
			return err
		}
		m, err := decodeMessage(row)
		if err != nil {
			return err
		}
		whole = answerHash(m) == c.Answer
		if len(row.Data) > skimmedMessage { // its content may have been let go of as the body was read
			whole = whole || answerHash(agui.Message{ID: m.ID}) == c.Answer
		}
		return nil
	})
	return whole, err
}

// skimmedMessage is the size from which a message that is known may come without its content; see agui.Skim.
const skimmedMessage = 4 << 10

// withoutClient is a profile for a Run that the client did not post: what it said about the state was for another.
func withoutClient(profile []byte) []byte {
	var p Profile
	if json.Unmarshal(profile, &p) != nil || p.Client == nil {
		return profile
	}
	p.Client = nil
	return mustJSON(p)
}
