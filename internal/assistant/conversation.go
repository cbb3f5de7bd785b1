// This file makes of the transcript what the model is sent. The transcript shows a conversation to people, with
// questions and their answers in it; a model has to find its own calls, under the names and ids that it gave and with
// a result behind each.

package assistant

import "encoding/json"

// assistantMessage and toolMessage are messages of OpenAI's chat completions.
type assistantMessage struct {
	Role      string        `json:"role"`
	Name      string        `json:"name,omitempty"`
	Content   *string       `json:"content"`
	ToolCalls []messageCall `json:"tool_calls"`
}

// messageCall and functionCall are a call within an assistant's message. Arguments are a text that the model wrote,
// which need not be JSON.
type messageCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type toolMessage struct {
	Role       string `json:"role"`
	ToolCallID string `json:"tool_call_id"`
	Content    string `json:"content"`
}

func encoded(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // structs of strings always encode
	return raw
}

// conversation is the transcript as the model takes it: with what the page's tools gave, which the transcript may not have
// yet, and with the names that the tools have for the model.
func (b *toolbox) conversation(messages []json.RawMessage, answers []answer) []json.RawMessage {
	results := resultsOf(answers)
	list := make([]json.RawMessage, len(messages))
	for i, raw := range messages {
		list[i] = raw
		var is struct{ Role string }
		if json.Unmarshal(raw, &is) != nil {
			continue
		}
		switch is.Role {
		case "tool":
			var m toolMessage
			if json.Unmarshal(raw, &m) == nil {
				if result, ok := results[m.ToolCallID]; ok {
					list[i] = encoded(toolMessage{"tool", m.ToolCallID, result})
				}
			}
		case "assistant":
			var m assistantMessage
			if json.Unmarshal(raw, &m) == nil && len(m.ToolCalls) > 0 {
				for j := range m.ToolCalls {
					m.ToolCalls[j].Function = b.asCalled(m.ToolCalls[j].Function)
				}
				list[i] = encoded(m)
			}
		}
	}
	return list
}

// permissionTool is the name under which the transcript has a call that a person was asked about.
const permissionTool = "request_permission"

// asCalled is a call as the model made it. One that a person was asked about stands in the transcript as the question, with
// the call in its arguments and the tool's own result behind it.
//
// So the call
//
//	request_permission {"tool": "mail.send", "args": {"to": "ada"}}
//
// becomes mail_send {"to": "ada"}, and the tool message behind it is its result.
func (b *toolbox) asCalled(f functionCall) functionCall {
	var about struct {
		Tool string
		Args json.RawMessage
	}
	if f.Name == permissionTool && json.Unmarshal([]byte(f.Arguments), &about) == nil && about.Tool != "" {
		f = functionCall{about.Tool, string(about.Args)}
	}
	f.Name = b.functionOf(f.Name)
	return f
}

// resultsOf are the contents of the answers' tool messages, by the ids that the transcript has.
func resultsOf(answers []answer) map[string]string {
	results := make(map[string]string, len(answers))
	for _, a := range answers {
		var given struct{ Content *string }
		switch {
		case a.Status == "cancelled":
			results[a.CallID] = failed("cancelled", "The tool was not run.")
		case json.Unmarshal(a.Payload, &given) == nil && given.Content != nil:
			results[a.CallID] = *given.Content
		default:
			results[a.CallID] = string(a.Payload)
		}
	}
	return results
}
