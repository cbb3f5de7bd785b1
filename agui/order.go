// This file puts a history into the order that model providers demand.

package agui

import "slices"

// OrderResults puts every tool message behind the message that made its call and the
// results already there, as Fold and the official clients do: providers refuse a history
// in which anything stands between a call and its result. The order of all else stays. A
// result whose call is not there stays where it is.
func OrderResults(messages []Message) []Message {
	if !slices.ContainsFunc(messages, func(m Message) bool { return m.Role == RoleTool }) {
		return messages
	}
	ordered := make([]Message, 0, len(messages))
	owner := make(map[string]string) // of a call: the id of its message
	for _, m := range messages {
		for _, call := range m.ToolCalls {
			owner[call.ID] = m.ID
		}
		by, known := owner[m.ToolCallID]
		if m.Role != RoleTool || !known {
			ordered = append(ordered, m)
			continue
		}
		at := len(ordered) // from the end: a result seldom comes long after its call
		for ordered[at-1].ID != by {
			at--
		}
		for at < len(ordered) && ordered[at].Role == RoleTool {
			at++
		}
		ordered = slices.Insert(ordered, at, m)
	}
	return ordered
}
