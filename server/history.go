// A transcript in the two forms that GET /api/threads/{id}/messages gives: AG-UI messages as they are kept, and the
// messages of a TDesign page. Files of messages are in history_files.go, Runs that were cut off in historyends.go.

package server

import (
	"cmp"
	"encoding/json"

	"aqueduct/agui"
	"aqueduct/agui/tdesign"
	"aqueduct/bridge"
	"aqueduct/store"
)

// pageMessage is a message as TDesign's convertHistoryMessages takes it: thoughts are part of the assistant's
// message, content is text. A tool's result is a message of its own with toolCallId; the page joins it with the card
// of its call.
type pageMessage struct {
	ID        string `json:"id"`
	Role      string `json:"role"`
	Content   any    `json:"content"`
	Timestamp int64  `json:"timestamp,omitempty"` // when it was kept, in Unix milliseconds
	// Text is what was typed, where Content also has the links of Attachments.
	Text        string     `json:"text,omitempty"`
	Attachments []pageFile `json:"attachments,omitempty"`
	// ReasoningContent are the thoughts before the message, joined.
	ReasoningContent string     `json:"reasoningContent,omitempty"`
	ToolCalls        []pageCall `json:"toolCalls,omitempty"`
	ToolCallID       string     `json:"toolCallId,omitempty"`
	ActivityType     string     `json:"activityType,omitempty"`
	Status           string     `json:"status,omitempty"` // of the last message of a Run that was cut off
	// From is "client" for a message that a client wrote in the name of another (bridge.ClientKey).
	From string `json:"from,omitempty"`
}

// pageCall is a tool call in the form of OpenAI's API, which the page parses:
// {"id":…,"type":"function","function":{"name":…,"arguments":"…"}}.
type pageCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// pageHistory is a transcript for a TDesign page. Thoughts go to the assistant message after them; those without one
// get an empty one, or the page would drop them. Roles that a page cannot show (system and developer) are left out.
func pageHistory(rows []store.Message, optionID tdesign.OptionID) ([]pageMessage, error) {
	out := make([]pageMessage, 0, len(rows))
	var thoughts pageMessage
	// A thought is written out before anything but the assistant's message, or it would move behind what followed it.
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
		// Several thoughts in a row become one; the id is that of the first.
		case agui.RoleReasoning:
			thoughts.ID, thoughts.Timestamp = cmp.Or(thoughts.ID, m.ID), row.CreatedAt.UnixMilli()
			thoughts.ReasoningContent += m.Content.String()
		case agui.RoleAssistant:
			p := assistantOut(m, optionID)
			p.Timestamp = row.CreatedAt.UnixMilli()
			p.ReasoningContent, p.From = thoughts.ReasoningContent, fromOf(m)
			thoughts = pageMessage{}
			out = append(out, p)
		case agui.RoleUser, agui.RoleTool, agui.RoleActivity:
			flush()
			p := messageOut(m, row)
			p.From = fromOf(m)
			out = append(out, p)
		}
	}
	flush()
	return out, nil
}

func fromOf(m agui.Message) string {
	if bridge.IsClients(m.Metadata) {
		return bridge.FromClient
	}
	return ""
}

// messageOut is a message of a user, a tool or an activity. A user's files are added to the text as links, because
// the page's own converter keeps nothing else of them; Text and Attachments are for pages that do better. A tool's
// result must be JSON, and is text otherwise.
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

// assistantOut is a message of the assistant with its tool calls. The permission tool's options get the ids that a
// page answers with.
func assistantOut(m agui.Message, optionID tdesign.OptionID) pageMessage {
	p := pageMessage{ID: m.ID, Role: m.Role, Content: m.Content.String()}
	for _, call := range m.ToolCalls {
		out := pageCall{ID: call.ID, Type: "function"}
		out.Function.Name, out.Function.Arguments = call.Function.Name, call.Function.Arguments
		if call.Function.Name == tdesign.PermissionTool {
			out.Function.Arguments = cardArguments(call.ID, call.Function.Arguments, optionID)
		}
		p.ToolCalls = append(p.ToolCalls, out)
	}
	return p
}

// cardArguments gives a permission's options the ids they have on a page (see tdesign.OptionID), so that a card from
// the history is answered like one from a stream. Arguments that are not as expected stay as they are: an old card
// that cannot be answered is better than a history that cannot be read.
func cardArguments(cardID, args string, optionID tdesign.OptionID) string {
	var members map[string]json.RawMessage
	var options []map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &members) != nil || json.Unmarshal(members["options"], &options) != nil {
		return args
	}
	for n, o := range options {
		id, err := json.Marshal(optionID(cardID, n))
		// An option that is null has no members to set.
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

// jsonText makes a tool's result JSON, which the card of a tool without a handler parses. Text that is JSON by
// chance, such as a number, stays as it is: the card shows it the same way.
func jsonText(content string) string {
	if json.Valid([]byte(content)) {
		return content
	}
	return string(agui.AppendString(nil, content))
}
