// This file handles CUSTOM on_interrupt, by which the adapters of LangGraph, CrewAI, Agno and others ask by default. The run
// then ends without an outcome, and the client answers by forwardedProps.command.resume.

package aguiagent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

// customNames lists the names of the event: the one of all adapters, and the one of CopilotKit's SDK.
var customNames = []string{"on_interrupt", "on_copilotkit_interrupt"}

// customInterrupt is an interrupt of a CUSTOM event.
type customInterrupt struct {
	agui.Interrupt
	value json.RawMessage // of the event; the element of the interrupt where it lists several
}

// note records an event that may ask something. It marks the event with the ids that its Questions get if the run ends
// without an outcome. Adapters send the event once for each interrupt.
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

// listed returns the interrupts in a value: its elements if each of them looks like an interrupt, otherwise the value itself.
// A list that belongs to one interrupt (LangChain's HumanInterrupt, choices) is one value.
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

// interruptIn reads a value as an interrupt. It accepts AG-UI's members in both spellings, also within LangGraph's {id,
// value}. A text is the message.
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
	// Mastra finds a suspended run by both ids, and accepts them in this form.
	if run := first(inner, "runId"); run != "" && i.ToolCallID != "" && first(inner, "type") == "mastra_suspend" {
		i.ID = run + "::" + i.ToolCallID
	}
	return i
}

// first returns the first of the members that is text.
func first(object json.RawMessage, keys ...string) string {
	for _, key := range keys {
		if words := text(memberOf(object, key)); words != "" {
			return words
		}
	}
	return ""
}
