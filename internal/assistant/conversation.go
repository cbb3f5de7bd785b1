// This file makes of the transcript what the model is sent. The transcript shows a conversation to people, with
// questions and their answers in it; a model has to find its own calls, under the names that it gave and with a result
// behind each. It is fitted already to what OpenAI's API takes; what other servers of that form refuse is fitted here,
// since any of them may have the model.

package assistant

import (
	"crypto/sha256"
	"encoding/json"
	"math/big"
	"regexp"

	"aqueduct/internal/modelform"
)

// pastMessage is a message of OpenAI's chat completions.
type pastMessage struct {
	Role       string          `json:"role"`
	Name       string          `json:"name,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Content    json.RawMessage `json:"content"` // text, parts, or null
	ToolCalls  []messageCall   `json:"tool_calls,omitempty"`
}

// messageCall and functionCall are a call within an assistant's message.
type messageCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func encoded(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // structs of strings always encode
	return raw
}

// conversation is the transcript as the model takes it: with what the page's tools gave, which the transcript may not have
// yet, and with the names that the tools have for the model.
func (b *toolbox) conversation(messages []json.RawMessage, answers []answer) []json.RawMessage {
	results := resultsOf(answers)
	var list []json.RawMessage
	var last pastMessage
	for _, raw := range messages {
		var m pastMessage
		if json.Unmarshal(raw, &m) != nil {
			continue
		}
		if result, ok := results[m.ToolCallID]; ok && m.Role == "tool" {
			m.Content = encoded(result)
		}
		if m.ToolCallID != "" {
			m.ToolCallID = shortID(m.ToolCallID)
		}
		for j := range m.ToolCalls {
			m.ToolCalls[j].ID, m.ToolCalls[j].Function = shortID(m.ToolCalls[j].ID), b.asCalled(m.ToolCalls[j].Function)
		}
		if joined, ok := join(last, m); ok {
			last = joined
			list[len(list)-1] = encoded(joined)
			continue
		}
		if last.Role == "tool" && m.Role != "tool" && m.Role != "assistant" {
			list = append(list, encoded(pastMessage{Role: "assistant", Content: encoded(endedHere)}))
		}
		list, last = append(list, encoded(m)), m
	}
	return list
}

// endedHere is the answer to a result that the model did not answer: Mistral's API accepts only an assistant's message after
// a tool's.
const endedHere = "(The answer ended here.)"

// join merges two messages of one speaker, because DeepSeek's reasoner and Gemini require alternation. A call must precede
// its results, so it is the last of its message.
func join(before, m pastMessage) (pastMessage, bool) {
	if before.Role != m.Role || before.Name != m.Name || m.Role != "user" && m.Role != "assistant" || len(before.ToolCalls) > 0 {
		return m, false
	}
	before.ToolCalls = m.ToolCalls
	var first, second string
	switch {
	case string(m.Content) == "null":
	case string(before.Content) == "null":
		before.Content = m.Content
	case json.Unmarshal(before.Content, &first) == nil && json.Unmarshal(m.Content, &second) == nil:
		before.Content = encoded(first + "\n\n" + second)
	default:
		before.Content = encoded(append(partsOf(before.Content), partsOf(m.Content)...))
	}
	return before, true
}

// partsOf returns the parts of a content; a text is one part.
func partsOf(content json.RawMessage) (parts []json.RawMessage) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []json.RawMessage{encoded(contentPart{Type: "text", Text: text})}
	}
	_ = json.Unmarshal(content, &parts) // a content is one of the two
	return parts
}

// shortName is the only form in which Mistral's API accepts the id of a call. Every other API accepts it too.
var shortName = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// shortID returns the id of a call for the model. It is deterministic, so that servers find their cached prompts.
func shortID(id string) string {
	if shortName.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	digits := "000000000" + new(big.Int).SetBytes(sum[:16]).Text(62)
	return digits[len(digits)-9:]
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
	if own, ok := b.own[f.Name]; ok {
		f.Name = own
	}
	var about struct {
		Tool string
		Args json.RawMessage
	}
	if f.Name == permissionTool && json.Unmarshal([]byte(f.Arguments), &about) == nil && about.Tool != "" {
		f = functionCall{about.Tool, string(about.Args)}
	}
	return functionCall{b.functionOf(f.Name), modelform.Object(f.Arguments)}
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
