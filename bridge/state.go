package bridge

import (
	"encoding/json"
	"errors"
	"strings"

	"aqueduct/agui"
	"aqueduct/internal/jsonequal"
)

// reservedKeys of the state are written by Aqueduct for an Agent; an Agent's own
// snapshot does not remove them, and a client's state does not set them.
func reservedKey(key string) bool { return key == "agent" || key == "acp" }

// track verifies a state event against the kept state and completes it. A snapshot keeps
// the reserved keys; the first delta on no state at all becomes a snapshot, because
// clients start from nothing we know of.
func (r *run) track(ev agui.Event) (agui.Event, error) {
	switch e := ev.(type) {
	case *agui.StateSnapshot:
		return r.trackSnapshot(e)
	case *agui.StateDelta:
		fresh := isEmptyObject(r.state.JSON())
		if err := r.state.Patch(e.Delta); err != nil {
			return nil, stateFailure(err)
		}
		if fresh {
			return &agui.StateSnapshot{Snapshot: r.stateJSON()}, nil
		}
	case *agui.RunFinished, *agui.RunError, *agui.RunStarted:
	}
	return ev, nil
}

func (r *run) trackSnapshot(e *agui.StateSnapshot) (agui.Event, error) {
	kept := map[string]json.RawMessage{}
	for _, key := range []string{"agent", "acp"} {
		if v := r.state.Key(key); v != nil {
			kept[key] = append(json.RawMessage(nil), v...)
		}
	}
	if err := r.state.Snapshot(e.Snapshot); err != nil {
		return nil, stateFailure(err)
	}
	for key, v := range kept {
		if r.state.Key(key) == nil {
			if err := r.state.SetKey(key, v); err != nil {
				return nil, stateFailure(err)
			}
		}
	}
	if len(kept) == 0 {
		return e, nil
	}
	return &agui.StateSnapshot{Sub: e.Sub, Snapshot: r.stateJSON()}, nil
}

func stateFailure(err error) error {
	message := "The agent changed its state in a way that does not apply."
	if errors.Is(err, agui.ErrStateTooLarge) {
		message = "The agent's state is too large to keep."
	}
	return &Failure{Code: CodeStateInvalid, Message: message, Cause: err}
}

// stateJSON is a copy: an event must not change under the log.
func (r *run) stateJSON() json.RawMessage { return append(json.RawMessage(nil), r.state.JSON()...) }

// differs reports whether a client that says it has this state must be told ours.
func (r *run) differs(client json.RawMessage) bool {
	ours := r.state.JSON()
	return !isEmptyObject(ours) && !jsonequal.Texts(ours, client)
}

// emitState tells the whole state. It cannot fail: it is the state already tracked.
func (r *run) emitState() { _ = r.emit(&agui.StateSnapshot{Snapshot: r.stateJSON()}) }

func isEmptyObject(raw []byte) bool {
	s := strings.TrimSpace(string(raw))
	return s == "" || s == "{}" || s == "null"
}

// overlay is the kept state with a client's own keys over it: data for the Agent, which
// changes nothing here.
func overlay(kept, client json.RawMessage) json.RawMessage {
	var base, over map[string]json.RawMessage
	if json.Unmarshal(client, &over) != nil || len(over) == 0 {
		return kept
	}
	if json.Unmarshal(kept, &base) != nil || base == nil {
		base = map[string]json.RawMessage{}
	}
	for key, v := range over {
		if !reservedKey(key) {
			base[key] = v
		}
	}
	return mustJSON(base)
}

// mustJSON encodes values that cannot fail to encode.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("bridge: " + err.Error())
	}
	return raw
}
