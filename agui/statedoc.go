// This file is the shared state of a thread. Several Runs and several clients change it over months,
// so what no patch names must keep its bytes.

package agui

import (
	"encoding/json"
	"errors"
)

// MaxStateBytes is how large a state may be, as JSON.
const MaxStateBytes = 256 << 10

// ErrStateTooLarge reports that a state would exceed [MaxStateBytes].
var ErrStateTooLarge = errors.New("agui: the state is larger than 256 KiB")

// StateDoc is the shared state of a thread, kept by top-level key: a patch reads
// and writes only the keys it names, so what an agent keeps beside them costs it
// nothing and loses nothing, not even the digits of a large number.
//
// AG-UI allows a state to be any JSON. One that is no object has no keys: it is kept whole,
// [StateDoc.Key] finds nothing in it, and [StateDoc.SetKey] replaces it by an object. null is the
// empty object. Every method that can fail builds the next state aside and takes it over at the end.
// It is not safe for concurrent use.
type StateDoc struct {
	root   json.RawMessage // a state that is no object
	fields members
}

// NewStateDoc reads a state; none at all is the empty object.
func NewStateDoc(raw json.RawMessage) (*StateDoc, error) {
	d := new(StateDoc)
	if len(raw) == 0 {
		return d, nil
	}
	return d, d.Snapshot(raw)
}

// Snapshot replaces the whole state. On an error nothing has changed.
func (d *StateDoc) Snapshot(raw json.RawMessage) error {
	next, err := readState(raw)
	if err != nil {
		return err
	}
	*d = next
	return nil
}

// readState checks a whole state and takes it apart.
func readState(raw json.RawMessage) (StateDoc, error) {
	raw, err := readValue(raw)
	switch {
	case err != nil, isNull(raw):
		return StateDoc{}, err
	case raw[0] != '{':
		return StateDoc{root: raw}, nil
	}
	fields, err := readMembers(raw)
	return StateDoc{fields: fields}, err
}

// readValue is a value as a state keeps it: a copy, on one line, within bounds.
func readValue(raw json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(raw) {
		return nil, wrong("the state is not valid JSON")
	}
	if tooDeep(raw) {
		return nil, wrong("the state is nested too deeply")
	}
	raw = appendRaw(make([]byte, 0, len(raw)), raw)
	if len(raw) > MaxStateBytes {
		return nil, ErrStateTooLarge
	}
	return raw, nil
}

// JSON is the state as one line of JSON.
func (d *StateDoc) JSON() json.RawMessage {
	if d.root != nil {
		return d.root
	}
	return d.fields.appendJSON(nil)
}

// Key is the value under a top-level key, or nil.
func (d *StateDoc) Key(k string) json.RawMessage { return d.fields.get(k) }

// SetKey sets a top-level key; without a value it removes it.
func (d *StateDoc) SetKey(k string, raw json.RawMessage) error {
	next := StateDoc{fields: d.fields.clone()}
	if len(raw) == 0 {
		next.fields.remove(k)
		return d.become(next)
	}
	val, err := readValue(raw)
	if err != nil {
		return err
	}
	next.fields.set(k, val)
	return d.become(next)
}

// become takes over a state that was built aside, if it fits.
func (d *StateDoc) become(next StateDoc) error {
	if next.size() > MaxStateBytes {
		return ErrStateTooLarge
	}
	*d = next
	return nil
}

// size is about the length of JSON.
func (d *StateDoc) size() int {
	if d.root != nil {
		return len(d.root)
	}
	return d.fields.size
}

// Patch applies a JSON Patch (RFC 6902). A patch that fails in any operation
// changes nothing.
func (d *StateDoc) Patch(ops json.RawMessage) error {
	list, err := readPatch(ops)
	if err != nil {
		return err
	}
	touched, whole := patchedKeys(list)
	if whole || d.root != nil {
		patched, err := applyRead(d.JSON(), ops, list)
		if err != nil {
			return err
		}
		return d.Snapshot(patched)
	}
	patched, err := applyRead(d.fields.only(touched).appendJSON(nil), ops, list)
	if err != nil {
		return err
	}
	changed, err := readState(patched)
	if err != nil {
		return err
	}
	next := StateDoc{fields: d.fields.clone()}
	for _, k := range touched {
		next.fields.put(k, changed.fields.get(k))
	}
	return d.become(next)
}

// tooDeep reports whether valid JSON nests deeper than is let in; patches could
// otherwise build what no body may bring.
func tooDeep(raw []byte) bool {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = skipQuoted(raw, i) - 1
		case '{', '[':
			if depth++; depth > MaxJSONDepth {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}
