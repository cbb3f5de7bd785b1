// This file knows on which patches TDesign and RFC 6902 agree.

package tdesign

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// TDesign applies patches with code of its own that differs from RFC 6902 (an
// add at an index overwrites, missing parents are made, test is not known, and "/"
// is the whole document, not the key ""). What
// both understand alike is: replace and remove of a member that is there, add of
// a member to an object that is there, and add at the end of an array.

// operation is one operation of a JSON Patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from"`
	Value json.RawMessage `json:"value"`

	raw json.RawMessage
}

// UnmarshalJSON keeps the operation's own bytes beside its decoded members.
func (o *operation) UnmarshalJSON(raw []byte) error {
	type plain operation
	if err := json.Unmarshal(raw, (*plain)(o)); err != nil {
		return err
	}
	o.raw = slices.Clone(raw)
	return nil
}

// segments is a pointer's path, unescaped.
// Escapes are resolved in the order of RFC 6901, ~1 before ~0.
func segments(pointer string) []string {
	if pointer == "" {
		return nil
	}
	list := strings.Split(pointer, "/")[1:]
	for i, s := range list {
		list[i] = strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
	}
	return list
}

// appliesAlike performs op on doc, a decoded document, if TDesign and RFC 6902
// agree about it; path is where in doc.
func appliesAlike(doc any, o *operation, path []string) bool {
	if len(path) == 0 || slices.Contains(path, "") {
		return false
	}
	for len(path) > 1 {
		if doc = child(doc, path[0]); doc == nil {
			return false
		}
		path = path[1:]
	}
	switch parent := doc.(type) {
	case map[string]any:
		return memberAlike(parent, o, path[0])
	case []any:
		// The array grows by replacement in its parent, which is out of reach here; nothing later in
		// this patch may look at it then.
		return o.Op == "add" && path[0] == "-"
	}
	return false
}

// child is what a decoded value holds under a key or an index; nil when it holds nothing there.
func child(doc any, segment string) any {
	switch parent := doc.(type) {
	case map[string]any:
		return parent[segment]
	case []any:
		if i, err := strconv.Atoi(segment); err == nil && i >= 0 && i < len(parent) {
			return parent[i]
		}
	}
	return nil
}

// memberAlike performs an operation on a member of an object. Operations other than these three are
// refused.
func memberAlike(parent map[string]any, o *operation, name string) bool {
	_, there := parent[name]
	switch o.Op {
	case "replace", "add":
		if o.Op == "replace" && !there {
			return false
		}
		var v any
		if json.Unmarshal(o.Value, &v) != nil {
			return false
		}
		parent[name] = v
		return true
	case "remove":
		delete(parent, name)
		return there
	}
	return false
}

// patchOf writes operations as a patch. The operations keep their own bytes, so that values lose no
// digits.
func patchOf(ops []operation) json.RawMessage {
	patch := []byte{'['}
	for i := range ops {
		if i > 0 {
			patch = append(patch, ',')
		}
		patch = append(patch, ops[i].raw...)
	}
	return append(patch, ']')
}
