// This file writes and reads structs by their tables (layout.go). It is for the events and objects
// that are seldom sent: reflection makes it about three times as slow as code by hand, which for the
// start or the end of a message is less than a microsecond.

package agui

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// layoutOf is the table of what p points to.
func layoutOf(p any) *layout { return tables.layouts[reflect.TypeOf(p).Elem()] }

// sharing is what all events are, by embedding Base or Sub.
type sharing interface {
	Event
	membered
	shared() *Base
	appendTail(dst []byte) []byte
}

// appendEvent appends an event as one line of JSON.
func appendEvent(dst []byte, ev sharing) []byte {
	dst = layoutOf(ev).append(open(dst, ev.EventType()), reflect.ValueOf(ev).Elem())
	return ev.appendTail(dst)
}

// appendObject appends the struct that p points to. p must point to a struct that has a table; any
// other is a mistake in this package and panics in its first test.
func appendObject(dst []byte, p any) []byte {
	return append(layoutOf(p).append(append(dst, '{'), reflect.ValueOf(p).Elem()), '}')
}

// append appends the members of v.
func (l *layout) append(dst []byte, v reflect.Value) []byte {
	for i := range l.fields {
		dst = l.fields[i].append(dst, v)
	}
	return dst
}

// append writes the member, or nothing when it is empty and its rule allows that.
func (f *field) append(dst []byte, v reflect.Value) []byte {
	if f.value != "" {
		return appendMember(dst, f.name, f.value)
	}
	if f.later {
		return dst
	}
	val := v.FieldByIndex(f.index)
	if f.rule < always && (val.IsZero() || f.rule == optional && val.Kind() == reflect.Slice && val.Len() == 0) {
		return dst
	}
	dst = appendKey(dst, f.name)
	switch p := val.Addr().Interface().(type) {
	case *string:
		return AppendString(dst, *p)
	case **int64:
		return appendInt(dst, **p)
	case **bool:
		return strconv.AppendBool(dst, **p)
	case *json.RawMessage:
		return f.appendRaw(dst, *p)
	case *[]Message:
		return appendMessages(dst, *p)
	case *Content:
		return p.AppendJSON(dst)
	}
	return f.appendValue(dst, val)
}

// appendRaw writes JSON that the protocol does not look into. Where it is absent, the empty value of its form stands.
func (f *field) appendRaw(dst []byte, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		switch f.form {
		case formObject:
			return append(dst, '{', '}')
		case formArray:
			return append(dst, '[', ']')
		case formValue, formAny:
		}
	}
	return appendRaw(dst, raw)
}

// appendValue writes objects, and lists of objects or strings.
func (f *field) appendValue(dst []byte, val reflect.Value) []byte {
	switch val.Kind() {
	case reflect.Pointer:
		return append(f.of.append(append(dst, '{'), val.Elem()), '}')
	case reflect.Slice:
		dst = append(dst, '[')
		for i := range val.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if f.of == nil {
				dst = AppendString(dst, val.Index(i).String())
			} else {
				dst = append(f.of.append(append(dst, '{'), val.Index(i)), '}')
			}
		}
		return append(dst, ']')
	default:
		return append(f.of.append(append(dst, '{'), val), '}')
	}
}

// readObject reads a JSON object into the struct that p points to.
func readObject(raw []byte, p any) error {
	return layoutOf(p).read(raw, reflect.ValueOf(p).Elem(), true)
}

// read reads a JSON object into v. Members that the table does not have go to the struct's own member, if it has one. strict
// refuses an object without a required member.
func (l *layout) read(raw []byte, v reflect.Value, strict bool) error {
	next := 0 // peers write members in much the same order
	err := EachMember(raw, func(key, val []byte) error {
		for n := range l.fields {
			i := (next + n) % len(l.fields)
			if f := &l.fields[i]; f.name == string(key) {
				next = i + 1
				return f.read(val, v)
			}
		}
		if m, ok := v.Addr().Interface().(membered); ok {
			return m.member(key, val)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if strict {
		for i := range l.fields {
			if f := &l.fields[i]; f.rule == required && v.FieldByIndex(f.index).Len() == 0 {
				return within(f.name, wrong("is required"))
			}
		}
	}
	if l.completes {
		return v.Addr().Interface().(completed).complete()
	}
	return nil
}

// read decodes a value into the member's Go field, by the field's type. Null is absent, except for
// any.
func (f *field) read(raw []byte, v reflect.Value) error {
	if f.value != "" {
		var s string
		return decodeOneOf(&s, raw, f.value)
	}
	val := v.FieldByIndex(f.index)
	switch p := val.Addr().Interface().(type) {
	case *string:
		if f.oneOf != nil {
			return decodeOneOf(p, raw, f.oneOf...)
		}
		if f.piece {
			return decodePiece(p, raw)
		}
		return decodeString(p, raw)
	case **int64:
		return decodeCount(p, raw)
	case **bool:
		return decodeBool(p, raw)
	case *[]string:
		return decodeStrings(p, raw)
	case *json.RawMessage:
		return decodeJSON(p, raw, f.form)
	case *Content:
		return p.decode(raw)
	}
	if isNull(raw) {
		return nil
	}
	return f.readValue(raw, val)
}

// readValue reads an object, or a list of objects.
func (f *field) readValue(raw []byte, val reflect.Value) error {
	switch val.Kind() {
	case reflect.Pointer:
		val.Set(reflect.New(val.Type().Elem()))
		return f.of.read(raw, val.Elem(), true)
	case reflect.Slice:
		val.Set(reflect.MakeSlice(val.Type(), 0, 0))
		return EachElement(raw, func(element []byte) error {
			n := val.Len()
			val.Grow(1)
			val.SetLen(n + 1)
			return f.of.read(element, val.Index(n), true)
		})
	default:
		return f.of.read(raw, val, true)
	}
}
