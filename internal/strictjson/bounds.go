// This file bounds how many values a document may have. A value of two bytes, such as {}, becomes a struct of hundreds once it
// is decoded, so a limit of the bytes alone lets a body of 4 MiB take a hundred times as much.

package strictjson

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
)

const (
	// MostValues bounds the values of one document: a history of 20 000 messages with calls of tools fits.
	MostValues = 200_000
	// MostFrameValues bounds those of one event of an agent, and of one frame of a proxy: of a connection one is decoded at a time.
	MostFrameValues = 500_000
	// MostMessageValues bounds those of one message of a socket or of MCP: it has 1 MiB at most, and no budget weighs it.
	MostMessageValues = 20_000
	// MostElements bounds an array, and a map, of a body whose type names no other bound.
	MostElements = 1000
	// ValueBytes is about what one value takes when it is decoded: the part of a struct, a slice or a map that is its own, and the
	// garbage of a slice that grew.
	ValueBytes = 128
)

// Bounds says how many elements the arrays of a type may have. Nil bounds nothing: its JSON is kept as it is.
type Bounds struct {
	Most    int                // of an array, or of the members of a map; 0 is no array
	Members map[string]*Bounds // of a struct, by the names on the wire
	Each    *Bounds            // an element
}

// Bounded is a type that reads its JSON itself and says what it bounds.
type Bounded interface{ JSONBounds() *Bounds }

var boundsOf sync.Map // of reflect.Type to *Bounds

// BoundsOf returns the bounds of a type. An array has the bound of its field's rule: max=100 in the tag validate, or most=100
// in the tag agui. One without has MostElements, so that none is unbounded.
func BoundsOf(t reflect.Type) *Bounds {
	if b, ok := boundsOf.Load(t); ok {
		return b.(*Bounds)
	}
	b := bounds(t, 0, make(map[reflect.Type]*Bounds))
	boundsOf.Store(t, b)
	return b
}

// bounds is BoundsOf for a field with a rule; most is 0 without one. seen has the structs that contain themselves.
func bounds(t reflect.Type, most int, seen map[reflect.Type]*Bounds) *Bounds {
	if most == 0 {
		most = MostElements
	}
	own := reflect.New(t)
	if of, ok := own.Interface().(Bounded); ok {
		return of.JSONBounds()
	}
	if t.Kind() == reflect.Struct && seen[t] != nil {
		return seen[t]
	}
	known := make(map[string]boundedField)
	if t.Kind() == reflect.Struct {
		fieldsOf(t, known)
	}
	tagged := false
	for _, f := range known {
		tagged = tagged || f.agui
	}
	if _, ok := own.Interface().(interface{ UnmarshalJSON([]byte) error }); ok && !tagged {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return bounds(t.Elem(), most, seen)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil // a text in base64
		}
		return &Bounds{Most: most, Each: bounds(t.Elem(), 0, seen)}
	case reflect.Map:
		return &Bounds{Most: most, Each: bounds(t.Elem(), 0, seen)}
	case reflect.Struct:
		b := &Bounds{Members: make(map[string]*Bounds)}
		seen[t] = b
		for name, f := range known {
			if of := bounds(f.of, f.most, seen); of != nil {
				b.Members[name] = of
			}
		}
		return b
	default:
		return nil
	}
}

type boundedField struct {
	of   reflect.Type
	most int
	agui bool // its name is in the tag agui
}

// fieldsOf lists the fields of a struct, and of those that are embedded in it, by their names on the wire.
func fieldsOf(t reflect.Type, into map[string]boundedField) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, agui := f.Tag.Lookup("agui")
		if !agui {
			tag = f.Tag.Get("json")
		}
		name, _, _ := strings.Cut(tag, ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			fieldsOf(inner, into)
		case name == "-" || !f.IsExported():
		case name == "":
			into[f.Name] = boundedField{of: f.Type, most: mostOf(f)}
		default:
			into[name] = boundedField{f.Type, mostOf(f), agui}
		}
	}
}

// mostOf is the bound in a field's rules: that of the array itself, not of its elements.
func mostOf(f reflect.StructField) (most int) {
	own, _, _ := strings.Cut(f.Tag.Get("validate"), ",dive")
	for rule := range strings.SplitSeq(own+","+f.Tag.Get("agui"), ",") {
		for _, name := range []string{"max=", "most="} {
			if text, ok := strings.CutPrefix(rule, name); ok {
				most, _ = strconv.Atoi(text) // a rule that is no number is found by the first body that is checked
			}
		}
	}
	return most
}

// Member returns the bounds of a member, by its name whatever its case, as encoding/json finds it.
func (b *Bounds) Member(name []byte) *Bounds {
	switch {
	case b == nil:
		return nil
	case b.Members == nil:
		return b.Each
	}
	if of, ok := b.Members[string(name)]; ok {
		return of
	}
	for known, of := range b.Members {
		if strings.EqualFold(known, string(name)) {
			return of
		}
	}
	return nil
}

// Elements returns the bounds of an element of the array.
func (b *Bounds) Elements() *Bounds {
	if b == nil {
		return nil
	}
	return b.Each
}

// Allow reports whether an array or a map may have n elements.
func (b *Bounds) Allow(n int) bool { return b == nil || b.Most == 0 || n <= b.Most }

// TooMany reports whether raw has more values than most.
func TooMany(raw []byte, most int) bool {
	var c Counter
	return len(raw) > most && c.Add(raw) > most // a value has a byte, at least
}

// Counter counts the values of JSON that comes in pieces, by what separates them. It needs no memory and no valid JSON.
type Counter struct {
	n               int
	quoted, escaped bool
}

// Add counts a piece, and returns how many values there were so far, at most.
func (c *Counter) Add(piece []byte) int {
	for _, b := range piece {
		switch {
		case c.escaped:
			c.escaped = false
		case c.quoted:
			c.escaped, c.quoted = b == '\\', b != '"'
		case b == '"':
			c.quoted = true
		case b == ',' || b == '[' || b == '{':
			c.n++
		}
	}
	return c.n
}
