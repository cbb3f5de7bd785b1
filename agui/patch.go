// This file applies JSON Patches (RFC 6902) that come from agents. The library that does it accepts
// more than the RFC and panics on some malformed operations, so each operation is checked here
// first.

package agui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// operation holds the members of a patch operation that locate its target.
type operation struct {
	op         string
	path, from *string
	value      bool // it has one
	null       bool // it is null
}

// member reads what locates the target; the value itself is left to the library.
func (o *operation) member(key, raw []byte) error {
	switch string(key) {
	case "op":
		return decodeOneOf(&o.op, raw, "add", "remove", "replace", "move", "copy", "test")
	case "path":
		return decodePointer(&o.path, raw)
	case "from":
		return decodePointer(&o.from, raw)
	case "value":
		o.value, o.null = true, isNull(raw)
	}
	return nil
}

// decodePointer reads a pointer, which may be empty but not null.
func decodePointer(dst **string, raw []byte) error {
	var s string
	if isNull(raw) {
		return wrong("must be a string")
	}
	if err := decodeString(&s, raw); err != nil {
		return err
	}
	if err := checkPointer(s); err != nil {
		return err
	}
	*dst = &s
	return nil
}

// checkPointer demands the grammar of RFC 6901, and refuses what the official clients' patch
// library throws on: a path through an object's prototype.
func checkPointer(s string) error {
	if s != "" && !strings.HasPrefix(s, "/") {
		return wrong("a JSON Pointer begins with /")
	}
	if !strings.Contains(s, "~") && !strings.Contains(s, "proto") {
		return nil // nearly all; a patch may have very many operations
	}
	before := ""
	for segment := range strings.SplitSeq(s, "/") {
		for i := range len(segment) {
			if segment[i] == '~' && (i+1 == len(segment) || segment[i+1] != '0' && segment[i+1] != '1') {
				return wrong("in a JSON Pointer, 0 or 1 follows ~")
			}
		}
		key := unescapePointer(segment)
		if key == "__proto__" || key == "prototype" && before == "constructor" {
			return wrong("a JSON Pointer must not name an object's prototype")
		}
		before = key
	}
	return nil
}

// complete demands what RFC 6902, section 4 does. The library does not, and
// panics on some of what it lets through.
func (o *operation) complete() error {
	absent := ""
	switch {
	case o.op == "":
		absent = "op"
	case o.path == nil:
		absent = "path"
	case o.takesFrom() && o.from == nil:
		absent = "from"
	case (o.op == "add" || o.op == "replace" || o.op == "test") && !o.value:
		absent = "value"
	}
	if absent != "" {
		return within(absent, wrong("is required"))
	}
	return nil
}

// takesFrom reports whether the operation reads another place.
func (o *operation) takesFrom() bool { return o.op == "move" || o.op == "copy" }

// readPatch checks a whole patch before any of it is applied: a patch is applied entirely or not at
// all.
func readPatch(ops json.RawMessage) ([]operation, error) {
	if !json.Valid(ops) {
		return nil, wrong("the patch is not valid JSON")
	}
	var list []operation
	err := EachElement(ops, func(op []byte) error {
		list = append(list, operation{})
		return walk(op, &list[len(list)-1])
	})
	return list, err
}

// patchedKeys lists the top-level keys a patch names, or reports that it names the
// whole document.
func patchedKeys(list []operation) (keys []string, whole bool) {
	seen := make(map[string]bool)
	note := func(pointer string) {
		k, ok := firstSegment(pointer)
		whole = whole || !ok
		if ok && !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	for _, o := range list {
		note(*o.path)
		if o.takesFrom() {
			note(*o.from)
		}
	}
	return keys, whole
}

// PatchedKeys lists the top-level keys a JSON Patch names; whole reports that it names the whole document, or cannot be read.
func PatchedKeys(ops json.RawMessage) (keys []string, whole bool) {
	list, err := readPatch(ops)
	if err != nil {
		return nil, true
	}
	return patchedKeys(list)
}

// ApplyPatch applies a JSON Patch (RFC 6902, and nothing beyond it) to a document.
// What the patch does not name stays as it was written.
func ApplyPatch(doc, ops json.RawMessage) (json.RawMessage, error) {
	list, err := readPatch(ops)
	if err != nil {
		return nil, err
	}
	return applyRead(doc, ops, list)
}

// applyRead applies a patch that readPatch has found well formed. Patches come
// from agents; should the library trip over one all the same, that one fails and
// not the process.
func applyRead(doc, ops json.RawMessage, list []operation) (patched json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			patched, err = nil, fmt.Errorf("agui: patch: %v", p)
		}
	}()
	if slices.ContainsFunc(list, operation.lenient) {
		return applyStrictly(doc, ops, list)
	}
	return applyAll(doc, ops)
}

// applyAll lets the library do the work. Copies are bounded: a patch of some hundred bytes can
// otherwise double a document forty times.
func applyAll(doc, ops json.RawMessage) (json.RawMessage, error) {
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		return nil, fmt.Errorf("agui: patch: %w", err)
	}
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	options.EscapeHTML = false
	options.AccumulatedCopySizeLimit = MaxStateBytes
	patched, err := patch.ApplyWithOptions(doc, options)
	if err != nil {
		return nil, fmt.Errorf("agui: patch: %w", err)
	}
	return patched, nil
}
