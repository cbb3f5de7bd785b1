// This file applies the patches for which the library is not used (patch.go), on a tree that is taken apart only where the
// patch goes. The cost of an operation does not depend on the size of the document, so a patch of many operations is applied
// in the time that it takes to read it.

package agui

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// maxPatchWork bounds what one patch may cost, in bytes that are read and in elements of arrays that are moved. The largest
// patch of an event, on the largest state, stays far under it unless its operations are about the front of a long array or
// about whole large values. It is less than half a second.
const maxPatchWork = 1 << 27

// valueWork is the work of taking a value out of its parent, or of comparing it.
const valueWork = 32

// copyWork is the work of copying one byte. A copy also takes memory, and a patch of some hundred bytes can double a
// document forty times: with this a patch copies at most four mebibytes.
const copyWork = maxPatchWork / (16 * MaxStateBytes)

// The library keeps a tree as well, and copies an array for each element that comes or goes. Here an array is changed where it
// stands, and a member is found by its name, so that 25 000 operations on 100 000 values take less than half a second.

// node is a value of the document. It is taken apart when a pointer goes through it; until then raw is the value as written.
// An object or array that was taken apart has no raw.
type node struct {
	raw    json.RawMessage
	keys   []string // of an object, in order; those that were removed are no longer in fields
	fields map[string]*node
	items  []*node // of an array
}

// tree is a document that a patch is applied to.
type tree struct {
	root *node
	work int
}

// spend adds to the work of the patch, and fails when that is too much.
func (t *tree) spend(work int) error {
	if t.work += work; t.work > maxPatchWork {
		return wrong("the patch costs too much to apply")
	}
	return nil
}

// open takes a value apart, if it is an object or an array and has not been. Of a member that comes twice the last counts, as
// in every client.
func (t *tree) open(n *node) error {
	if n.raw == nil {
		return nil
	}
	raw := n.raw[skipSpace(n.raw, 0):]
	switch raw[0] {
	case '{':
		n.raw, n.fields = nil, make(map[string]*node)
		_ = EachMember(raw, func(key, val []byte) error { // of valid JSON, it cannot fail
			n.setField(string(key), &node{raw: val})
			return nil
		})
	case '[':
		n.raw, n.items = nil, []*node{}
		_ = EachElement(raw, func(val []byte) error {
			n.items = append(n.items, &node{raw: val})
			return nil
		})
	default:
		return nil
	}
	return t.spend(len(raw) + valueWork*(len(n.fields)+len(n.items)))
}

// setField sets a member. A new one is the last. A key that is removed stays in keys until most of them are such, so that a
// removal does not search for it.
func (n *node) setField(key string, val *node) {
	if n.fields[key] == nil {
		if len(n.keys) > 2*len(n.fields)+8 { // most were removed
			n.keys = n.live()
		}
		n.keys = append(n.keys, key)
	}
	n.fields[key] = val
}

