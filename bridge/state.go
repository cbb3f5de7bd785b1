package bridge

import (
	"encoding/json"
	"errors"
	"strings"

	"aqueduct/agui"
)

// reservedKeys are written by Aqueduct for an Agent; an Agent's own snapshot does not remove them, and a client's state
// does not set them.
// docs/protocol.md names them to clients.
func reservedKeys() [2]string { return [...]string{"agent", "acp"} }

func reservedKey(key string) bool { return key == reservedKeys()[0] || key == reservedKeys()[1] }

// stateNotApplied is the CUSTOM event for a change of the state that was not taken. The state as it is follows it.
const stateNotApplied = "state_not_applied"

// Who made the change that was not taken.
const (
	stateOfAgent  = "agent"
	stateOfClient = "client"
)

// notApplied is the value of the CUSTOM event state_not_applied.
type notApplied struct {
	Source  string `json:"source"`
	Code    string `json:"code"`
	Message string `json:"message"`
	// Keys lists the client's keys that were not applied, or the keys of an agent's change that were too large. Nothing of
	// such a change was applied. No keys means that the whole change was refused.
	Keys []string `json:"keys,omitempty"`
}

// namedKeys bounds the keys that a sentence names.
const namedKeys = 4

func (n notApplied) event() agui.Event {
	return &agui.Custom{Name: stateNotApplied, Value: mustJSON(n)}
}

// runState is the shared state in an open Run. It turns an Agent's state events into those that all readers can apply.
//
// It applies before it passes on: what does not apply here would not apply at a client either, and the official ones
// end the whole stream for it.
type runState struct {
	doc     *agui.StateDoc
	first   bool                // the Run is the thread's first: readers cannot lack an earlier state
	shown   bool                // a state event of this Run is out
	refused bool                // the last change was refused, and the whole state has been sent since
	warn    func(keys []string) // called with the keys of a change that was too large; may be nil
	changes stateChanges        // of this Run
}

// on is an Agent's state event as it goes out. The first state event of a Run is a snapshot: readers begin with a Run,
// and a delta on a state they never got has nothing to apply to (CopilotKit's runtime ends its process then). A change
// that does not apply changes nothing, here or at any client; the Run goes on with a warning.
func (s *runState) on(ev agui.Event) (out []agui.Event) {
	switch e := ev.(type) {
	case *agui.StateSnapshot:
		e.Snapshot = agui.WithoutTranscript(e.Snapshot)
		whole, err := s.replace(e)
		if err != nil {
			return s.refuse(err, agui.TooLargeKeys(e.Snapshot))
		}
		ev = whole
	case *agui.StateDelta:
		if e.Delta = s.doc.PatchWithoutTranscript(e.Delta); e.Delta == nil {
			return nil
		}
		first := !s.shown && isEmptyObject(s.doc.JSON()) && s.first
		if !s.shown && !first {
			out = append(out, s.snapshot())
		}
		whole, err := s.patch(e)
		if err != nil {
			keys, _ := agui.PatchedKeys(e.Delta)
			return append(out, s.refuse(err, keys)...)
		}
		// A snapshot of its own before the first would show nothing. A patch may make the state null; readers get {}, as for
		// a snapshot that is null.
		if first || whole && isEmptyObject(s.doc.JSON()) {
			ev = &agui.StateSnapshot{Sub: e.Sub, Snapshot: s.json()}
		}
	}
	s.shown, s.refused = true, false
	return append(out, ev)
}

// replayed takes in a state event that the log has of this Run.
func (s *runState) replayed(ev agui.Event) error {
	switch e := ev.(type) {
	case *agui.StateSnapshot:
		s.shown = true
		_, err := s.replace(e)
		return err
	case *agui.StateDelta:
		s.shown = true
		_, err := s.patch(e)
		return err
	}
	return nil
}

// replace puts a snapshot in the state's place but for the reserved keys, and gives the snapshot that readers get.
func (s *runState) replace(e *agui.StateSnapshot) (agui.Event, error) {
	next, err := agui.NewStateDoc(e.Snapshot)
	if err != nil {
		return nil, err
	}
	whole := true
	for _, key := range reservedKeys() {
		if v := s.doc.Key(key); v != nil && next.Key(key) == nil {
			if whole, err = false, next.SetKey(key, v); err != nil {
				return nil, err
			}
		}
	}
	before := s.doc
	s.doc = next
	s.changes.between(before, next)
	// null is kept and sent as the empty object: a client that holds null could not apply the patches that apply here.
	if whole && strings.TrimSpace(string(e.Snapshot)) != "null" {
		return e, nil
	}
	return &agui.StateSnapshot{Sub: e.Sub, Snapshot: s.json()}, nil
}

// The values from before are taken key by key, since copying the whole document for each delta would cost as much as
// the state is large.
// whole reports that the patch names the whole document.
func (s *runState) patch(e *agui.StateDelta) (whole bool, err error) {
	keys, whole := agui.PatchedKeys(e.Delta)
	if whole {
		before, err := agui.NewStateDoc(s.doc.JSON())
		if err == nil {
			err = s.doc.Patch(e.Delta)
		}
		if err == nil {
			s.changes.between(before, s.doc)
		}
		return true, err
	}
	before := make([]json.RawMessage, len(keys))
	for i, key := range keys {
		before[i] = s.doc.Key(key)
	}
	if err := s.doc.Patch(e.Delta); err != nil {
		return false, err
	}
	for i, key := range keys {
		s.changes.note(key, before[i], s.doc.Key(key))
	}
	return false, nil
}

// refuse warns of an Agent's change that was not taken, and shows the state as it is. Until the next change that applies,
// further warnings come without it: an Agent that sends nothing but wrong patches must not have us repeat a large state
// for each. keys are those that the change would have made too large.
func (s *runState) refuse(cause error, keys []string) []agui.Event {
	warning := notApplied{Source: stateOfAgent, Code: CodeStateInvalid, Message: "The agent changed its state in a way that does not apply."}
	if errors.Is(cause, agui.ErrStateTooLarge) {
		warning.Code, warning.Message = CodeStateTooLarge, "The agent's state is too large to keep."
		if warning.Keys = keys[:min(len(keys), maxChangedKeys)]; len(keys) > 0 {
			warning.Message = "The agent's change would make the state larger than 256 KiB. These keys are too large: " + strings.Join(keys[:min(len(keys), namedKeys)], ", ") + "."
		}
		if s.warn != nil {
			s.warn(warning.Keys)
		}
	}
	if s.refused {
		return []agui.Event{warning.event()}
	}
	s.refused = true
	return []agui.Event{warning.event(), s.snapshot()}
}

// snapshot is the whole state as it is.
func (s *runState) snapshot() agui.Event {
	s.shown = true
	return &agui.StateSnapshot{Snapshot: s.json()}
}

// json is a copy: an event must not change under the log.
func (s *runState) json() json.RawMessage { return append(json.RawMessage(nil), s.doc.JSON()...) }

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
