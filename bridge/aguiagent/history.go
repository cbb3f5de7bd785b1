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
	// agent is the id of the called agent. In a thread with several agents, the text messages of a further agent have its
	// name. Ids are restored only for the agent that gave them.
	agent    string
	messages map[given]bool    // ids that were given, of either side
	calls    map[string]string // by ours
	hidden   map[string]card   // calls that are the cards of Questions
	waiting  []waitingCall     // calls since the newest message of a user that have no result

	clientTools map[string]bool
}

// given is an id that a message has for the agent. A thought and the answer that follows from it may share an id, and so may
// the results of several calls. Any other message that begins under an id of an earlier run keeps our id.
type given struct {
	id, call string
	thought  bool
	again    int
}

// history returns the transcript in the form that the agent gets, with the decisions of persons about its calls.
func (n *names) history(transcript []agui.Message, agent string, tools []agui.Tool) (list []agui.Message, all []decided) {
	h := historian{
		names: n, agent: agent,
		messages: make(map[given]bool), calls: make(map[string]string), hidden: make(map[string]card),
		clientTools: make(map[string]bool),
	}
	for _, tool := range tools {
		h.clientTools[tool.Name] = true
	}
	list = make([]agui.Message, 0, len(transcript))
	for i := range transcript {
		if m, ok := h.message(transcript[i]); ok {
			list = append(list, m)
			h.note(&transcript[i], &m)
		} else if result, ok := h.decidedBy(transcript[i]); ok {
			all = append(all, decided{len(list), result})
		}
	}
	return list, all
}

// message is one message as the agent has it; not ok is one that it does not get.
func (h *historian) message(m agui.Message) (agui.Message, bool) {
	switch m.Role {
	case agui.RoleActivity: // shown to people only
		return m, false
	case agui.RoleUser, agui.RoleSystem, agui.RoleDeveloper:
		h.messages[given{id: m.ID}] = true
		return m, true
	case agui.RoleTool:
		if _, is := h.hidden[m.ToolCallID]; is {
			return m, false
		}
	}
	ids, kind, rest := restore(m.Metadata)
	if ids.Forgotten && h.isTheirs(&m, ids) {
		return m, false
	}
	kept := m
	ofCalls := h.toolCalls(&m)
	if len(kept.ToolCalls) > 0 && len(m.ToolCalls) == 0 && m.Content.Absent {
		return m, false // it was a card and nothing else
	}
	if ids.MessageID == "" {
		ids = ofCalls
	}
	if theirs, ok := h.calls[m.ToolCallID]; ok && m.Role == agui.RoleTool {
		m.ToolCallID = theirs
	}
	m.Metadata = rest
	if m.EncryptedValue != "" && m.EncryptedValueType == "" {
		m.EncryptedValueType = kind
	}
	h.restoreID(&m, ids)
	m.SubagentRunID = "" // a run knows the subagents that it starts
	m.Kept(nil)          // it is not as it was kept
	return m, true
}

// restoreID restores the id that the agent gave the message, unless an earlier run of the agent has already used it. An agent
// that numbers each run from the start has no memory by id. A framework between, such as LangGraph's reducer, would replace
// the earlier message by the later one.
func (h *historian) restoreID(m *agui.Message, ids own) {
	as := given{id: ids.MessageID, thought: m.Role == agui.RoleReasoning, again: ids.Again}
	if m.Role == agui.RoleTool {
		as.call = m.ToolCallID
	}
	ours := m.ID
	if as.id != "" && h.isTheirs(m, ids) && !h.messages[as] {
		m.ID = as.id
		if _, taken := h.names.messages[as.id]; !taken || m.Role == agui.RoleAssistant {
			h.names.messages[as.id] = ours
		}
	} else {
		as.id = ours
	}
	h.messages[as] = true
}

// isTheirs reports whether a message is from the called agent. Ids of the thread's own agent do not name it. Logs of earlier
// versions do not name further agents either, but their text messages have the agent's name.
func (h *historian) isTheirs(m *agui.Message, ids own) bool {
	if ids.Agent != "" {
		return ids.Agent == h.names.agent
	}
	return m.Name == h.agent || m.Name == "" && h.names.agent == ""
}

// toolCalls removes the cards of Questions from a message and gives the other calls the agent's own ids. It returns the
// message's own ids as far as the calls have them. Calls of several runs may share an id: providers and agents match a result
// with the call before it.
func (h *historian) toolCalls(m *agui.Message) (of own) {
	calls := slices.Clone(m.ToolCalls)
	kept := calls[:0]
	for _, c := range calls {
		h.names.taken[c.ID] = true
		if isCard(c) {
			h.hidden[c.ID] = cardIn(c)
			continue
		}
		c.Function.Name = ownTool(c.Function.Name)
		ids, kind, rest := restore(c.Metadata)
		c.Metadata = rest
		if c.EncryptedValue != "" && c.EncryptedValueType == "" {
			c.EncryptedValueType = kind
		}
		if theirs := ids.ToolCallID; theirs != "" && h.isTheirs(m, ids) {
			h.names.calls[theirs], h.calls[c.ID] = c.ID, theirs
			c.ID = theirs
		}
		if of.MessageID == "" {
			of = ids
		}
		kept = append(kept, c)
	}
	m.ToolCalls = kept
	return of
}

// isCard reports whether a call is how a Question is shown. An agent's own tool of that name is shown under another.
func isCard(c agui.ToolCall) bool {
	return c.Function.Name == approval.PermissionTool || c.Function.Name == approval.InputTool
}

// shownTool returns the name under which an agent's tool is shown. A name that means a card here would get buttons, and
// providers refuse an empty one.
func shownTool(name string) string {
	if name == "" {
		return approval.AgentPrefix
	}
	return approval.AgentsTool(name)
}

// ownTool is the agent's own name of a tool that is shown.
func ownTool(shown string) string {
	if name, ok := strings.CutPrefix(shown, approval.AgentPrefix); ok && shownTool(name) == shown {
		return name
	}
	return shown
}
