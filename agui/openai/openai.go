// Package openai writes conversations in the form of OpenAI's chat completions, for agents that are called with it and for
// transcripts that are read in it.
package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"aqueduct/agui"
	"aqueduct/internal/modelform"
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

// file holds a file: by its OpenAI id, or as a data URL with a name.
type file struct {
	FileID   string `json:"file_id,omitempty"`
	Filename string `json:"filename,omitempty"`
	FileData string `json:"file_data,omitempty"`
}

// Page converts messages independently. In a part of a conversation, a call's result may be in another part; a whole
// conversation is fitted first (agui.Fit). Reasoning and activities are omitted.
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
		if !m.Content.Blank() {
			said.Content = m.Content.String()
		}
		for _, c := range m.ToolCalls {
			made := call{ID: c.ID, Type: "function"}
			made.Function.Name, made.Function.Arguments = c.Function.Name, modelform.Object(c.Function.Arguments)
			said.ToolCalls = append(said.ToolCalls, made)
		}
		return said, said.Content != nil || len(said.ToolCalls) > 0
	}
	return Message{}, false
}

// resultOf returns the text of a tool's result, or its error if it has no text. A result of pictures cannot be sent.
func resultOf(m agui.Message) string {
	text := m.Content.String()
	if text == "" && len(m.Content.Parts) > 0 {
		return cmp.Or(m.Error, leftOut)
	}
	return cmp.Or(text, m.Error)
}

// contentOf returns the text, or the parts if the message has parts. It omits parts of a kind that OpenAI does not have. It
// replaces a message without any other part by leftOut, because the API refuses a message without parts.
func contentOf(c agui.Content) any {
	if c.Parts == nil {
		return c.Text
	}
	parts := make([]part, 0, len(c.Parts))
	for i := range c.Parts {
		if converted, ok := partOf(&c.Parts[i]); ok {
			parts = append(parts, converted)
		}
	}
	if len(parts) == 0 {
		return leftOut
	}
	return parts
}

// leftOut is the content of a message none of whose parts can be sent.
const leftOut = "[What this message has cannot be shown to a model.]"

// partOf converts one part. It reports false for a kind, source or format that OpenAI does not have, and for unreadable
// bytes.
func partOf(p *agui.ContentPart) (part, bool) {
	if p.Type == agui.PartText {
		return part{Type: "text", Text: p.Text}, p.Text != ""
	}
	if p.Source == nil || p.Source.Value == "" || !p.Followed() {
		return part{}, false
	}
	kind := mediaType(p.Source.MimeType)
	dataURL := "data:" + kind + ";base64," + p.Source.Value
	switch {
	case p.Source.Type == agui.SourceFile:
		return part{Type: "file", File: &file{FileID: p.Source.Value}}, true
	case p.Type == agui.PartImage && p.Source.Type == agui.SourceURL:
		return part{Type: "image_url", ImageURL: &address{p.Source.Value}}, !strings.HasPrefix(p.Source.Value, "data:")
	case p.Source.Type != agui.SourceData || !p.Source.HasBytes():
		return part{}, false
	case p.Type == agui.PartImage:
		return part{Type: "image_url", ImageURL: &address{dataURL}}, slices.Contains(imageTypes, kind)
	case p.Type == agui.PartAudio:
		format := audioFormats[kind]
		return part{Type: "input_audio", Audio: &audio{Data: p.Source.Value, Format: format}}, format != ""
	case p.Type == agui.PartDocument:
		return part{Type: "file", File: &file{Filename: p.Filename(), FileData: dataURL}}, true
	}
	return part{}, false
}

// imageTypes lists the picture types that OpenAI's API accepts.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// audioFormats maps MIME types to OpenAI's names of the formats that it accepts.
var audioFormats = map[string]string{
	"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/x-mp3": "mp3", "audio/mpeg3": "mp3", "audio/x-mpeg": "mp3", "audio/x-mpeg-3": "mp3", "audio/mpga": "mp3",
	"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/x-wave": "wav", "audio/vnd.wave": "wav", "audio/x-pn-wav": "wav",
}

// mediaType returns a MIME type without its parameters, in OpenAI's spelling.
func mediaType(text string) string {
	kind, _, _ := strings.Cut(strings.ToLower(text), ";")
	switch kind = strings.TrimSpace(kind); kind {
	case "":
		return "application/octet-stream"
	case "image/jpg", "image/pjpeg":
		return "image/jpeg"
	case "image/x-png":
		return "image/png"
	}
	return kind
}

// nameOf converts a name to the form of a function name, which OpenAI also accepts for a message.
func nameOf(name string) string {
	if name == "" {
		return ""
	}
	return modelform.Name(name)
}

// Prompted returns a fitted history and the prompt in OpenAI's form, as JSON. The prompt is a user's message or a tool's
// result (bridge.Call.Input), each of which becomes exactly one message.
func Prompted(fitted []agui.Message, prompt agui.Message) (list, input json.RawMessage, err error) {
	if list, err = json.Marshal(Page(fitted)); err != nil {
		return nil, nil, err
	}
	one, _ := messageOf(prompt)
	input, err = json.Marshal(one)
	return list, input, err
}
