package agui

import "encoding/json"

// Raw passes on an event of another system.
type Raw struct {
	Sub
	Event  json.RawMessage // any JSON
	Source string
}

// Custom is an event whose meaning an application agreed on.
type Custom struct {
	Sub
	Name  string
	Value json.RawMessage // any JSON; absent is null
}

// EventType is RAW.
func (*Raw) EventType() Type { return TypeRaw }

// EventType is CUSTOM.
func (*Custom) EventType() Type { return TypeCustom }

// AppendJSON implements [Event].
func (e *Raw) AppendJSON(dst []byte) []byte {
	dst = appendRawMember(open(dst, e.EventType()), "event", e.Event)
	dst = appendOptional(dst, "source", e.Source)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *Custom) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "name", e.Name)
	dst = appendRawMember(dst, "value", e.Value)
	return e.appendTail(dst)
}

func (e *Raw) member(key, raw []byte) error {
	switch string(key) {
	case "event":
		return decodeAny(&e.Event, raw)
	case "source":
		return decodeString(&e.Source, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *Custom) member(key, raw []byte) error {
	switch string(key) {
	case "name":
		return decodeString(&e.Name, raw)
	case "value":
		return decodeAny(&e.Value, raw)
	}
	return e.Sub.member(key, raw)
}
