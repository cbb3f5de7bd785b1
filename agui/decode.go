// This file reads one event of an upstream. Unlike CheckJSON it is tolerant: an agent that is
// slightly wrong is still worth showing, whereas a client's request that is slightly wrong would be
// executed on a guess.

package agui

import (
	"encoding/json"
	"fmt"
	"reflect"

	"aqueduct/internal/strictjson"
)

// Decode reads an upstream's event, tolerantly: null is absent, unknown members are set apart ([Base]),
// fractions of timestamps are rounded, and the retired THINKING_* events become REASONING_* (without
// ids, which [Grammar.Admit] supplies). What is left malformed is an [*InputError]; an unknown type
// is an [*UnknownTypeError]. Required members are checked last and by name, because an event without
// them would fail much later, in a client, with a message about something else. An error never
// quotes values: agents put secrets in them.
func Decode(event []byte) (Event, error) {
	if strictjson.TooMany(event, strictjson.MostFrameValues) {
		return nil, wrong(fmt.Sprintf("more than %d values", strictjson.MostFrameValues))
	}
	if !json.Valid(event) {
		return nil, wrong("not valid JSON")
	}
	name, err := typeName(event)
	if err != nil {
		return nil, err
	}
	t, legacy := translated(name)
	ev := blank(t)
	if ev == nil {
		return nil, &UnknownTypeError{Type: string(name)}
	}
	if d, ok := ev.(delta); ok {
		err = walk(event, d)
		if absent := d.missing(); err == nil && absent != "" && !legacy {
			err = within(absent, wrong("is required"))
		}
	} else {
		err = layoutOf(ev).read(event, reflect.ValueOf(ev).Elem(), !legacy)
	}
	if err != nil {
		return nil, err
	}
	return ev, nil
}

// TypeIn returns the type of an upstream's event, known or not, for error messages. It returns "" for a type that cannot be
// read or is longer than any type of AG-UI.
func TypeIn(event []byte) Type {
	const longest = 64
	if !json.Valid(event) {
		return ""
	}
	if name, err := typeName(event); err == nil && len(name) <= longest {
		return name
	}
	return ""
}

// typeName finds "type" wherever it stands.
func typeName(event []byte) (Type, error) {
	if t := TypeOf(event); t != "" {
		return t, nil
	}
	name, err := typeMember(event)
	return Type(name), err
}

// typeMember is the member "type" of an object.
func typeMember(raw []byte) (name string, err error) {
	err = EachMember(raw, func(key, val []byte) error {
		if string(key) == "type" {
			return decodeString(&name, val)
		}
		return nil
	})
	if err == nil && name == "" {
		err = within("type", wrong("is required"))
	}
	return name, err
}

// translated gives a retired type its successor (AG-UI 1.0, "Deprecations"). Agents from before 1.0
// send the retired events without ids, so legacy turns the check of required members off;
// Grammar.Admit supplies the ids.
func translated(t Type) (successor Type, legacy bool) {
	switch t {
	case "THINKING_START":
		return TypeReasoningStart, true
	case "THINKING_END":
		return TypeReasoningEnd, true
	case "THINKING_TEXT_MESSAGE_START":
		return TypeReasoningMessageStart, true
	case "THINKING_TEXT_MESSAGE_CONTENT":
		return TypeReasoningMessageContent, true
	case "THINKING_TEXT_MESSAGE_END":
		return TypeReasoningMessageEnd, true
	}
	return t, false
}

// lacks takes names and values in turn and returns the first name whose value
// is empty.
func lacks(pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return pairs[i]
		}
	}
	return ""
}
