// This file applies the patches for which the library is not used (patch.go). It works on a tree and expands only the values
// on the paths of the patch. The cost of an operation does not depend on the size of the document. So a patch of many
// operations takes only the time needed to read it.

package agui

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// maxPatchWork bounds the work of one patch, in bytes read and array elements moved. It corresponds to less than half a
// second. The largest patch of an event on the largest state stays far below it. Only operations at the front of a long array
// or on whole large values come near it.
const maxPatchWork = 1 << 27

// valueWork is the work of expanding a value, or of comparing one.
const valueWork = 32

// copyWork is the work of copying one byte. A copy also takes memory, and a patch of some hundred bytes can double a document
// forty times. With this value a patch copies at most four mebibytes.
const copyWork = maxPatchWork / (16 * MaxStateBytes)

// The library also keeps a tree, but copies an array for each element that is added or removed. The tree here changes arrays
// in place and looks up members by name. 25 000 operations on 100 000 values then take less than half a second.

// node is a value of the document. It is expanded when a pointer passes through it. Until then raw holds the value as
// written; an expanded object or array has no raw.
type node struct {
	raw    json.RawMessage
	keys   []string // of an object, in order; those that were removed are no longer in fields
	fields map[string]*node
	items  []*node // of an array
}

// tree is the document that a patch changes.
type tree struct {
	root *node
	work int
}

// spend adds to the work of the patch, and fails above the limit.
func (t *tree) spend(work int) error {
	if t.work += work; t.work > maxPatchWork {
		return wrong("the patch costs too much to apply")
	}
	return nil
}

// open expands an object or an array that is not expanded yet. Of a duplicate member the last counts, as in every client.
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

// setField sets a member and puts a new one last. A removed key stays in keys until most keys are removed, so that a removal
// does not search for it.
func (n *node) setField(key string, val *node) {
	if n.fields[key] == nil {
		if len(n.keys) > 2*len(n.fields)+8 { // most were removed
			n.keys = n.live()
		}
		n.keys = append(n.keys, key)
	}
	n.fields[key] = val
}

// live returns the keys of the current members, in order. A key that was removed and set again is in keys twice; its last
// place counts.
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

// copied returns a deep copy of a value.
func (t *tree) copied(n *node) (*node, error) {
	raw := n.raw
	if raw == nil {
		raw = n.appendJSON(nil)
	}
	return &node{raw: raw}, t.spend(copyWork * len(raw))
}

// place is the target of an operation: a member of an object, or an element of an array. Without a parent it is the whole
// document.
type place struct {
	parent *node
	key    string
	index  int // in an array; -1 in an object
}

// locate follows a pointer to its last segment. The parent must exist. A key of an array must be an index, or "-" for the
// element after the last.
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

// arrayIndex reads an index (RFC 6901, section 4) of at most length; "-" means length. It returns -1 for anything else.
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

// isIndex implements the grammar of an array index (RFC 6901, section 4).
func isIndex(segment string) bool {
	return segment == "0" || segment != "" && segment[0] != '0' && strings.Trim(segment, "0123456789") == ""
}

// value returns the value at the place, or nil.
func (p place) value() *node {
	switch {
	case p.index < 0:
		return p.parent.fields[p.key]
	case p.index < len(p.parent.items):
		return p.parent.items[p.index]
	}
	return nil
}

// find returns the value at a pointer, and its place.
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

// replace changes an existing value.
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

// move removes a value and adds it elsewhere. It refuses to move a value into itself. The target's parent must exist before
// the removal as well. The official clients' library looks for it then, and would not apply a patch whose indexes fit only
// afterwards.
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
