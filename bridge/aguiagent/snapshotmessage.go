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

// added returns the events for the new content of a message of a snapshot: the message, unless it is known. For a message of
// the history it returns the events of unknown calls.
func (d *difference) added(s *stands) []agui.Event {
	m := s.m
	switch m.Role {
	case agui.RoleAssistant:
		if s.of != ofPast {
			return textEvents(m)
		}
		var events []agui.Event
		for _, call := range m.ToolCalls {
			_, known := d.t.past.calls[call.ID]
			if !known && d.t.uses.last(call.ID) == nil && s.parent != "" {
				events = append(events, d.callEvents(call, s.parent)...)
			}
		}
		return events
	case agui.RoleTool:
		if _, known := d.t.call(m.ToolCallID); known && s.of == isNew {
			if one := d.t.uses.waiting(ownID(m.ToolCallID)); one != nil {
				one.answered = true
			}
			return []agui.Event{&agui.ToolCallResult{
				Sub: noted(m.Metadata), MessageID: m.ID, ToolCallID: m.ToolCallID, Content: m.Content, Role: agui.RoleTool,
			}}
		}
	case agui.RoleReasoning:
		if s.of == isNew {
			return reasoningEvents(m)
		}
	case agui.RoleActivity:
		return []agui.Event{&agui.ActivitySnapshot{
			Sub: noted(m.Metadata), MessageID: m.ID, ActivityType: m.ActivityType, Content: m.Activity,
		}}
	}
	return nil
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

// callEvents returns the events of a call that was not streamed.
func (d *difference) callEvents(call agui.ToolCall, parent string) []agui.Event {
	d.t.uses.begin(ownID(call.ID), call.Function.Name).open = false
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

// changed shows how a message of this run differs in the snapshot. Missing calls and more text at the end are shown by
// events. Another text, other calls, metadata, the error of a tool, and another id of the agent's have no event in AG-UI, so
// they amend the message. Content that a snapshot omits stays.
func (d *difference) changed(s *stands) {
	if s.m.Role == agui.RoleActivity {
		return
	}
	d.missing(s)
	have, ok := d.t.shown.Message(s.id)
	if !ok && (s.m.Role != agui.RoleAssistant || len(s.m.ToolCalls) == 0) {
		return
	}
	a := agui.Amendment{MessageID: s.id}
	if !ok {
		a.Role = agui.RoleAssistant // its calls were streamed under another message
	}
	if rest, grew := more(s.m, &have); grew {
		d.goOn(s.m, rest)
	} else if rewrites(s.m, &have) {
		a.Content = s.m.Content.AppendJSON(nil)
	}
	if s.m.Role == agui.RoleTool && s.m.Error != have.Error {
		a.Error = s.m.Error
	}
	a.ToolCalls = d.otherCalls(s.m, &have)
	a.Metadata = newer(s.m.Metadata, have.Metadata)
	if ids := d.t.names.ownMessage(s.m.ID); ids != ownOf(&have) {
		a.Metadata = annotate(a.Metadata, ids)
	}
	if a.Changes() {
		d.amend(a)
	}
	d.sealed(s.m, s.id, &have)
}

// ownOf returns the agent's own ids of a message that was shown.
func ownOf(m *agui.Message) own {
	ids, _, _ := restore(m.Metadata)
	if ids.MessageID == "" && len(m.ToolCalls) > 0 {
		ids, _, _ = restore(m.ToolCalls[0].Metadata)
		ids.ToolCallID = ""
	}
	ids.Forgotten = false
	return ids
}

// missing shows the calls of a message that were not streamed.
func (d *difference) missing(s *stands) {
	for _, call := range s.m.ToolCalls {
		if _, shown := d.t.shown.Call(d.t.names.call(call.ID)); !shown || !d.t.pending.mine[call.ID] {
			d.show(d.callEvents(call, s.m.ID)...)
		}
	}
}

// otherCalls returns the calls of a message as the snapshot has them, or nil if they were shown like that. A different
// spelling with the same meaning is no change, nor is a call that is still streamed.
func (d *difference) otherCalls(m, have *agui.Message) *[]agui.ToolCall {
	if len(m.ToolCalls) == 0 {
		return nil
	}
	other := len(m.ToolCalls) != len(have.ToolCalls)
	calls := make([]agui.ToolCall, len(m.ToolCalls))
	for i, call := range m.ToolCalls {
		is, _ := d.t.shown.Call(d.t.names.call(call.ID))
		name, args := shownTool(d.t.names.functions.Own(call.Function.Name)), call.Function.Arguments
		if !d.t.grammar.Open(&agui.ToolCallArgs{ToolCallID: call.ID}) && (is.Function.Name != name || !jsonequal.Texts([]byte(is.Function.Arguments), []byte(args))) {
			is.Function, other = agui.FunctionCall{Name: name, Arguments: args}, true
		}
		other = other || have.ToolCalls[i].ID != is.ID
		calls[i] = is
	}
	if !other {
		return nil
	}
	for _, gone := range have.ToolCalls {
		if !slices.ContainsFunc(calls, func(c agui.ToolCall) bool { return c.ID == gone.ID }) {
			ids, _, _ := restore(gone.Metadata)
			d.t.pending.drop(ids.ToolCallID)
		}
	}
	return &calls
}

// more is the text by which a snapshot has more of an assistant's message than was shown.
func more(m, have *agui.Message) (rest string, ok bool) {
	if m.Role != agui.RoleAssistant || !rewrites(m, have) {
		return "", false
	}
	return strings.CutPrefix(m.Content.String(), have.Content.String())
}

// LeftOut replaces bytes in an event that its reader left out because the agent only repeats its input.
const LeftOut = "[left out]"

// rewrites reports whether the content of a message differs from the shown content.
func rewrites(m, have *agui.Message) bool {
	if m.Content.Absent || have.Content.Absent && m.Content.Parts == nil && m.Content.Text == "" || strings.Contains(m.Content.String(), LeftOut) {
		return false
	}
	return string(m.Content.AppendJSON(nil)) != string(have.Content.AppendJSON(nil))
}

// goOn shows more text of a message, which is open or is opened again.
func (d *difference) goOn(m *agui.Message, rest string) {
	content := &agui.TextMessageContent{Sub: noted(m.Metadata), MessageID: m.ID, Delta: rest}
	events := []agui.Event{&agui.TextMessageStart{MessageID: m.ID, Role: agui.RoleAssistant, Name: m.Name}, content, &agui.TextMessageEnd{MessageID: m.ID}}
	admitted, err := d.t.grammar.Admit(nil, events[0])
	if err != nil { // it is open
		admitted, events = []agui.Event{content}, nil
	}
	for _, ev := range events[min(1, len(events)):] {
		admitted, _ = d.t.grammar.Admit(admitted, ev) // what was opened goes on and ends
	}
	d.show(admitted...)
}

// sealed shows the encrypted values that a snapshot has of a message and of its calls and that were not shown.
func (d *difference) sealed(m *agui.Message, id string, have *agui.Message) {
	if m.EncryptedValue != "" && m.EncryptedValue != have.EncryptedValue {
		e := &agui.ReasoningEncryptedValue{Subtype: "message", EntityID: id, EncryptedValue: m.EncryptedValue, EncryptedValueType: m.EncryptedValueType}
		d.t.keepType(e)
		d.t.shown.Apply(e)
		d.out = append(d.out, bridge.Output{Event: e})
	}
	for _, call := range m.ToolCalls {
		ours, ok := d.t.shown.Call(d.t.names.call(call.ID))
		if ok && call.EncryptedValue != "" && call.EncryptedValue != ours.EncryptedValue {
			d.show(&agui.ReasoningEncryptedValue{
				Subtype: "tool-call", EntityID: call.ID, EncryptedValue: call.EncryptedValue, EncryptedValueType: call.EncryptedValueType,
			})
		}
	}
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
