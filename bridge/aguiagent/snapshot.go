package aguiagent

import (
	"aqueduct/agui"
	"aqueduct/bridge"
)

// snapshot is MESSAGES_SNAPSHOT: the conversation as the agent has it. A log keeps what was added and never replaces what
// it has, so the snapshot becomes the events of what it adds. Most agents end a run with one that adds nothing.
//
// What users and operators wrote is kept here already, as they wrote it. A message that stands here under another id, with
// the same role and text, is the same: some agents number a conversation anew in each snapshot.
func (t *Translator) snapshot(dst []bridge.Output, e *agui.MessagesSnapshot) []bridge.Output {
	known := t.renamed(e.Messages)
	for i := range e.Messages {
		m := &e.Messages[i]
		switch m.Role {
		case agui.RoleUser, agui.RoleSystem, agui.RoleDeveloper:
			continue
		}
		for _, ev := range t.added(m, known[m.ID]) {
			t.pending.note(ev)
			t.fold.Apply(ev)
			dst = append(dst, bridge.Output{Event: t.names.event(ev)})
		}
	}
	return dst
}

// spoken is what makes two messages the same.
type spoken struct{ role, text string }

// renamed are the ids of a snapshot that stand for messages which are known, each with the id that is known.
func (t *Translator) renamed(snapshot []agui.Message) map[string]string {
	given := make(map[string]bool, len(snapshot))
	for i := range snapshot {
		given[snapshot[i].ID] = true
	}
	missing := make(map[spoken][]string)
	for _, m := range t.fold.Messages() {
		if text := m.Content.String(); !given[m.ID] && text != "" {
			is := spoken{m.Role, text}
			missing[is] = append(missing[is], m.ID)
		}
	}
	known := make(map[string]string, len(snapshot))
	for i := range snapshot {
		m := &snapshot[i]
		is := spoken{m.Role, m.Content.String()}
		if _, ok := t.fold.Message(m.ID); ok {
			known[m.ID] = m.ID
		} else if same := missing[is]; len(same) > 0 {
			known[m.ID], missing[is] = same[0], same[1:]
		}
	}
	return known
}

// added are the events of what a message of a snapshot adds: the message, unless it is known, and those of its calls that
// are not. The text of a message that is known stays as it was streamed.
func (t *Translator) added(m *agui.Message, known string) (events []agui.Event) {
	switch m.Role {
	case agui.RoleAssistant:
		if text := m.Content.String(); known == "" && text != "" {
			events = append(events,
				&agui.TextMessageStart{MessageID: m.ID, Role: agui.RoleAssistant, Name: m.Name},
				&agui.TextMessageContent{MessageID: m.ID, Delta: text}, &agui.TextMessageEnd{MessageID: m.ID})
		}
		if known == "" {
			known = m.ID
		}
		for _, call := range m.ToolCalls {
			if _, there := t.fold.Call(call.ID); !there {
				events = append(events, callEvents(call, known)...)
			}
		}
	case agui.RoleTool:
		if known == "" && t.pending.waits(m.ToolCallID) {
			events = append(events, &agui.ToolCallResult{MessageID: m.ID, ToolCallID: m.ToolCallID, Content: m.Content, Role: agui.RoleTool})
		}
	case agui.RoleReasoning:
		if known == "" {
			events = reasoningEvents(m)
		}
	case agui.RoleActivity:
		events = append(events, &agui.ActivitySnapshot{MessageID: m.ID, ActivityType: m.ActivityType, Content: m.Activity})
	}
	return events
}

// waits reports whether a call has no result.
func (c *calls) waits(id string) bool {
	if c.given[id] {
		return true
	}
	for _, open := range c.open {
		if open == id {
			return true
		}
	}
	return false
}

func callEvents(call agui.ToolCall, parent string) []agui.Event {
	events := []agui.Event{
		&agui.ToolCallStart{ToolCallID: call.ID, ToolCallName: call.Function.Name, ParentMessageID: parent},
		&agui.ToolCallArgs{ToolCallID: call.ID, Delta: call.Function.Arguments},
		&agui.ToolCallEnd{ToolCallID: call.ID},
	}
	if call.EncryptedValue != "" {
		events = append(events, &agui.ReasoningEncryptedValue{Subtype: "tool-call", EntityID: call.ID, EncryptedValue: call.EncryptedValue})
	}
	return events
}

func reasoningEvents(m *agui.Message) []agui.Event {
	events := []agui.Event{&agui.ReasoningStart{MessageID: m.ID}, &agui.ReasoningMessageStart{MessageID: m.ID}}
	if text := m.Content.String(); text != "" {
		events = append(events, &agui.ReasoningMessageContent{MessageID: m.ID, Delta: text})
	}
	events = append(events, &agui.ReasoningMessageEnd{MessageID: m.ID}, &agui.ReasoningEnd{MessageID: m.ID})
	if m.EncryptedValue != "" {
		events = append(events, &agui.ReasoningEncryptedValue{Subtype: "message", EntityID: m.ID, EncryptedValue: m.EncryptedValue})
	}
	return events
}
