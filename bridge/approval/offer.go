package approval

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Offer names the members by which a response schema accepts a yes or a no, changed arguments and a reason. Agents spell them
// differently, and an answer is sent under the names of the agent's schema.
type Offer struct {
	Approved string // a boolean; "" if the whole answer is a boolean
	Edited   string // the changed arguments; "" if they must not be changed
	Reason   string // the person's words; "" for none

	required []string
}

const (
	// deepestChoice bounds the depth of alternatives of a schema: the level above reads each level once more.
	deepestChoice = 8
	// mostChoices bounds the total number of alternatives that are read: references may lead to the same ones repeatedly.
	mostChoices = 32
)

// These are the spellings of members, in lower case and without separators, of Pydantic AI, Microsoft Agent Framework,
// Mastra, LangChain and AgentScope.
var (
	approvedNames = []string{"approved", "approve", "isapproved", "accepted", "accept", "confirmed", "confirm", "allowed"}
	editedNames   = []string{
		"editedargs", "editedarguments", "editedinput", "editedtoolargs", "modifiedargs", "modifiedarguments", "modifiedinput",
		"updatedargs", "updatedarguments", "updatedinput", "overrideargs", "overridearguments",
	}
	reasonNames = []string{"reason", "message", "comment", "feedback", "note", "explanation"}
)

// schemaBrief holds the parts of a JSON Schema that define an Offer.
type schemaBrief struct {
	Type       json.RawMessage            `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	AnyOf      []json.RawMessage          `json:"anyOf"`
	OneOf      []json.RawMessage          `json:"oneOf"`
	AllOf      []json.RawMessage          `json:"allOf"`
	Ref        string                     `json:"$ref"`
	Defs       map[string]json.RawMessage `json:"$defs"`
	Old        map[string]json.RawMessage `json:"definitions"`
}

// OfferOf reads the Offer of a response schema. It reports false for a schema without a member for yes or no. It also does if
// another member is required that only a form can fill.
func OfferOf(raw json.RawMessage) (Offer, bool) {
	if len(raw) == 0 {
		return Offer{}, false
	}
	var root schemaBrief
	if json.Unmarshal(raw, &root) != nil {
		return Offer{}, false
	}
	left := mostChoices
	return root.offer(&root, deepestChoice, &left)
}

func (s *schemaBrief) offer(root *schemaBrief, depth int, left *int) (Offer, bool) {
	if *left--; depth == 0 || *left < 0 {
		return Offer{}, false
	}
	if ref, ok := s.referred(root); ok {
		return ref.offer(root, depth-1, left)
	}
	if len(s.Properties) > 0 {
		return s.named(root)
	}
	var all Offer
	offers := false
	for _, choice := range slices.Concat(s.AnyOf, s.OneOf, s.AllOf) {
		var one schemaBrief
		if *left <= 0 {
			break
		}
		if json.Unmarshal(choice, &one) != nil {
			continue
		}
		o, ok := one.offer(root, depth-1, left)
		switch {
		case ok && offers:
			all = all.with(o)
		case ok:
			all, offers = o, true
		}
	}
	return all, offers || s.isA(root, "boolean", false)
}

// with merges the Offer of another alternative that uses the same member for yes or no. A schema may offer changes with a
// yes, and a reason with a no.
func (o Offer) with(other Offer) Offer {
	if o.Approved != "" && other.Approved == o.Approved {
		o.Edited, o.Reason = cmp.Or(o.Edited, other.Edited), cmp.Or(o.Reason, other.Reason)
	}
	return o
}

// named reads the members of an object.
func (s *schemaBrief) named(root *schemaBrief) (Offer, bool) {
	o := Offer{
		Approved: s.member(root, approvedNames, "boolean"), Edited: s.member(root, editedNames, "object"),
		Reason: s.member(root, reasonNames, "string"), required: s.Required,
	}
	if o.Approved == "" {
		return Offer{}, false
	}
	known := []string{o.Approved, o.Edited, o.Reason}
	return o, !slices.ContainsFunc(s.Required, func(name string) bool { return !slices.Contains(known, name) })
}

// member returns the first of the spellings that the object has with that type. An unstated type fits.
func (s *schemaBrief) member(root *schemaBrief, spellings []string, kind string) string {
	plain := strings.NewReplacer("_", "", "-", "")
	for _, spelling := range spellings {
		for name, raw := range s.Properties {
			var one schemaBrief
			if plain.Replace(strings.ToLower(name)) == spelling && (json.Unmarshal(raw, &one) != nil || one.isA(root, kind, true)) {
				return name
			}
		}
	}
	return ""
}

// isA reports whether values of the type fit. It returns unstated for a schema without a type and without choices that have
// one.
func (s *schemaBrief) isA(root *schemaBrief, kind string, unstated bool) bool {
	if ref, ok := s.referred(root); ok {
		s = &ref
	}
	var one string
	var many []string
	switch {
	case json.Unmarshal(s.Type, &one) == nil:
		return one == kind
	case json.Unmarshal(s.Type, &many) == nil:
		return slices.Contains(many, kind)
	}
	choices := slices.Concat(s.AnyOf, s.OneOf)
	if len(choices) == 0 {
		return unstated
	}
	return slices.ContainsFunc(choices, func(raw json.RawMessage) bool {
		var choice struct {
			Type string `json:"type"`
			Ref  string `json:"$ref"`
		}
		if json.Unmarshal(raw, &choice) != nil {
			return false
		}
		ref, ok := (&schemaBrief{Ref: choice.Ref}).referred(root)
		return choice.Type == kind || ok && string(ref.Type) == string(mustJSON(kind))
	})
}

// referred returns the schema of the same document that s refers to.
func (s *schemaBrief) referred(root *schemaBrief) (ref schemaBrief, ok bool) {
	raw := root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
	if raw == nil {
		raw = root.Old[strings.TrimPrefix(s.Ref, "#/definitions/")]
	}
	return ref, s.Ref != "" && raw != nil && json.Unmarshal(raw, &ref) == nil
}

// canonical returns an answer with the members of the Offer under the names that every surface accepts.
func (o Offer) canonical(payload json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	switch answer := string(payload); {
	case o.Approved == "" && (answer == "true" || answer == "false"):
		return mustJSON(map[string]json.RawMessage{"approved": payload})
	case json.Unmarshal(payload, &members) != nil || members == nil:
		return payload
	}
	changed := false
	for theirs, ours := range map[string]string{o.Approved: "approved", o.Edited: "editedArgs", o.Reason: "reason"} {
		value, given := members[theirs]
		if theirs == "" || theirs == ours || !given || members[ours] != nil {
			continue
		}
		delete(members, theirs)
		members[ours], changed = value, true
	}
	if !changed {
		return payload
	}
	return mustJSON(members)
}

// Answer returns the answer in the agent's own words: whether it was approved, the changed arguments (nil for the asked
// ones), and the person's reason. A member that the schema requires is present even if the person gave none.
func (o Offer) Answer(approved bool, edited, asked json.RawMessage, reason string) json.RawMessage {
	if o.Approved == "" {
		return mustJSON(approved)
	}
	members := map[string]any{o.Approved: approved}
	if o.Edited != "" {
		if edited == nil && slices.Contains(o.required, o.Edited) {
			edited = asked
		}
		if len(edited) > 0 {
			members[o.Edited] = edited
		}
	}
	if o.Reason != "" && (reason != "" || slices.Contains(o.required, o.Reason)) {
		members[o.Reason] = reason
	}
	return mustJSON(members)
}
