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

// openAIMessage is a message as OpenAI's chat completions take it. Members that they do not know are refused there, so an
// AG-UI message cannot be passed on as it is.
type openAIMessage struct {
	Role       string       `json:"role"`
	Content    any          `json:"content"` // text, parts, or null
	Name       string       `json:"name,omitempty"`
	ToolCalls  []openAICall `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
}

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

type openAIURL struct {
	URL string `json:"url"`
}

type openAIAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type openAIFile struct {
	FileID   string `json:"file_id,omitempty"`
	FileData string `json:"file_data,omitempty"`
}

// maxOpenAIName is what OpenAI takes as the name of who speaks.
const maxOpenAIName = 64

// noResult is the content of the result of a call that has none (yet): OpenAI refuses a conversation in which a call goes
// unanswered.
const noResult = `{"status":"no_result"}`

// openAIMessages brings a transcript into OpenAI's form: thoughts and activities are left out, each call is followed by its
// result, and a result without its call, which a long conversation has lost, goes.
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

// appendAssistant appends what an assistant said and called, and the results.
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

// openAIContent is text, or parts where there are others than text. Parts of a kind that OpenAI has none of are left out.
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

// openAIName is a name in the letters that OpenAI takes.
func openAIName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), maxOpenAIName)]
}

// openAITranscript is the transcript and the prompt in OpenAI's form, as JSON.
func openAITranscript(messages []agui.Message, prompt agui.Message) (list, input json.RawMessage, err error) {
	if list, err = json.Marshal(openAIMessages(messages)); err != nil {
		return nil, nil, err
	}
	input, err = json.Marshal(openAIMessages([]agui.Message{prompt})[0])
	return list, input, err
}
