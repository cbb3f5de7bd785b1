package httpagent

import (
	"encoding/json"
	"strings"

	"aqueduct/agui"
)

// Messages is the form in which an agent gets the conversation.
type Messages string

// The forms of Messages.
const (
	MessagesAGUI   Messages = "agui" // as AG-UI has them; "" means the same
	MessagesOpenAI Messages = "openai"
)

// openAIMessage is a message of OpenAI's chat completions. That API refuses members it does not know, so an AG-UI message
// cannot be passed on as it is.
type openAIMessage struct {
	Role       string       `json:"role"`
	Content    any          `json:"content"` // text, parts, or null
	Name       string       `json:"name,omitempty"`
	ToolCalls  []openAICall `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
}

// openAICall is a tool call of an assistant's message.
type openAICall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// openAIPart is a part of a content; one member beside the type is set.
type openAIPart struct {
	Type     string       `json:"type"`
	Text     string       `json:"text,omitempty"`
	ImageURL *openAIURL   `json:"image_url,omitempty"`
	Audio    *openAIAudio `json:"input_audio,omitempty"`
	File     *openAIFile  `json:"file,omitempty"`
}

// openAIURL is an image by its address or as a data URL.
type openAIURL struct {
	URL string `json:"url"`
}

// openAIAudio is a sound as base64; Format is wav or mp3.
type openAIAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

// openAIFile is a file by OpenAI's id of it, or as a data URL.
type openAIFile struct {
	FileID   string `json:"file_id,omitempty"`
	FileData string `json:"file_data,omitempty"`
}

// maxOpenAIName bounds a message's name, in characters (OpenAI's limit).
const maxOpenAIName = 64

// noResult is the content of the result of a call that has none yet: OpenAI refuses a conversation in which a call has no
// result.
const noResult = `{"status":"no_result"}`

// openAIMessages converts a transcript to OpenAI's form. Reasoning and activities are left out. Each call is followed by its
// result, wherever the transcript has that: the API wants results directly behind the calls. A result whose call was
// cut off a long conversation is left out, because the API refuses it.
func openAIMessages(messages []agui.Message) []openAIMessage {
	results := make(map[string]agui.Message)
	for _, m := range messages {
		if m.Role == agui.RoleTool {
			results[m.ToolCallID] = m
		}
	}
	list := make([]openAIMessage, 0, len(messages))
	for _, m := range messages {
		switch m.Role {
		case agui.RoleUser, agui.RoleSystem, agui.RoleDeveloper:
			list = append(list, openAIMessage{Role: m.Role, Content: openAIContent(m.Content), Name: openAIName(m.Name)})
		case agui.RoleAssistant:
			list = appendAssistant(list, m, results)
		}
	}
	return list
}

// appendAssistant appends an assistant's text and calls, and the results of those calls. A message without either is left
// out.
func appendAssistant(list []openAIMessage, m agui.Message, results map[string]agui.Message) []openAIMessage {
	said := openAIMessage{Role: m.Role, Name: openAIName(m.Name)}
	if text := m.Content.String(); text != "" {
		said.Content = text
	}
	for _, c := range m.ToolCalls {
		call := openAICall{ID: c.ID, Type: "function"}
		call.Function.Name, call.Function.Arguments = c.Function.Name, c.Function.Arguments
		said.ToolCalls = append(said.ToolCalls, call)
	}
	if said.Content == nil && len(said.ToolCalls) == 0 {
		return list
	}
	list = append(list, said)
	for _, c := range said.ToolCalls {
		answer := openAIMessage{Role: agui.RoleTool, ToolCallID: c.ID, Content: noResult}
		if result, ok := results[c.ID]; ok {
			if answer.Content = result.Content.String(); result.Error != "" && answer.Content == "" {
				answer.Content = result.Error
			}
		}
		list = append(list, answer)
	}
	return list
}

// openAIContent is the text, or the parts where the message has parts. Parts of a kind that OpenAI does not have are left
// out.
func openAIContent(c agui.Content) any {
	if c.Parts == nil {
		return c.Text
	}
	parts := make([]openAIPart, 0, len(c.Parts))
	for _, p := range c.Parts {
		if part, ok := openAIPartOf(p); ok {
			parts = append(parts, part)
		}
	}
	return parts
}

// openAIPartOf converts one part; false for a kind or source that OpenAI does not have.
func openAIPartOf(p agui.ContentPart) (openAIPart, bool) {
	if p.Type == agui.PartText {
		return openAIPart{Type: "text", Text: p.Text}, true
	}
	if p.Source == nil {
		return openAIPart{}, false
	}
	_, format, _ := strings.Cut(p.Source.MimeType, "/")
	dataURL := "data:" + p.Source.MimeType + ";base64," + p.Source.Value
	switch {
	case p.Type == agui.PartImage && p.Source.Type == agui.SourceData:
		return openAIPart{Type: "image_url", ImageURL: &openAIURL{dataURL}}, true
	case p.Type == agui.PartImage && p.Source.Type == agui.SourceURL:
		return openAIPart{Type: "image_url", ImageURL: &openAIURL{p.Source.Value}}, true
	case p.Type == agui.PartAudio && p.Source.Type == agui.SourceData:
		// OpenAI names formats and not MIME types: audio/mpeg is mp3, audio/x-wav is wav.
		if format = strings.TrimPrefix(format, "x-"); format == "mpeg" {
			format = "mp3"
		}
		return openAIPart{Type: "input_audio", Audio: &openAIAudio{Data: p.Source.Value, Format: format}}, true
	case p.Type == agui.PartDocument && p.Source.Type == agui.SourceData:
		return openAIPart{Type: "file", File: &openAIFile{FileData: dataURL}}, true
	case p.Source.Type == agui.SourceFile:
		return openAIPart{Type: "file", File: &openAIFile{FileID: p.Source.Value}}, true
	}
	return openAIPart{}, false
}

// openAIName is a name reduced to the characters and length that OpenAI accepts.
func openAIName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), maxOpenAIName)]
}

// openAITranscript is the transcript and the prompt in OpenAI's form, as JSON. The prompt is a user's message
// (bridge.Call.Input), which always becomes exactly one.
func openAITranscript(messages []agui.Message, prompt agui.Message) (list, input json.RawMessage, err error) {
	if list, err = json.Marshal(openAIMessages(messages)); err != nil {
		return nil, nil, err
	}
	input, err = json.Marshal(openAIMessages([]agui.Message{prompt})[0])
	return list, input, err
}
