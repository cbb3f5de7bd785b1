// This file prices the check of one value, by a walk over schema and value that visits what the library would visit.
// The walk has to know every keyword that costs: a new version of the library may bring another (see eachPart).

package schema

import (
	"encoding/json"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxWork bounds a check, in visits of a schema to a value. The library cannot be interrupted and keeps an error for each
// visit that fails, so the visits are counted before it is called, by a walk that stops where the budget ends.
const maxWork = 200_000

// work counts what the library will do at most: it takes no short cut where the library may take one.
//
// Every method spends before it descends and is false when the budget is gone, so the walk itself is bounded by maxWork
// as well, however the schema and the value multiply. One unit is one visit of a schema to a value; the constants named
// scanned and steps give how much of something cheaper costs as much.
type work struct {
	left    int
	dynamic map[string][]*jsonschema.Schema
}

// spend takes from the budget and reports whether it holds.
func (w *work) spend(n int) bool {
	w.left -= n
	return w.left >= 0
}

// count visits one value. depth is how many schemas led here; the library looks through them for cycles and anchors.
func (w *work) count(s *jsonschema.Schema, v any, depth int) bool {
	const scanned = 8 // comparisons that cost as much as one visit
	if s.Bool != nil {
		return w.spend(1)
	}
	if !w.spend(1+depth/scanned+sizeHere(v)/scanned+len(s.Required)/scanned) || !w.constants(s, v) {
		return false
	}
	ok := true
	same := func(sub *jsonschema.Schema) { ok = ok && w.count(sub, v, depth+1) }
	eachSame(s, same)
	// Which schema a dynamic reference means depends on the way that led here. All that it may mean are counted.
	if s.DynamicRef != nil {
		same(s.DynamicRef.Ref)
		if s.DynamicRef.Anchor != "" {
			for _, sub := range w.dynamic[s.DynamicRef.Anchor] {
				same(sub)
			}
		}
	}
	if s.RecursiveRef != nil {
		same(s.RecursiveRef)
		for _, sub := range w.dynamic[recursive] {
			same(sub)
		}
	}
	if !ok {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		return w.object(s, v, depth+1)
	case []any:
		return w.array(s, v, depth+1)
	case string:
		return w.text(s, v)
	}
	return true
}

// constants prices the comparisons with fixed values. Numbers are compared as fractions, which are parsed each time.
func (w *work) constants(s *jsonschema.Schema, v any) bool {
	n := 0
	if s.Const != nil {
		n++
	}
	if s.Enum != nil {
		n += len(s.Enum.Values)
	}
	if n == 0 {
		return true
	}
	return w.spend(n * (1 + sizeOf(v)/4))
}

// object prices what is applied to members: each is visited by every keyword that may apply to it.
func (w *work) object(s *jsonschema.Schema, obj map[string]any, depth int) bool {
	for name, member := range obj {
		covered := false
		if sub := s.Properties[name]; sub != nil {
			covered = true
			if !w.count(sub, member, depth) {
				return false
			}
		}
		for re, sub := range s.PatternProperties {
			covered = true
			if !w.match(re, name) || !w.count(sub, member, depth) {
				return false
			}
		}
		// With patterns, additionalProperties is counted even for a member that one covers: only the engine knows
		// whether it matches, and asking it is what is being priced.
		rest, _ := s.AdditionalProperties.(*jsonschema.Schema)
		if !covered || len(s.PatternProperties) > 0 {
			if rest != nil && !w.count(rest, member, depth) {
				return false
			}
		}
		if s.UnevaluatedProperties != nil && !w.count(s.UnevaluatedProperties, member, depth) {
			return false
		}
		if s.PropertyNames != nil && !w.count(s.PropertyNames, name, depth) {
			return false
		}
	}
	return true
}

// array prices what is applied to items.
func (w *work) array(s *jsonschema.Schema, list []any, depth int) bool {
	if s.UniqueItems {
		// Up to twenty items are compared in pairs, more are hashed.
		if !w.spend(sizeOf(list) * min(len(list), 20)) {
			return false
		}
	}
	for i, item := range list {
		for _, sub := range []*jsonschema.Schema{itemAt(s, i), s.Contains, s.UnevaluatedItems} {
			if sub != nil && !w.count(sub, item, depth) {
				return false
			}
		}
	}
	return true
}

// text prices the keywords of strings. minLength and maxLength count characters, which reads the string once.
func (w *work) text(s *jsonschema.Schema, text string) bool {
	const scanned = 64
	if s.Pattern != nil && !w.match(s.Pattern, text) {
		return false
	}
	return w.spend(len(text) / scanned)
}

// match prices one regular expression. A visit is about as long as 64 steps of the engine.
func (w *work) match(re jsonschema.Regexp, text string) bool {
	const steps = 64
	p, ok := re.(pattern)
	return ok && w.spend(1+p.size*(len(text)+1)/steps)
}

// sizeHere is how many parts a value has, not counting theirs.
func sizeHere(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// sizeOf is how much there is to compare of a value. It looks at all of it, which MaxValueBytes bounds.
func sizeOf(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			n += 1 + len(name)/64 + sizeOf(member)
		}
	case []any:
		for _, item := range v {
			n += sizeOf(item)
		}
	case string:
		n += len(v) / 64
	case json.Number:
		n += len(v) / 16
	}
	return n
}

// itemAt is the schema of an array's item by its place, nil for none: prefixItems and items of 2020-12, items and
// additionalItems before.
func itemAt(s *jsonschema.Schema, i int) *jsonschema.Schema {
	if i < len(s.PrefixItems) {
		return s.PrefixItems[i]
	}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		return items
	case []*jsonschema.Schema:
		if i < len(items) {
			return items[i]
		}
		rest, _ := s.AdditionalItems.(*jsonschema.Schema)
		return rest
	}
	return s.Items2020
}
