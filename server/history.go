package server

import (
	"encoding/json"

	"aqueduct/agui"
	"aqueduct/agui/tdesign"
	"aqueduct/store"
)

// rawJSON is JSON that goes out as it was kept.
type rawJSON = json.RawMessage

// plainHistory is a transcript as AG-UI messages.
func plainHistory(rows []store.Message) []rawJSON {
	out := make([]rawJSON, 0, len(rows))
	for _, row := range rows {
		out = append(out, row.Data)
	}
	return out
}

// pageMessage is a message as TDesign's convertHistoryMessages takes it: thoughts are part
// of the assistant's message, content is text.
type pageMessage struct {
	ID        string `json:"id"`
	Role      string `json:"role"`
	Content   any    `json:"content"`
	Timestamp int64  `json:"timestamp,omitempty"` // when it was kept, in Unix milliseconds
	// Text is what was typed, where Content also has the links of Attachments.
	Text             string     `json:"text,omitempty"`
	Attachments      []pageFile `json:"attachments,omitempty"`
	ReasoningContent string     `json:"reasoningContent,omitempty"`
	ToolCalls        []pageCall `json:"toolCalls,omitempty"`
	ToolCallID       string     `json:"toolCallId,omitempty"`
	ActivityType     string     `json:"activityType,omitempty"`
	Status           string     `json:"status,omitempty"` // of the last message of a Run that was cut off
}

type pageCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// pageHistory is a transcript for a TDesign page. Thoughts go to the assistant message
// after them; those without one get an empty one, or the page would drop them.
func pageHistory(rows []store.Message) ([]pageMessage, error) {
	out := make([]pageMessage, 0, len(rows))
	var thoughts pageMessage
	flush := func() {
		if thoughts.ReasoningContent != "" {
			thoughts.Role, thoughts.Content = agui.RoleAssistant, ""
			out = append(out, thoughts)
		}
		thoughts = pageMessage{}
	}
	for _, row := range rows {
		var m agui.Message
		if err := json.Unmarshal(row.Data, &m); err != nil {
			return nil, err
		}
		switch m.Role {
		case agui.RoleReasoning:
			thoughts.ID, thoughts.Timestamp = firstOf(thoughts.ID, m.ID), row.CreatedAt.UnixMilli()
			thoughts.ReasoningContent += m.Content.String()
		case agui.RoleAssistant:
			p := assistantOut(m)
			p.Timestamp = row.CreatedAt.UnixMilli()
			p.ReasoningContent = thoughts.ReasoningContent
			thoughts = pageMessage{}
			out = append(out, p)
		case agui.RoleUser, agui.RoleTool, agui.RoleActivity:
			flush()
			out = append(out, messageOut(m, row))
		}
	}
	flush()
	return out, nil
}

func messageOut(m agui.Message, row store.Message) pageMessage {
	p := pageMessage{ID: m.ID, Role: m.Role, Content: m.Content.String(), Timestamp: row.CreatedAt.UnixMilli()}
	switch m.Role {
	case agui.RoleUser:
		if p.Attachments = filesOf(m.Content); len(p.Attachments) > 0 {
			p.Text = m.Content.String()
			p.Content = withLinks(p.Text, p.Attachments)
		}
	case agui.RoleTool:
		p.ToolCallID, p.Content = m.ToolCallID, jsonText(m.Content.String())
		if len(filesOf(m.Content)) > 0 {
			p.Content = string(m.Content.AppendJSON(nil))
		}
	case agui.RoleActivity:
		p.ActivityType, p.Content = m.ActivityType, m.Activity
	}
	return p
}

func assistantOut(m agui.Message) pageMessage {
	p := pageMessage{ID: m.ID, Role: m.Role, Content: m.Content.String()}
	for _, call := range m.ToolCalls {
		out := pageCall{ID: call.ID, Type: "function"}
		out.Function.Name, out.Function.Arguments = call.Function.Name, call.Function.Arguments
		if call.Function.Name == tdesign.PermissionTool {
			out.Function.Arguments = cardArguments(call.ID, call.Function.Arguments)
		}
		p.ToolCalls = append(p.ToolCalls, out)
	}
	return p
}

// cardArguments gives a permission's options the ids they have on a page (see
// tdesign.OptionID), so that a card from the history is answered like one from a stream.
func cardArguments(questionID, args string) string {
	var members map[string]json.RawMessage
	var options []map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &members) != nil || json.Unmarshal(members["options"], &options) != nil {
		return args
	}
	for n, o := range options {
		id, err := json.Marshal(tdesign.OptionID(questionID, n))
		if err != nil || o == nil {
			return args
		}
		o["id"] = id
	}
	renamed, err := json.Marshal(options)
	if err != nil {
		return args
	}
	members["options"] = renamed
	whole, err := json.Marshal(members)
	if err != nil {
		return args
	}
	return string(whole)
}

// jsonText makes a tool's result JSON, which the card of a tool without a handler parses.
func jsonText(content string) string {
	if json.Valid([]byte(content)) {
		return content
	}
	return string(agui.AppendString(nil, content))
}
