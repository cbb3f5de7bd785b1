// This file is the way back: the transcript as the log has it becomes the conversation that the agent knows, under
// its own ids and without what was only for people.

package aguiagent

import (
	"slices"
	"strings"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

// historian turns the transcript back into what the agent knows: its own ids, and nothing that it did not do. It notes in
// names which ids the log has.
type historian struct {
	names *names
	// agent is the id of the agent that is called. In a thread with several agents the messages of each have its name, and
	// their ids are only restored for the one that gave them.
	agent    string
	messages map[string]bool   // ids that were given, of either side
	calls    map[string]string // by ours
	hidden   map[string]bool   // calls that are the cards of Questions
}

// history is the transcript as the agent is sent it.
func (n *names) history(transcript []agui.Message, agent string) []agui.Message {
	h := historian{
		names: n, agent: agent,
		messages: make(map[string]bool), calls: make(map[string]string), hidden: make(map[string]bool),
	}
	list := make([]agui.Message, 0, len(transcript))
	for i := range transcript {
		if m, ok := h.message(transcript[i]); ok {
			list = append(list, m)
		}
	}
	return list
}

// message is one message as the agent has it; not ok is one that it does not get.
func (h *historian) message(m agui.Message) (agui.Message, bool) {
	switch m.Role {
	case agui.RoleActivity: // shown to people only
		return m, false
	case agui.RoleUser, agui.RoleSystem, agui.RoleDeveloper:
		h.messages[m.ID] = true
		return m, true
	case agui.RoleTool:
		if h.hidden[m.ToolCallID] {
			return m, false
		}
	}
	kept := m
	m.ToolCalls = h.toolCalls(m)
	if len(kept.ToolCalls) > 0 && len(m.ToolCalls) == 0 && m.Content.Absent {
		return m, false // it was a card and nothing else
	}
	if theirs, ok := h.calls[m.ToolCallID]; ok && m.Role == agui.RoleTool {
		m.ToolCallID = theirs
	}
	ours := m.ID
	ids, kind, rest := restore(m.Metadata)
	m.Metadata = rest
	if m.EncryptedValue != "" && m.EncryptedValueType == "" {
		m.EncryptedValueType = kind
	}
	if theirs := ids.MessageID; theirs != "" && h.isTheirs(m) && !h.messages[theirs] {
		m.ID = theirs
		h.names.messages[theirs] = ours
	}
	h.messages[m.ID] = true
	m.SubagentRunID = "" // a run knows the subagents that it starts
	m.Kept(nil)          // it is not as it was kept
	return m, true
}

// isTheirs reports whether a message is of the agent that is called. A thread of one agent names no speaker.
func (h *historian) isTheirs(m agui.Message) bool { return m.Name == "" || m.Name == h.agent }

// toolCalls are the calls of a message without the cards of Questions. A call has one id for the agent: of two that it gave
// the same, the second keeps ours, as the result would else be of the first.
func (h *historian) toolCalls(m agui.Message) []agui.ToolCall {
	calls := slices.Clone(m.ToolCalls)
	kept := calls[:0]
	for _, c := range calls {
		h.names.taken[c.ID] = true
		if isCard(c) {
			h.hidden[c.ID] = true
			continue
		}
		c.Function.Name = ownTool(c.Function.Name)
		ids, kind, rest := restore(c.Metadata)
		c.Metadata = rest
		if c.EncryptedValue != "" && c.EncryptedValueType == "" {
			c.EncryptedValueType = kind
		}
		if theirs := ids.ToolCallID; theirs != "" && h.isTheirs(m) && h.names.calls[theirs] == "" {
			h.names.calls[theirs], h.calls[c.ID] = c.ID, theirs
			c.ID = theirs
		}
		kept = append(kept, c)
	}
	return kept
}

// isCard reports whether a call is how a Question is shown. An agent's own tool of that name is shown under another.
func isCard(c agui.ToolCall) bool {
	return c.Function.Name == approval.PermissionTool || c.Function.Name == inputTool
}

// inputTool is the name under which an interrupt that wants an input is shown.
const inputTool = "request_input"

// shownTool is the name under which the agent's tool is shown: one that means a card here would get buttons.
func shownTool(name string) string {
	if name == approval.PermissionTool || name == inputTool {
		return cardPrefix + name
	}
	return name
}

const cardPrefix = "agent."

// ownTool is the agent's own name of a tool that is shown.
func ownTool(shown string) string {
	if name, ok := strings.CutPrefix(shown, cardPrefix); ok && shownTool(name) == shown {
		return name
	}
	return shown
}
