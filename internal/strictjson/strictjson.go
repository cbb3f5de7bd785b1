// Package strictjson decodes JSON whose members decide something. The standard library matches names whatever their case,
// and of two that differ in case alone the last one wins: a filter before us that reads {"approved":false} would see
// another decision than we do in {"approved":false,"Approved":true}.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// NameError is a member that stands twice, or is spelled in another case than one that is known.
type NameError struct {
	Name  string // as it is written
	Known string // as it must be written
	Twice bool
}

// Error implements error.
func (e *NameError) Error() string {
	if e.Twice {
		return fmt.Sprintf("the member %q stands twice", e.Known)
	}
	return fmt.Sprintf("the member %q is spelled %q", e.Known, e.Name)
}

// Unmarshal is json.Unmarshal for names in their exact case. Unknown members are ignored, as there. Members that v takes
// as they are, a json.RawMessage or an any, are not looked into.
//
// An error is json.Unmarshal's own, or a *NameError. Then v may hold values, and must not be used.
func Unmarshal(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return err
	}
	return check(raw, reflect.TypeOf(v))
}

// Unknown returns the first member of the object raw that the struct *v does not have, and the sorted members that it has.
// The name is "" if all are known. raw must have been decoded into v before.
func Unknown(raw []byte, v any) (name string, known []string) {
	members := make(map[string]reflect.Type)
	membersOf(reflect.TypeOf(v).Elem(), members)
	found := errors.New("unknown member")
	_ = each(raw, func(member string, _ []byte, _ map[string]bool) error {
		if _, ok := members[member]; ok {
			return nil
		}
		name = member
		return found
	})
	return name, slices.Sorted(maps.Keys(members))
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// check compares the names in raw with those of a type. raw has been decoded into that type before, so it is JSON and
// of a form that fits. Null and scalars have no names, interfaces take them as they are. Arrays of fixed length are not
// looked into.
func check(raw []byte, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
		return nil // it reads its members itself
	}
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
	case raw[0] == '{' && t.Kind() == reflect.Struct:
		known := make(map[string]reflect.Type)
		membersOf(t, known)
		return each(raw, func(name string, value []byte, seen map[string]bool) error {
			// An unknown name may stand any number of times. It must only not be a known one in another case: the
			// library folds as EqualFold does.
			field, exact := known[name]
			if !exact {
				for k := range known {
					if strings.EqualFold(k, name) {
						return &NameError{Name: name, Known: k}
					}
				}
				return nil
			}
			if seen[name] {
				return &NameError{Name: name, Known: name, Twice: true}
			}
			seen[name] = true
			return check(value, field)
		})
	case raw[0] == '{' && t.Kind() == reflect.Map:
		return each(raw, func(name string, value []byte, seen map[string]bool) error {
			if seen[name] {
				return &NameError{Name: name, Known: name, Twice: true}
			}
			seen[name] = true
			return check(value, t.Elem())
		})
	// A []byte is left out: in JSON it is a string in base64.
	case raw[0] == '[' && t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return err
		}
		for _, item := range items {
			if err := check(item, t.Elem()); err != nil {
				return err
			}
		}
	}
	return nil
}

// membersOf lists the members of a struct, those of embedded ones too.
// Where an embedded struct has a name too, the later of the two fields counts here, while encoding/json takes the
// outer one. It matters only to what stands within the member.
func membersOf(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "":
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				membersOf(inner, into)
			}
		case name == "":
			into[f.Name] = f.Type
		default:
			into[name] = f.Type
		}
	}
}

// each calls do for every member of an object.
// seen is the caller's to fill: which names may stand only once is not for each to know.
func each(raw []byte, do func(name string, value []byte, seen map[string]bool) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := do(name.(string), value, seen); err != nil {
			return err
		}
	}
	return nil
}

// IsSet reports whether a member is given; null counts as absent.
func IsSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
