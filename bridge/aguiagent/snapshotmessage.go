// This file is what one message of a snapshot becomes: the events of what is new, and amendments of what has changed.
// Where an event exists for a change, the event is taken, since every client knows events.

package aguiagent

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/internal/jsonequal"
)

// added are the events of what a message of a snapshot adds: the message, unless it is known, and those of its calls that
// are not.
func (t *Translator) added(m *agui.Message, known string) (events []agui.Event) {
	switch m.Role {
	case agui.RoleAssistant:
		if known == "" {
			events = textEvents(m)
		}
		parent := known
		if parent == "" {
			parent = m.ID
		}
		for _, call := range m.ToolCalls {
			if _, there := t.fold.Call(call.ID); !there {
				events = append(events, callEvents(call, parent)...)
			}
		}
	case agui.RoleTool:
		if known == "" && t.pending.waits(m.ToolCallID) {
			events = append(events, &agui.ToolCallResult{
				Sub: noted(m.Metadata), MessageID: m.ID, ToolCallID: m.ToolCallID, Content: m.Content, Role: agui.RoleTool,
			})
		}
	case agui.RoleReasoning:
		if known == "" {
			events = reasoningEvents(m)
		}
	case agui.RoleActivity:
		events = append(events, &agui.ActivitySnapshot{
			Sub: noted(m.Metadata), MessageID: m.ID, ActivityType: m.ActivityType, Content: m.Activity,
		})
	}
	return events
}

// waits reports whether a call has no result.
func (c *calls) waits(id string) bool { return c.given[id] || slices.Contains(c.open, id) }

// noted is the part of an event that has metadata.
func noted(metadata json.RawMessage) agui.Sub { return agui.Sub{Base: agui.Base{Metadata: metadata}} }

// textEvents are those of an assistant's message. One without text begins with its calls, unless there is something to note
// of itself.
func textEvents(m *agui.Message) []agui.Event {
	text := m.Content.String()
	if text == "" && m.Metadata == nil && (m.EncryptedValue == "" || len(m.ToolCalls) > 0) {
		return nil
	}
	events := []agui.Event{&agui.TextMessageStart{Sub: noted(m.Metadata), MessageID: m.ID, Role: agui.RoleAssistant, Name: m.Name}}
	if text != "" {
		events = append(events, &agui.TextMessageContent{MessageID: m.ID, Delta: text})
	}
	return append(events, &agui.TextMessageEnd{MessageID: m.ID})
}

func callEvents(call agui.ToolCall, parent string) []agui.Event {
	events := []agui.Event{
		&agui.ToolCallStart{
			Sub: noted(withUnknown(call.Metadata, call.Unknown)), ToolCallID: call.ID, ToolCallName: call.Function.Name, ParentMessageID: parent,
		},
		&agui.ToolCallArgs{ToolCallID: call.ID, Delta: call.Function.Arguments},
		&agui.ToolCallEnd{ToolCallID: call.ID},
	}
	if call.EncryptedValue != "" {
		events = append(events, &agui.ReasoningEncryptedValue{
			Subtype: "tool-call", EntityID: call.ID, EncryptedValue: call.EncryptedValue, EncryptedValueType: call.EncryptedValueType,
		})
	}
	return events
}

func reasoningEvents(m *agui.Message) []agui.Event {
	events := []agui.Event{&agui.ReasoningStart{MessageID: m.ID}, &agui.ReasoningMessageStart{Sub: noted(m.Metadata), MessageID: m.ID}}
	if text := m.Content.String(); text != "" {
		events = append(events, &agui.ReasoningMessageContent{MessageID: m.ID, Delta: text})
	}
	return append(events, &agui.ReasoningMessageEnd{MessageID: m.ID}, &agui.ReasoningEnd{MessageID: m.ID})
}

// changed is what a snapshot has of a message that this run has shown beyond what was shown: more text goes on behind what
// there is; another text, metadata and the error of a tool, for which AG-UI has no event, amend the message. Messages of
// earlier runs stay as they were. What a snapshot leaves out of a message stays, too.
func (t *Translator) changed(dst []bridge.Output, m *agui.Message, known string) []bridge.Output {
	id := t.idOf(m, known)
	have, ok := t.shown.Message(id)
	if !ok {
		return dst
	}
	if rest, more := t.more(m, &have); more {
		return t.sealed(t.goOn(dst, m, rest), m, id, &have)
	}
	a := agui.Amendment{MessageID: id}
	if t.rewrites(m, &have) {
		a.Content = m.Content.AppendJSON(nil)
	}
	if m.Role == agui.RoleTool && m.Error != have.Error {
		a.Error = m.Error
	}
	a.Metadata = newer(m.Metadata, have.Metadata)
	if a.Content != nil || a.Error != "" || a.Metadata != nil {
		t.shown.Amend(a)
		dst = append(dst, bridge.Output{Amended: &a})
	}
	return t.sealed(dst, m, id, &have)
}

