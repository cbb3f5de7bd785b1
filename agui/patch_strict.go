// This file is stricter than the patch library in two places where it is more lenient than RFC 6902.
// The official clients are not lenient there: a patch that we accepted would be one that they warn
// of and leave out, and the page would show another state than the log holds.

package agui

import (
	"encoding/json"
	"strconv"
	"strings"
)

// The library is more lenient than RFC 6902 in two places, and the official clients are not:
// a patch that we took would be one that they warn of and leave out. It reads "+1" and "01"
// as array indexes, and finds null where nothing is.

// maxLenient bounds the operations of a patch that is applied one by one: each reads the
// document again.
const maxLenient = 64

// lenient reports whether the library may take an operation that RFC 6902 does not allow.
func (o operation) lenient() bool {
	return o.op == "test" && o.null || oddIndex(*o.path) || o.from != nil && oddIndex(*o.from)
}

// oddIndex reports whether a pointer has a segment that only a lenient reader takes for an
// array index. As a member's name it is fine.
func oddIndex(pointer string) bool {
	for segment := range strings.SplitSeq(pointer, "/") {
		if segment == "" || strings.IndexByte("+-0123456789", segment[0]) < 0 {
			continue
		}
		if _, err := strconv.Atoi(segment); err == nil && !isIndex(segment) {
			return true
		}
	}
	return false
}

// isIndex is the grammar of an array index (RFC 6901, section 4).
func isIndex(segment string) bool {
	return segment == "0" || segment != "" && segment[0] != '0' && strings.Trim(segment, "0123456789") == ""
}

// applyStrictly applies a patch operation by operation, each after a look at where it points.
func applyStrictly(doc, ops json.RawMessage, list []operation) (json.RawMessage, error) {
	if len(list) > maxLenient {
		return nil, wrong("too many operations for a patch with unusual array indexes")
	}
	i := 0
	err := EachElement(ops[skipSpace(ops, 0):], func(op []byte) error {
		o := list[i]
		i++
		if !json.Valid(doc) {
			return wrong("the document is not valid JSON")
		}
		if !resolves(doc, *o.path, o.op == "test") || o.from != nil && !resolves(doc, *o.from, true) {
			return within("path", wrong("points at nothing"))
		}
		var err error
		doc, err = applyAll(doc, append(append([]byte{'['}, op...), ']'))
		return err
	})
	return doc, err
}

// resolves reports whether a pointer has only proper indexes in arrays and, if it has to be
// there, something at its end. What is missing on the way is the library's to find.
func resolves(doc []byte, pointer string, there bool) bool {
	if pointer == "" {
		return true
	}
	segments := strings.Split(pointer, "/")[1:]
	for i, segment := range segments {
		next, array := child(doc, unescapePointer(segment))
		last := i == len(segments)-1
		if array && !isIndex(segment) && !(last && segment == "-" && !there) {
			return false
		}
		if next == nil {
			return !there
		}
		doc = next
	}
	return true
}

// child is what a value holds under a key or an index; nil when it holds nothing there.
func child(doc []byte, key string) (value []byte, array bool) {
	doc = doc[skipSpace(doc, 0):]
	switch doc[0] {
	case '{':
		_ = EachMember(doc, func(name, val []byte) error { // of valid JSON, it cannot fail
			if string(name) == key {
				value = val
			}
			return nil
		})
	case '[':
		array = true
		n := 0
		_ = EachElement(doc, func(val []byte) error {
			if strconv.Itoa(n) == key {
				value = val
			}
			n++
			return nil
		})
	}
	return value, array
}
