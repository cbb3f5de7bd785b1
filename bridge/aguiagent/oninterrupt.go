// This file takes CUSTOM on_interrupt, by which the adapters of LangGraph, CrewAI, Agno and others ask as they ship: the run then
// ends without an outcome, and the client answers by forwardedProps.command.resume.

package aguiagent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

// customNames are the names of the event: that of all adapters, and that of CopilotKit's SDK.
var customNames = []string{"on_interrupt", "on_copilotkit_interrupt"}

// customInterrupt is an interrupt of a CUSTOM event.
type customInterrupt struct {
	agui.Interrupt
	value json.RawMessage // of the event; the element of the interrupt where it lists several
}

// note takes in an event that may ask something, and marks it with the ids that its Questions have if the run ends without an
// outcome. Adapters send it once for each interrupt.
func (s *interrupts) note(ev agui.Event) {
	e, ok := ev.(*agui.Custom)
	if !ok || !slices.Contains(customNames, e.Name) {
		return
	}
	all := listed(approval.Unwrapped(e.Value))
	ids := make([]string, 0, len(all))
	for _, one := range all {
		i := interruptIn(one)
		if len(all) == 1 {
			i.ID = cmp.Or(text(memberOf(e.RawEvent, "id")), i.ID)
		}
		i.ID = cmp.Or(i.ID, i.ToolCallID, fmt.Sprintf("on_interrupt-%d", len(s.custom)+1))
		if slices.ContainsFunc(s.custom, func(known customInterrupt) bool { return known.ID == i.ID }) {
			continue // sent again
		}
		if len(all) == 1 {
			if one = e.Value; len(one) == 0 {
				one = json.RawMessage("null")
			}
			i.Message = cmp.Or(i.Message, text(one))
		}
		s.custom = append(s.custom, customInterrupt{i, one})
		ids = append(ids, s.names.question(i.ID))
	}
	e.Metadata = annotate(e.Metadata, map[string][]string{"questionIds": ids})
}

// listed are the interrupts that a value holds: its elements if each of them looks like one, else the value itself. A list that one
// interrupt asks with (LangChain's HumanInterrupt, choices) is one value.
func listed(value json.RawMessage) []json.RawMessage {
	var elements []json.RawMessage
	if json.Unmarshal(value, &elements) != nil || len(elements) == 0 || slices.ContainsFunc(elements, func(one json.RawMessage) bool {
		for _, key := range []string{"value", "interruptId", "interrupt_id", "question", "message", "reason"} {
			if memberOf(one, key) != nil {
				return false
			}
		}
		return true
	}) {
		return []json.RawMessage{value}
	}
	return elements
}

// interruptIn reads a value as the interrupt that it asks: the members of AG-UI's, in both spellings, within LangGraph's {id, value}
// too. A text is the message.
func interruptIn(value json.RawMessage) agui.Interrupt {
	i := agui.Interrupt{ID: first(value, "interruptId", "interrupt_id", "id")}
	inner := value
	for _, key := range []string{"value", "__copilotkit_interrupt_value__"} {
		if within := memberOf(inner, key); within != nil {
			inner = approval.Unwrapped(within)
		}
	}
	i.ToolCallID = first(inner, "toolCallId", "tool_call_id")
	i.Reason = cmp.Or(first(inner, "reason"), "on_interrupt")
	i.ExpiresAt = first(inner, "expiresAt", "expires_at")
	i.Message = cmp.Or(text(inner), wordsIn(inner, depthOfWords))
	for _, key := range []string{"responseSchema", "response_schema", "resumeSchema"} {
		if schema := approval.Unwrapped(memberOf(inner, key)); i.ResponseSchema == nil && len(schema) > 0 && schema[0] == '{' {
			i.ResponseSchema = schema
		}
	}
	switch {
	case len(inner) > 0 && inner[0] == '{':
		i.Metadata = inner
	case len(inner) > 0 && inner[0] == '[': // a card shows members
		i.Metadata = withMember(nil, "value", inner)
	}
	// Mastra finds what it suspended by both ids, and takes them in this form.
	if run := first(inner, "runId"); run != "" && i.ToolCallID != "" && first(inner, "type") == "mastra_suspend" {
		i.ID = run + "::" + i.ToolCallID
	}
	return i
}

// first is the first of the members that is text.
func first(object json.RawMessage, keys ...string) string {
	for _, key := range keys {
		if words := text(memberOf(object, key)); words != "" {
			return words
		}
	}
	return ""
}
