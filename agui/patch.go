// This file applies JSON Patches (RFC 6902) from agents. It refuses patches that the official clients' library would apply
// differently, so that the stored state is the state that every client computes.
//
// The library evanphx/json-patch applies a patch if it follows the RFC for that patch (ordinary). patch_tree.go applies any
// other patch. The library panics on some malformed operations and accepts more than the RFC. So this file checks each
// operation first.

package agui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// operation holds the members of a patch operation that locate its target.
type operation struct {
	op         string
	path, from *string
	value      json.RawMessage
	badFrom    error // of an operation without a "from" it is ignored, as any member that is not the operation's own
}

// member reads what locates the target; the value itself is left to the library.
func (o *operation) member(key, raw []byte) error {
	switch string(key) {
	case "op":
		return decodeOneOf(&o.op, raw, "add", "remove", "replace", "move", "copy", "test")
	case "path":
		return decodePointer(&o.path, raw)
	case "from":
		o.from = nil
		o.badFrom = decodePointer(&o.from, raw)
	case "value":
		o.value = raw
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
	case o.takesFrom() && o.badFrom != nil:
		return within("from", o.badFrom)
	case o.takesFrom() && o.from == nil:
		absent = "from"
	case (o.op == "add" || o.op == "replace" || o.op == "test") && o.value == nil:
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

// libraryWork bounds the patches that use the library, in operations times bytes of the document. The cost of a library
// operation may grow with the document; the cost of a tree operation does not.
const libraryWork = 1 << 24

// ordinary reports whether the library applies the operation as RFC 6902 does. The library finds null at a missing member,
// treats 1 and 1.0 as different, and accepts "+1" and "01" as array indexes. It treats "" as the document itself, which it
// copies as it was before the patch.
func (o operation) ordinary() bool {
	return (o.op == "add" || o.op == "replace" || o.op == "remove") && *o.path != "" && !hasOddSegment(*o.path)
}

// hasOddSegment reports whether a pointer has an empty segment, or one that only a lenient reader accepts as an index.
func hasOddSegment(pointer string) bool {
	for segment := range strings.SplitSeq(pointer[1:], "/") {
		switch {
		case segment == "":
			return true
		case strings.IndexByte("+-0123456789", segment[0]) < 0:
		default:
			if _, err := strconv.Atoi(segment); err == nil && !isIndex(segment) {
				return true
			}
		}
	}
	return false
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
	if len(list) == 0 || len(list)*len(doc) > libraryWork || slices.ContainsFunc(list, func(o operation) bool { return !o.ordinary() }) {
		return applyToTree(doc, list)
	}
	return applyByLibrary(bytes.TrimLeft(doc, " \t\r\n"), ops)
}

func applyByLibrary(doc, ops json.RawMessage) (json.RawMessage, error) {
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		return nil, fmt.Errorf("agui: patch: %w", err)
	}
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	options.EscapeHTML = false
	patched, err := patch.ApplyWithOptions(doc, options)
	if err != nil {
		return nil, fmt.Errorf("agui: patch: %w", err)
	}
	return patched, nil
}

// applyToTree applies a patch operation by operation.
func applyToTree(doc json.RawMessage, list []operation) (json.RawMessage, error) {
	if !json.Valid(doc) {
		return nil, wrong("the document is not valid JSON")
	}
	t := tree{root: &node{raw: doc}}
	for i := range list {
		if err := t.apply(&list[i]); err != nil {
			return nil, within(strconv.Itoa(i), err)
		}
	}
	whole := t.root.appendJSON(nil)
	return appendCompact(make([]byte, 0, len(whole)), whole), nil
}

// apply performs one operation.
func (t *tree) apply(o *operation) error {
	switch o.op {
	case "add":
		return t.add(*o.path, &node{raw: o.value})
	case "remove":
		return t.remove(*o.path)
	case "replace":
		return t.replace(*o.path, &node{raw: o.value})
	case "move":
		return t.move(*o.from, *o.path)
	case "copy":
		n, _, err := t.find(*o.from)
		if err == nil {
			n, err = t.copied(n)
		}
		if err != nil {
			return err
		}
		return t.add(*o.path, n)
	}
	return t.test(*o.path, &node{raw: o.value})
}
