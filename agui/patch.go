package agui

import (
	"encoding/json"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// operation is what a patch operation says about where.
type operation struct {
	op         string
	path, from *string
	value      bool // it has one
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
		o.value = true
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
	if s != "" && !strings.HasPrefix(s, "/") {
		return wrong("a JSON Pointer begins with /")
	}
	*dst = &s
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
	if _, err := readPatch(ops); err != nil {
		return nil, err
	}
	return applyRead(doc, ops)
}

// applyRead applies a patch that readPatch has found well formed. Patches come
// from agents; should the library trip over one all the same, that one fails and
// not the process.
func applyRead(doc, ops json.RawMessage) (patched json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			patched, err = nil, fmt.Errorf("agui: patch: %v", p)
		}
	}()
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		return nil, fmt.Errorf("agui: patch: %w", err)
	}
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	options.EscapeHTML = false
	options.AccumulatedCopySizeLimit = MaxStateBytes
	patched, err = patch.ApplyWithOptions(doc, options)
	if err != nil {
		return nil, fmt.Errorf("agui: patch: %w", err)
	}
	return patched, nil
}
