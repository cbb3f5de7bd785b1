// This file makes the tables by which most objects of AG-UI are written and read, from the tags of
// their Go structs: a member's name and rule stand once, beside its field.

package agui

import (
	"reflect"
	"strings"
)

// A tag is the member's name and how it is treated:
//
//	required   written in any case; refused when it is absent or empty
//	always     written in any case, an absent list or object as an empty one, other absent JSON as null
//	present    a list that is written unless it is nil; a list without this is written unless it is empty
//	any        JSON that may be null; without it, null is absent
//	object     JSON that has to be an object
//	array      JSON that has to be an array
//	oneof=a|b  a string that has to be one of these
//	most=n     a list of at most n elements in a client's body, where strictjson.MostElements is too few
//	piece      a string that may begin or end with half a character
//	later      of a version after 1.0: read, never written, and unknown to MemberOf
//	const=a    this string and no other, on a field named _
//	subject    on an embedded Sub: subagentRunId comes first and is required, because the event is about that subagent
//
// Members are written in the order of the fields. What events share (Base and Sub) is written behind them, by hand.

// layout is the table of one struct.
type layout struct {
	fields    []field
	completes bool // the struct is a completed object
}

// field is one member of an object.
type field struct {
	name  string
	index []int // where it is in the Go struct
	rule  presence
	form  form
	later bool
	piece bool
	oneOf []string
	value string  // of a constant, which has no Go field
	of    *layout // of a struct, or of the structs of a list
}

// presence is when a member is written, and whether it may be missing.
type presence uint8

const (
	optional presence = iota
	present
	always
	required
)

// registry has the tables of all events and of the objects in them.
type registry struct {
	events  map[string]eventKind
	layouts map[reflect.Type]*layout
}

// eventKind is the name of a type of events, and their Go struct.
type eventKind struct {
	name Type
	of   reflect.Type
}

// tables is made when the process starts, and never changes.
var tables = newRegistry()

func newRegistry() *registry {
	r := &registry{events: make(map[string]eventKind), layouts: make(map[reflect.Type]*layout)}
	for _, ev := range eventKinds() {
		of := reflect.TypeOf(ev).Elem()
		r.events[string(ev.EventType())] = eventKind{ev.EventType(), of}
		r.layout(of)
	}
	r.layout(reflect.TypeFor[wirePart]())
	return r
}

// layout makes the table of a struct, and of those in it.
func (r *registry) layout(t reflect.Type) *layout {
	if have := r.layouts[t]; have != nil {
		return have
	}
	l := new(layout)
	r.layouts[t] = l
	_, l.completes = reflect.New(t).Interface().(completed)
	for i := range t.NumField() {
		switch sf := t.Field(i); sf.Tag.Get("agui") {
		case "":
		case ",subject":
			id, _ := sf.Type.FieldByName("SubagentRunID")
			l.fields = append(l.fields, field{name: "subagentRunId", index: append([]int{i}, id.Index...), rule: required})
		default:
			l.fields = append(l.fields, r.field(sf))
		}
	}
	return l
}

func (r *registry) field(sf reflect.StructField) field {
	name, rest, _ := strings.Cut(sf.Tag.Get("agui"), ",")
	f := field{name: name, index: sf.Index}
	for word := range strings.SplitSeq(rest, ",") {
		switch word, value, _ := strings.Cut(word, "="); word {
		case "present":
			f.rule = present
		case "always":
			f.rule = always
		case "required":
			f.rule = required
		case "any":
			f.form = formAny
		case "later":
			f.later = true
		case "piece":
			f.piece = true
		case "object":
			f.form = formObject
		case "array":
			f.form = formArray
		case "oneof":
			f.oneOf = strings.Split(value, "|")
		case "const":
			f.value = value
		}
	}
	t := sf.Type
	if k := t.Kind(); k == reflect.Pointer || k == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct && t != reflect.TypeFor[Content]() {
		f.of = r.layout(t)
	}
	return f
}

// MemberOf reports whether the events of a type have a member of that name, and whether it may be null.
func MemberOf(t Type, name string) (known, nullable bool) {
	switch name {
	case "type", "timestamp", "rawEvent", "metadata":
		return true, false
	}
	kind, ok := tables.events[string(t)]
	if !ok {
		return false, false
	}
	if name == "subagentRunId" {
		_, known = kind.of.FieldByName("SubagentRunID")
		return known, false
	}
	for _, f := range tables.layouts[kind.of].fields {
		if f.name == name && !f.later {
			return true, f.form == formAny
		}
	}
	return false, false
}
