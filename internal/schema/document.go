// This file looks at texts before anything is built of them: at the text itself (measure), and at a schema's members
// (document). Both are linear in the text, and run on schemas and values that strangers wrote.

package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// measure looks through JSON without building it, in time linear to its length, and refuses what would be expensive to
// build or to compute with.
func measure(raw json.RawMessage) error {
	if !json.Valid(raw) {
		return errors.New("is not JSON")
	}
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"': // valid JSON: the string ends, and nothing in it is escaped over its end
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case c == '{', c == '[':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("is nested deeper than %d levels", MaxDepth)
			}
		case c == '}', c == ']':
			depth--
		case c == '-', '0' <= c && c <= '9':
			begin := i
			for i+1 < len(raw) && strings.IndexByte("0123456789.eE+-", raw[i+1]) >= 0 {
				i++
			}
			if !computable(string(raw[begin : i+1])) {
				return fmt.Errorf("holds a number of more than %d digits", maxNumber)
			}
		}
	}
	return nil
}

// computable reports whether a number can be made an exact fraction cheaply. The exponent matters as much as the digits:
// 1e1000 is a fraction of a thousand digits.
func computable(number string) bool {
	if len(number) > maxNumber {
		return false
	}
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(number[i+1:])
		return err == nil && -maxNumber <= exponent && exponent <= maxNumber
	}
	return true
}

const referenceMessage = "A schema may refer only to its own parts (#) and to the published metaschemas."

// document looks through a schema before it is compiled. It does not know which members are schemas in the dialect at
// hand, so it takes every object for one that is not an annotation or a constant: that counts too many rather than too
// few.
type document struct{ nodes int }

// check refuses references that lead out of the schema, and more nodes than it may have: the compiler's time grows with
// their square. Annotations and constants are data, not schemas.
func (d *document) check(v any) *Error {
	if d.nodes++; d.nodes > MaxNodes {
		return &Error{CodeTooComplex, fmt.Sprintf("The schema has more than %d nodes.", MaxNodes)}
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if err := d.check(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, member := range v {
			switch name {
			case "enum", "const", "default", "examples", "example":
				continue
			case "$ref", "$dynamicRef", "$recursiveRef", "$schema": // one that is no string may be a property of that name
				if text, ok := member.(string); ok && !inner(name, text) {
					return &Error{CodeReference, referenceMessage}
				}
			}
			if err := d.check(member); err != nil {
				return err
			}
		}
	}
	return nil
}

// inner reports whether a reference stays within the schema or leads to a metaschema, which the library holds.
func inner(name, ref string) bool {
	if strings.HasPrefix(ref, "#") && name != "$schema" {
		return true
	}
	for _, scheme := range []string{"http://", "https://"} {
		path, ok := strings.CutPrefix(ref, scheme+"json-schema.org/")
		if path, _, _ = strings.Cut(path, "#"); !ok {
			continue
		}
		switch path {
		case "schema", "draft-04/schema", "draft-06/schema", "draft-07/schema", "draft/2019-09/schema", "draft/2020-12/schema":
			return true
		}
	}
	return false
}