// live are the keys of the members that are there, in order. A key that was removed and set again is in keys twice; its
// last place counts.
func (n *node) live() []string {
	if len(n.keys) == len(n.fields) {
		return n.keys
	}
	seen := make(map[string]bool, len(n.fields))
	keys := make([]string, 0, len(n.fields))
	for _, key := range slices.Backward(n.keys) {
		if n.fields[key] != nil && !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	slices.Reverse(keys)
	return keys
}

// appendJSON writes the value.
func (n *node) appendJSON(dst []byte) []byte {
	switch {
	case n.raw != nil:
		return append(dst, n.raw...)
	case n.fields == nil:
		dst = append(dst, '[')
		for i, item := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.appendJSON(dst)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i, key := range n.live() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = n.fields[key].appendJSON(append(AppendString(dst, key), ':'))
	}
	return append(dst, '}')
}

// copied is a value that shares nothing with the one it is a copy of.
func (t *tree) copied(n *node) (*node, error) {
	raw := n.raw
	if raw == nil {
		raw = n.appendJSON(nil)
	}
	return &node{raw: raw}, t.spend(copyWork * len(raw))
}

// place is where an operation acts: a member of an object, or an element of an array. Without a parent it is the whole
// document.
type place struct {
	parent *node
	key    string
	index  int // in an array; -1 in an object
}

// locate walks a pointer up to its last segment. The parent has to be there, and a key of an array has to be an index or "-",
// the element behind the last.
func (t *tree) locate(pointer string) (place, error) {
	if pointer == "" {
		return place{}, nil
	}
	here := place{index: -1}
	next := t.root
	for segment := range strings.SplitSeq(pointer[1:], "/") {
		if here.parent != nil {
			next = here.value()
		}
		if next == nil {
			return place{}, nowhere()
		}
		if err := t.open(next); err != nil {
			return place{}, err
		}
		here = place{parent: next, key: unescapePointer(segment), index: -1}
		switch {
		case next.raw != nil: // neither an object nor an array
			return place{}, nowhere()
		case next.fields == nil:
			if here.index = arrayIndex(here.key, len(next.items)); here.index < 0 {
				return place{}, nowhere()
			}
		}
	}
	return here, nil
}

func nowhere() error { return within("path", wrong("points at nothing")) }

// arrayIndex reads an index (RFC 6901, section 4) up to the length of the array; "-" is the length. Anything else is -1.
func arrayIndex(key string, length int) int {
	if key == "-" {
		return length
	}
	if !isIndex(key) {
		return -1
	}
	i, err := strconv.Atoi(key)
	if err != nil || i > length {
		return -1
	}
	return i
}

// isIndex is the grammar of an array index (RFC 6901, section 4).
func isIndex(segment string) bool {
	return segment == "0" || segment != "" && segment[0] != '0' && strings.Trim(segment, "0123456789") == ""
}

// value is what is at the place, nil where there is nothing.
func (p place) value() *node {
	switch {
	case p.index < 0:
		return p.parent.fields[p.key]
	case p.index < len(p.parent.items):
		return p.parent.items[p.index]
	}
	return nil
}

// find is what is at a pointer.
func (t *tree) find(pointer string) (*node, place, error) {
	at, err := t.locate(pointer)
	if err != nil || at.parent == nil {
		return t.root, at, err
	}
	if n := at.value(); n != nil {
		return n, at, nil
	}
	return nil, at, nowhere()
}

// add sets a member or inserts an element.
func (t *tree) add(pointer string, n *node) error {
	at, err := t.locate(pointer)
	switch {
	case err != nil:
		return err
	case at.parent == nil:
		t.root = n
	case at.index < 0:
		at.parent.setField(at.key, n)
	default:
		at.parent.items = slices.Insert(at.parent.items, at.index, n)
		return t.spend(len(at.parent.items) - at.index)
	}
	return nil
}

// remove takes a value out. The whole document cannot be removed: no client has a state without a value.
func (t *tree) remove(pointer string) error {
	_, at, err := t.find(pointer)
	switch {
	case err != nil:
		return err
	case at.parent == nil:
		return within("path", wrong("the whole document cannot be removed"))
	case at.index < 0:
		delete(at.parent.fields, at.key)
	default:
		at.parent.items = slices.Delete(at.parent.items, at.index, at.index+1)
		return t.spend(len(at.parent.items) - at.index)
	}
	return nil
}

// replace is about a value that is there.
func (t *tree) replace(pointer string, n *node) error {
	_, at, err := t.find(pointer)
	switch {
	case err != nil:
		return err
	case at.parent == nil:
		t.root = n
	case at.index < 0:
		at.parent.fields[at.key] = n
	default:
		at.parent.items[at.index] = n
	}
	return nil
}

// move is remove and add. A value cannot go into itself. The target's parent has to be there before the removal as well: the
// official clients' library looks for it then, and would not apply a patch whose indexes fit only afterwards.
func (t *tree) move(from, to string) error {
	n, _, err := t.find(from)
	if err != nil {
		return err
	}
	if from == to {
		return nil
	}
	if strings.HasPrefix(to, from+"/") {
		return within("path", wrong("a value cannot be moved into itself"))
	}
	if _, err := t.locate(to); err != nil {
		return err
	}
	if to == "" {
		t.root = n
		return nil
	}
	if err := t.remove(from); err != nil {
		return err
	}
	return t.add(to, n)
}
