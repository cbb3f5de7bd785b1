// This file holds the input of a run: the history that the agent was sent. It does not change during the run. The Translator
// holds the run's additions, under our ids.

package aguiagent

import (
	"cmp"

	"aqueduct/agui"
)

// past is the conversation that a run was sent, under the agent's ids.
type past struct {
	messages []agui.Message
	roles    map[string]string        // by id; an assistant's message comes first
	calls    map[string]agui.ToolCall // the newest of each id
}

func newPast(history []agui.Message) past {
	p := past{messages: history, roles: make(map[string]string, len(history)), calls: make(map[string]agui.ToolCall)}
	for i := range history {
		m := &history[i]
		if m.Role == agui.RoleAssistant || p.roles[m.ID] == "" {
			p.roles[m.ID] = m.Role
		}
		for _, call := range m.ToolCalls {
			p.calls[call.ID] = call
		}
	}
	return p
}

// isAnothers reports whether a message of the history is not an assistant's, so that it takes no calls.
func (p *past) isAnothers(id string) bool {
	return cmp.Or(p.roles[id], agui.RoleAssistant) != agui.RoleAssistant
}
