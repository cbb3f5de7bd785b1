// This file has the two events whose content the protocol does not define.

package agui

import "encoding/json"

// Raw passes on an event of another system.
type Raw struct {
	Sub
	Event  json.RawMessage `agui:"event,always,any"`
	Source string          `agui:"source"`
}

// Custom is an event whose meaning an application agreed on.
type Custom struct {
	Sub
	Name  string          `agui:"name,required"`
	Value json.RawMessage `agui:"value,always,any"` // absent is null
}

// EventType is RAW.
func (*Raw) EventType() Type { return TypeRaw }

// AppendJSON implements [Event].
func (e *Raw) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is CUSTOM.
func (*Custom) EventType() Type { return TypeCustom }

// AppendJSON implements [Event].
func (e *Custom) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }
