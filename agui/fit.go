// This file makes a history that every provider of models accepts. A Turn may have been stopped, may have failed, or may have
// lost its agent at any point. A history that a provider refuses once, it refuses with every later prompt.

package agui

import (
	"slices"
	"strings"

	"aqueduct/internal/modelform"
)

// Fitted holds a history and the client's tools in a form that the strictest provider accepts.
type Fitted struct {
	Messages []Message
	Tools    []Tool
	Names    FunctionNames // of the calls and tools
}

// Fit fits a history and tools to what the APIs of models refuse:
//
//	a call              has a name that fits (FunctionNames) and a JSON object as its arguments
//	its result          comes directly after it; a call without one gets one that reports it (NoResult)
//	a result            without a call is left out; of two for one call the newer counts
//	a message           without text, parts and calls is left out, and so is an empty text among other parts
//	an activity         is left out: people alone see it
//	a tool's schema     is of an object, and its arrays have items; of two tools of one name the first counts
//
// Calls in open get no result: this run brings their answer in another form. What fits stays as it is, byte for byte.
func Fit(messages []Message, tools []Tool, open map[string]bool) Fitted {
	fit := Fitted{Messages: make([]Message, 0, len(messages)), Tools: fitTools(tools), Names: newFunctionNames(tools, messages)}
	results := pairResults(messages)
	for i := range messages {
		m, ok := fitMessage(messages[i], &fit.Names)
		if !ok {
			continue
		}
		fit.Messages = append(fit.Messages, m)
		answered := results[i]
		slices.Sort(answered)
		has := make(map[string]bool, len(answered))
		for _, at := range answered {
			has[messages[at].ToolCallID] = true
			fit.Messages = append(fit.Messages, fitResult(messages[at]))
		}
		for _, call := range m.ToolCalls {
			if !has[call.ID] && !open[call.ID] {
				fit.Messages = append(fit.Messages, noResult(call.ID))
			}
		}
	}
	for i := range fit.Tools {
		fit.Tools[i].Name = fit.Names.Fit(fit.Tools[i].Name)
	}
	return fit
}

// CallsOfTurn returns the calls since the newest message of a user, by id. They are open while an agent receives answers. The
// agent may have asked about any of them, whether its question names the call or not, and then sends the result.
func CallsOfTurn(history []Message) map[string]bool {
	calls := make(map[string]bool)
	for i := len(history) - 1; i >= 0 && history[i].Role != RoleUser; i-- {
		for _, call := range history[i].ToolCalls {
			calls[call.ID] = true
		}
	}
	return calls
}

// NoResult is the content of the result of a call that has none.
const NoResult = `{"status":"no_result"}`

// noResult makes the result with the same id for every prompt, so that an agent with its own memory keeps it once.
func noResult(callID string) Message {
	return Message{ID: callID + "-no-result", Role: RoleTool, ToolCallID: callID, Content: Text(NoResult), Error: "no_result"}
}

// pairResults finds the results of each message's calls. It returns the places of tool messages by the place of the calling
// message. A result belongs to the newest earlier call of its id without one. Some agents reuse the ids of calls, and a
// result may have been written before its call.
func pairResults(messages []Message) map[int][]int {
	type call struct{ message, result int }
	calls := make(map[string][]*call)
	for i := range messages {
		for j := range messages[i].ToolCalls {
			id := messages[i].ToolCalls[j].ID
			calls[id] = append(calls[id], &call{i, -1})
		}
	}
	for k := range messages {
		if messages[k].Role != RoleTool {
			continue
		}
		var of *call
		for _, c := range calls[messages[k].ToolCallID] {
			if of == nil || c.message < k && (c.result < 0 || of.result >= 0) {
				of = c
			}
		}
		if of != nil {
			of.result = k
		}
	}
	results := make(map[int][]int)
	for _, of := range calls {
		for _, c := range of {
			if c.result >= 0 {
				results[c.message] = append(results[c.message], c.result)
			}
		}
	}
	return results
}

// fitMessage fits a message. It reports false for a message that is not sent, or that is sent after its call.
func fitMessage(m Message, names *FunctionNames) (Message, bool) {
	switch m.Role {
	case RoleActivity, RoleTool:
		return m, false
	case RoleReasoning:
		return m, m.EncryptedValue != "" || !m.Content.Blank()
	}
	m.fitParts()
	m.fitCalls(names)
	if !m.Content.Blank() {
		return m, true
	}
	if len(m.ToolCalls) > 0 && !m.Content.Absent {
		m.Content, m.kept = Content{Absent: true}, nil
	}
	return m, len(m.ToolCalls) > 0 || m.EncryptedValue != ""
}

// fitResult fits a tool's result, which may be empty but must not be an empty list.
func fitResult(m Message) Message {
	if m.fitParts(); m.Content.Parts != nil && len(m.Content.Parts) == 0 {
		m.Content, m.kept = Text(""), nil
	}
	return m
}

// fitParts removes text parts without text.
func (m *Message) fitParts() {
	empty := func(p ContentPart) bool { return p.Type == PartText && p.Raw == nil && strings.TrimSpace(p.Text) == "" }
	if slices.ContainsFunc(m.Content.Parts, empty) {
		m.Content.Parts = slices.DeleteFunc(slices.Clone(m.Content.Parts), empty)
		m.kept = nil
	}
}

// fitCalls fits the names and the arguments of a message's calls.
func (m *Message) fitCalls(names *FunctionNames) {
	copied := false
	for j, call := range m.ToolCalls {
		f := FunctionCall{Name: names.Fit(call.Function.Name), Arguments: modelform.Object(call.Function.Arguments)}
		if f == call.Function {
			continue
		}
		if !copied {
			m.ToolCalls, m.kept, copied = slices.Clone(m.ToolCalls), nil, true
		}
		m.ToolCalls[j].Function = f
	}
}

// Blank reports whether a content has no part and no text except white space.
func (c Content) Blank() bool {
	for i := range c.Parts {
		if p := &c.Parts[i]; p.Type != PartText || p.Raw != nil || strings.TrimSpace(p.Text) != "" {
			return false
		}
	}
	return c.Parts != nil || strings.TrimSpace(c.Text) == ""
}
