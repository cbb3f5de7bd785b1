// This file keeps JSON objects without decoding their values: key order and digits stay as the
// writer had them.

package agui

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// members is a JSON object as it was written: keys in order, values untouched.
// size is maintained by every change, so that the limit of a state can be checked without encoding
// it.
type members struct {
	keys []string
	vals map[string]json.RawMessage
	size int // about what appendJSON will write
}

// readMembers takes a valid JSON object apart. Values are not copied.
func readMembers(raw json.RawMessage) (members, error) {
	m := members{size: 2}
	err := EachMember(raw, func(key, val []byte) error {
		m.set(string(key), val)
		return nil
	})
	return m, err
}

// get is the value of a key, nil when there is none.
func (m *members) get(k string) json.RawMessage { return m.vals[k] }

// set keeps the place of a key that is there, and appends a new one.
func (m *members) set(k string, v json.RawMessage) {
	if m.vals == nil {
		m.vals = make(map[string]json.RawMessage)
	}
	if old, there := m.vals[k]; there {
		m.size -= len(old)
	} else {
		m.keys = append(m.keys, k)
		m.size += len(k) + 4
	}
	m.vals[k] = v
	m.size += len(v)
}

// remove keeps the order of the other keys.
func (m *members) remove(k string) {
	if _, there := m.vals[k]; !there {
		return
	}
	m.size -= m.sizeOf(k)
	delete(m.vals, k)
	m.keys = slices.DeleteFunc(m.keys, func(have string) bool { return have == k })
}

// sizeOf is how much of size a member is.
func (m *members) sizeOf(k string) int { return len(m.vals[k]) + len(k) + 4 }

// put sets a value, or removes what has none.
func (m *members) put(k string, v json.RawMessage) {
	if v == nil {
		m.remove(k)
		return
	}
	m.set(k, v)
}

// clone copies the index; the values, which never change, are shared.
func (m *members) clone() members {
	return members{keys: slices.Clone(m.keys), vals: maps.Clone(m.vals), size: m.size}
}

// only is the object with the named keys, as far as they are there.
func (m *members) only(keys []string) *members {
	part := new(members)
	for _, k := range keys {
		if v, there := m.vals[k]; there {
			part.set(k, v)
		}
	}
	return part
}

func (m *members) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for i, k := range m.keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, k), ':')
		dst = append(dst, m.vals[k]...)
	}
	return append(dst, '}')
}

// mergeObjects lays the members of one JSON object over another's; the later value replaces the
// earlier one whole. What is no object is replaced, and what is no JSON is ignored: metadata comes
// from agents unchecked.
func mergeObjects(under, over json.RawMessage) json.RawMessage {
	if len(under) == 0 {
		return bytes.Clone(over)
	}
	if !json.Valid(under) || !json.Valid(over) {
		return under
	}
	merged, err := readMembers(under)
	if err != nil {
		return bytes.Clone(over)
	}
	upper, err := readMembers(over)
	if err != nil {
		return under
	}
	for _, k := range upper.keys {
		merged.set(k, upper.vals[k])
	}
	return merged.appendJSON(nil)
}
