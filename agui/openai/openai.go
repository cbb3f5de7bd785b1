// Package openai writes conversations in the form of OpenAI's chat completions, for agents that are called with it and for
// transcripts that are read in it.
package openai

import (
	"encoding/json"
	"strings"

	"aqueduct/agui"
)

// Message is a message of OpenAI's chat completions. That API refuses members it does not know, so an AG-UI message
// cannot be passed on as it is.
type Message struct {
	Role       string `json:"role"`
	Content    any    `json:"content"` // text, parts, or null
	Name       string `json:"name,omitempty"`
	ToolCalls  []call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

// call is a tool call of an assistant's message.
type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// part is a part of a content; one member beside the type is set.
type part struct {
	Type     string   `json:"type"`
	Text     string   `json:"text,omitempty"`
	ImageURL *address `json:"image_url,omitempty"`
	Audio    *audio   `json:"input_audio,omitempty"`
	File     *file    `json:"file,omitempty"`
}

// address is an image by its address or as a data URL.
type address struct {
	URL string `json:"url"`
}

// audio is a sound as base64; Format is wav or mp3.
type audio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

// file is a file by OpenAI's id of it, or as a data URL.
type file struct {
	FileID   string `json:"file_id,omitempty"`
	FileData string `json:"file_data,omitempty"`
}

// maxName bounds a message's name, in characters (OpenAI's limit).
const maxName = 64

// noResult is the content of the result of a call that has none yet: OpenAI refuses a conversation in which a call has no
// result.
const noResult = `{"status":"no_result"}`

// Conversation converts a transcript to what the API takes as a whole conversation. Reasoning and activities are left out.
// Each call is followed by its result, wherever the transcript has that: the API wants results directly behind the calls.
// A result whose call was cut off a long conversation is left out, because the API refuses it.
func Conversation(messages []agui.Message) []Message {
	results := make(map[string]agui.Message)
	for _, m := range messages {
		if m.Role == agui.RoleTool {
			results[m.ToolCallID] = m
		}
	}
	list := make([]Message, 0, len(messages))
	for _, m := range messages {
		one, ok := messageOf(m)
		if !ok || m.Role == agui.RoleTool {
			continue
		}
		list = append(list, one)
		for _, c := range one.ToolCalls {
			answer := Message{Role: agui.RoleTool, ToolCallID: c.ID, Content: noResult}
			if result, ok := results[c.ID]; ok {
				answer.Content = resultOf(result)
			}
			list = append(list, answer)
		}
	}
	return list
}

// Page converts messages that are a part of a conversation, each by itself: a result stands where the transcript has it,
// and a call may have its result in another part. Reasoning and activities are left out.
func Page(messages []agui.Message) []Message {
	list := make([]Message, 0, len(messages))
	for _, m := range messages {
		if one, ok := messageOf(m); ok {
			list = append(list, one)
		}
	}
	return list
}

// messageOf converts one message; false for one that the API does not have, and for an assistant's without text or calls.
func messageOf(m agui.Message) (Message, bool) {
	switch m.Role {
	case agui.RoleUser, agui.RoleSystem, agui.RoleDeveloper:
		return Message{Role: m.Role, Content: contentOf(m.Content), Name: nameOf(m.Name)}, true
	case agui.RoleTool:
		return Message{Role: m.Role, ToolCallID: m.ToolCallID, Content: resultOf(m)}, true
	case agui.RoleAssistant:
		said := Message{Role: m.Role, Name: nameOf(m.Name)}
		if text := m.Content.String(); text != "" {
			said.Content = text
		}
		for _, c := range m.ToolCalls {
			made := call{ID: c.ID, Type: "function"}
			made.Function.Name, made.Function.Arguments = c.Function.Name, c.Function.Arguments
			said.ToolCalls = append(said.ToolCalls, made)
		}
		return said, said.Content != nil || len(said.ToolCalls) > 0
	}
	return Message{}, false
}

// resultOf is the text of a tool's result, or its error where it has no text.
func resultOf(m agui.Message) string {
	text := m.Content.String()
	if text == "" {
		return m.Error
	}
	return text
}

// contentOf is the text, or the parts where the message has parts. Parts of a kind that OpenAI does not have are left
// out.
func contentOf(c agui.Content) any {
	if c.Parts == nil {
		return c.Text
	}
	parts := make([]part, 0, len(c.Parts))
	for _, p := range c.Parts {
		if converted, ok := partOf(p); ok {
			parts = append(parts, converted)
		}
	}
	return parts
}

// partOf converts one part; false for a kind or source that OpenAI does not have.
func partOf(p agui.ContentPart) (part, bool) {
	if p.Type == agui.PartText {
		return part{Type: "text", Text: p.Text}, true
	}
	if p.Source == nil {
		return part{}, false
	}
	_, format, _ := strings.Cut(p.Source.MimeType, "/")
	dataURL := "data:" + p.Source.MimeType + ";base64," + p.Source.Value
	switch {
	case p.Type == agui.PartImage && p.Source.Type == agui.SourceData:
		return part{Type: "image_url", ImageURL: &address{dataURL}}, true
	case p.Type == agui.PartImage && p.Source.Type == agui.SourceURL:
		return part{Type: "image_url", ImageURL: &address{p.Source.Value}}, true
	case p.Type == agui.PartAudio && p.Source.Type == agui.SourceData:
		// OpenAI names formats and not MIME types: audio/mpeg is mp3, audio/x-wav is wav.
		if format = strings.TrimPrefix(format, "x-"); format == "mpeg" {
			format = "mp3"
		}
		return part{Type: "input_audio", Audio: &audio{Data: p.Source.Value, Format: format}}, true
	case p.Type == agui.PartDocument && p.Source.Type == agui.SourceData:
		return part{Type: "file", File: &file{FileData: dataURL}}, true
	case p.Source.Type == agui.SourceFile:
		return part{Type: "file", File: &file{FileID: p.Source.Value}}, true
	}
	return part{}, false
}

// nameOf is a name reduced to the characters and length that OpenAI accepts.
func nameOf(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), maxName)]
}

// Prompted is the transcript and the prompt in OpenAI's form, as JSON. The prompt is a user's message or a tool's result
// (bridge.Call.Input), which always become exactly one.
func Prompted(messages []agui.Message, prompt agui.Message) (list, input json.RawMessage, err error) {
	if list, err = json.Marshal(Conversation(messages)); err != nil {
		return nil, nil, err
	}
	input, err = json.Marshal(Page([]agui.Message{prompt})[0])
	return list, input, err
}