// idOf is the id under which this run has shown a message of a snapshot.
func (t *Translator) idOf(m *agui.Message, known string) string {
	if known == "" {
		known = m.ID
	}
	switch m.Role {
	case agui.RoleAssistant:
		return t.names.message(known)
	case agui.RoleReasoning:
		return t.names.reasoning(known)
	case agui.RoleTool:
		return t.names.result(&agui.ToolCallResult{ToolCallID: m.ToolCallID, MessageID: known})
	}
	return ""
}

// more is the text by which a snapshot has more of an assistant's message than was shown.
func (t *Translator) more(m, have *agui.Message) (rest string, ok bool) {
	if m.Role != agui.RoleAssistant || !t.rewrites(m, have) {
		return "", false
	}
	return strings.CutPrefix(m.Content.String(), have.Content.String())
}

// LeftOut stands in an event for bytes that its reader left out, because they are what the agent was sent.
const LeftOut = "[left out]"

// rewrites reports whether a message has another content than was shown. Some agents use the ids of an earlier run again: what
// stands there of the earlier message is no change of this one.
func (t *Translator) rewrites(m, have *agui.Message) bool {
	if m.Content.Absent || strings.Contains(m.Content.String(), LeftOut) || string(m.Content.AppendJSON(nil)) == string(have.Content.AppendJSON(nil)) {
		return false
	}
	before, used := t.given[m.ID]
	return !used || before != m.Content.String()
}

// goOn shows more text of a message, which is open or is opened again.
func (t *Translator) goOn(dst []bridge.Output, m *agui.Message, rest string) []bridge.Output {
	content := &agui.TextMessageContent{Sub: noted(m.Metadata), MessageID: m.ID, Delta: rest}
	events := []agui.Event{&agui.TextMessageStart{MessageID: m.ID, Role: agui.RoleAssistant, Name: m.Name}, content, &agui.TextMessageEnd{MessageID: m.ID}}
	admitted, err := t.grammar.Admit(nil, events[0])
	if err != nil { // it is open
		admitted, events = []agui.Event{content}, nil
	}
	for _, ev := range events[min(1, len(events)):] {
		admitted, _ = t.grammar.Admit(admitted, ev) // what was opened goes on and ends
	}
	for _, ev := range admitted {
		dst = t.show(dst, ev)
	}
	return dst
}

// sealed shows the encrypted values that a snapshot has of a message and of its calls and that were not shown.
func (t *Translator) sealed(dst []bridge.Output, m *agui.Message, id string, have *agui.Message) []bridge.Output {
	if m.EncryptedValue != "" && m.EncryptedValue != have.EncryptedValue {
		e := &agui.ReasoningEncryptedValue{Subtype: "message", EntityID: id, EncryptedValue: m.EncryptedValue, EncryptedValueType: m.EncryptedValueType}
		t.keepType(e)
		t.shown.Apply(e)
		dst = append(dst, bridge.Output{Event: e})
	}
	for _, call := range m.ToolCalls {
		ours, ok := t.shown.Call(t.names.call(call.ID))
		if ok && call.EncryptedValue != "" && call.EncryptedValue != ours.EncryptedValue {
			dst = t.show(dst, &agui.ReasoningEncryptedValue{
				Subtype: "tool-call", EntityID: call.ID, EncryptedValue: call.EncryptedValue, EncryptedValueType: call.EncryptedValueType,
			})
		}
	}
	return dst
}

// newer are the members of metadata that are not there yet, or have another value; nil for none.
func newer(metadata, have json.RawMessage) json.RawMessage {
	var members, old map[string]json.RawMessage
	if json.Unmarshal(metadata, &members) != nil {
		return nil
	}
	_ = json.Unmarshal(have, &old) // nothing is an object without members
	maps.DeleteFunc(members, func(key string, value json.RawMessage) bool {
		return key == ownKey || old[key] != nil && jsonequal.Texts(old[key], value)
	})
	if len(members) == 0 {
		return nil
	}
	out, _ := json.Marshal(members) // members that were decoded encode
	return out
}
