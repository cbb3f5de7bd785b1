// This file measures a compiled schema, where references have become pointers. What is checked here cannot be seen in
// the text: how much a schema is with its references followed, and whether it leads back to itself.

package schema

import (
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// graph measures a compiled schema, in which references are pointers: definitions that are used many times are one node
// here and many visits for a value, and a schema may lead back to itself.
type graph struct {
	expanded map[*jsonschema.Schema]int      // the nodes below, with references followed; 0 while it is being counted
	dynamic  map[string][]*jsonschema.Schema // by anchor, the schemas that a dynamic reference may mean
}

// check refuses a schema that is too large or has no end. count visits every schema that the root can reach, dynamic
// references included, so the keys of expanded are all of them.
func (g *graph) check(root *jsonschema.Schema) *Error {
	if g.count(root) > MaxNodes {
		return &Error{CodeTooComplex, fmt.Sprintf("The schema with its references followed has more than %d nodes.", MaxNodes)}
	}
	// A cycle through eachSame alone never gets to a smaller part of the value, so its validation would never end. A
	// cycle through eachPart ends with the value, and is allowed: trees are described so.
	const entered, left = 1, 2
	state := map[*jsonschema.Schema]int{}
	var cyclic func(s *jsonschema.Schema) bool
	cyclic = func(s *jsonschema.Schema) bool {
		switch state[s] {
		case entered:
			return true
		case left:
			return false
		}
		state[s] = entered
		found := false
		eachSame(s, func(sub *jsonschema.Schema) { found = found || cyclic(sub) })
		state[s] = left
		return found
	}
	for s := range g.expanded {
		if cyclic(s) {
			return &Error{CodeTooComplex, "The schema refers to itself for the same value, which no value can end."}
		}
	}
	return nil
}

// count is how many nodes a schema has with references followed. One that leads back to where it came from counts once:
// how often it is followed depends on the value, and is counted with it.
func (g *graph) count(s *jsonschema.Schema) int {
	if n, seen := g.expanded[s]; seen {
		return max(n, 1)
	}
	g.expanded[s] = 0 // marks it as being counted, for the references that lead back here
	if s.DynamicAnchor != "" {
		g.dynamic[s.DynamicAnchor] = append(g.dynamic[s.DynamicAnchor], s)
	}
	if s.RecursiveAnchor {
		g.dynamic[recursive] = append(g.dynamic[recursive], s)
	}
	total := 1
	// What is too many stays at one too many: a sum that doubles with every level would overflow.
	add := func(sub *jsonschema.Schema) { total = min(total+g.count(sub), MaxNodes+1) }
	eachSame(s, add)
	eachPart(s, add)
	if s.DynamicRef != nil {
		add(s.DynamicRef.Ref)
	}
	if s.RecursiveRef != nil {
		add(s.RecursiveRef)
	}
	g.expanded[s] = total
	return total
}

// recursive is the key of what a $recursiveRef may lead to; no anchor is named so.
const recursive = "$recursive"

// eachSame visits the schemas that are applied to the same value.
func eachSame(s *jsonschema.Schema, visit func(*jsonschema.Schema)) {
	for _, sub := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
		if sub != nil {
			visit(sub)
		}
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for _, sub := range list {
			visit(sub)
		}
	}
	for _, sub := range s.DependentSchemas {
		visit(sub)
	}
	for _, sub := range s.Dependencies {
		if sub, ok := sub.(*jsonschema.Schema); ok {
			visit(sub)
		}
	}
}

// eachPart visits the schemas that are applied to parts of the value. Together with eachSame and the two dynamic
// references it has every field of jsonschema.Schema that holds a schema; a new version of the library may bring
// another.
func eachPart(s *jsonschema.Schema, visit func(*jsonschema.Schema)) {
	for _, sub := range s.Properties {
		visit(sub)
	}
	for _, sub := range s.PatternProperties {
		visit(sub)
	}
	for _, sub := range s.PrefixItems {
		visit(sub)
	}
	for _, sub := range []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema} {
		if sub != nil {
			visit(sub)
		}
	}
	for _, sub := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch sub := sub.(type) {
		case *jsonschema.Schema:
			visit(sub)
		case []*jsonschema.Schema:
			for _, item := range sub {
				visit(item)
			}
		}
	}
}
