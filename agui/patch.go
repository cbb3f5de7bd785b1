package agui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// operation is what a patch operation says about where.
type operation struct {
	op         string
	path, from *string
	value      bool // it has one
	null       bool // it is null
}

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

func (o *operation) takesFrom() bool { return o.op == "move" || o.op == "copy" }

func readPatch(ops json.RawMessage) ([]operation, error) {
	if !json.Valid(ops) {
		return nil, wrong("the patch is not valid JSON")
	}
	var list []operation
	err := decodeList(&list, ops[skipSpace(ops, 0):])
	if list == nil && err == nil {
		err = wrong("must be an array")
	}
	return list, err
}

// patchedKeys lists the top-level keys a patch names, or says that it names the
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

// PatchedKeys lists the top-level keys a JSON Patch names; whole says that it names the whole document, or cannot be read.
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
