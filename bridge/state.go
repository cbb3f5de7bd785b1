package bridge

import (
	"encoding/json"
	"errors"
	"strings"

	"aqueduct/agui"
)

// reservedKey reports whether a key is written by Aqueduct for an Agent; an Agent's own
// snapshot does not remove it, and a client's state does not set it.
func reservedKey(key string) bool { return key == "agent" || key == "acp" }

// stateNotApplied is the CUSTOM event that says that a change of the state was not taken. The state as it is follows it.
const stateNotApplied = "state_not_applied"

// Who made the change that was not taken.
const (
	stateOfAgent  = "agent"
	stateOfClient = "client"
)

// notApplied is the value of the CUSTOM event state_not_applied.
type notApplied struct {
	Source  string   `json:"source"`
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Keys    []string `json:"keys,omitempty"` // that were not taken; none: the whole change was not
}

// emitState passes a state event of the Agent through the kept state. The first state event of a Run is a snapshot:
// readers begin with a Run, and a delta on a state they never got has nothing to apply to (CopilotKit's runtime dies of
// it). A change that does not apply changes nothing, here or at any client; the Run goes on with a warning.
func (r *run) emitState(ev agui.Event) error {
	var err error
	switch e := ev.(type) {
	case *agui.StateSnapshot:
		if ev, err = r.trackSnapshot(e); err != nil {
			return r.refuseState(err)
		}
	case *agui.StateDelta:
		first := !r.stateShown && isEmptyObject(r.state.JSON()) && r.row.FirstSeq == 1
		if !r.stateShown && !first {
			if err := r.showState(); err != nil {
				return err
			}
		}
		if err := r.trackDelta(e); err != nil {
			return r.refuseState(err)
		}
		if first { // of the whole thread: nothing is there that a snapshot of its own would have to say
			ev = &agui.StateSnapshot{Sub: e.Sub, Snapshot: r.stateJSON()}
		}
	}
	r.stateShown, r.stateRefused = true, false
	return r.admit(ev)
}

// trackSnapshot replaces the state but for the reserved keys.
func (r *run) trackSnapshot(e *agui.StateSnapshot) (agui.Event, error) {
	next, err := agui.NewStateDoc(e.Snapshot)
	if err != nil {
		return nil, err
	}
	whole := true
	for _, key := range []string{"agent", "acp"} {
		if v := r.state.Key(key); v != nil && next.Key(key) == nil {
			if whole, err = false, next.SetKey(key, v); err != nil {
				return nil, err
			}
		}
	}
	before := r.state
	r.state = next
	r.changes.between(before, next)
	if whole {
		return e, nil
	}
	return &agui.StateSnapshot{Sub: e.Sub, Snapshot: r.stateJSON()}, nil
}

func (r *run) trackDelta(e *agui.StateDelta) error {
	keys, whole := agui.PatchedKeys(e.Delta)
	if whole {
		before, err := agui.NewStateDoc(r.state.JSON())
		if err == nil {
			err = r.state.Patch(e.Delta)
		}
		if err == nil {
			r.changes.between(before, r.state)
		}
		return err
	}
	before := make([]json.RawMessage, len(keys))
	for i, key := range keys {
		before[i] = r.state.Key(key)
	}
	if err := r.state.Patch(e.Delta); err != nil {
		return err
	}
	for i, key := range keys {
		r.changes.note(key, before[i], r.state.Key(key))
	}
	return nil
}

// refuseState warns of an Agent's change that was not taken, and says what the state is. Until the next change that
// applies, further warnings come without it: an Agent that sends nothing but wrong patches must not have us repeat a
// large state for each.
func (r *run) refuseState(cause error) error {
	warning := notApplied{Source: stateOfAgent, Code: CodeStateInvalid, Message: "The agent changed its state in a way that does not apply."}
	if errors.Is(cause, agui.ErrStateTooLarge) {
		warning.Code, warning.Message = CodeStateTooLarge, "The agent's state is too large to keep."
	}
	if err := r.admit(&agui.Custom{Name: stateNotApplied, Value: mustJSON(warning)}); err != nil || r.stateRefused {
		return err
	}
	r.stateRefused = true
	return r.showState()
}

// showState tells the whole state as it is.
func (r *run) showState() error {
	r.stateShown = true
	return r.admit(&agui.StateSnapshot{Snapshot: r.stateJSON()})
}

// stateJSON is a copy: an event must not change under the log.
func (r *run) stateJSON() json.RawMessage { return append(json.RawMessage(nil), r.state.JSON()...) }

func isEmptyObject(raw []byte) bool {
	s := strings.TrimSpace(string(raw))
	return s == "" || s == "{}" || s == "null"
}

// mustJSON encodes values that cannot fail to encode.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("bridge: " + err.Error())
	}
	return raw
}
