// This file is the part of StateDoc that works key by key: merging the state that a client sends
// into the thread's.

package agui

import (
	"slices"
)

// IsObject reports whether the state has keys; none at all is the empty object.
func (d *StateDoc) IsObject() bool { return d.root == nil }

// Keys are the top-level keys in their order.
func (d *StateDoc) Keys() []string { return slices.Clone(d.fields.keys) }

// Copy is the same state, to be changed by itself.
func (d *StateDoc) Copy() *StateDoc { return &StateDoc{root: d.root, fields: d.fields.clone()} }

// Take sets the named keys to the values they have in another state. Keys with which the state would be too large are
// left as they are, and returned.
func (d *StateDoc) Take(from *StateDoc, keys []string) (left []string) {
	next := StateDoc{fields: d.fields.clone()}
	for _, key := range keys {
		val := from.fields.get(key)
		if val == nil {
			continue
		}
		before := next.fields.get(key)
		if next.fields.set(key, val); next.fields.size > MaxStateBytes {
			next.fields.put(key, before)
			left = append(left, key)
		}
	}
	*d = next
	return left
}
