// This file reads what a TDesign page posts. There is no schema for it: each page's onRequest makes
// its own body.

package tdesign

import (
	"bytes"
	"encoding/json"
	"strings"

	"aqueduct/agui"
)

// Body is what a TDesign page posts. The page makes it up itself, so nothing in
// it is certain; an empty body is the page without an onRequest.
type Body struct {
	Prompt    string
	HasPrompt bool // there is a prompt, though it may be ""
	ThreadID  string
	RunID     string
	Answer    *Answer
	// Files are the attachments of the prompt, as AG-UI's parts.
	Files []agui.ContentPart
	// Regenerate is whether a prompt that was sent before is to be answered again; nil: the page left it out.
	Regenerate *bool
	// Tools lists the tools that the page runs, as a RunAgentInput declares them.
	Tools []agui.Tool

	tools json.RawMessage // unparsed
}

// Answer is an answered tool call.
type Answer struct {
	ToolCallID   string // may be "": pages lose it
	ToolCallName string
	Result       json.RawMessage // unwrapped from the JSON string it usually is
}

// DecodeBody reads a body, and of what it does not know nothing. Wrong types are
// an [*agui.InputError]. It trusts that [agui.CheckJSON] has seen the body.
func DecodeBody(body []byte) (*Body, error) {
	b := new(Body)
	if len(bytes.TrimSpace(body)) == 0 {
		return b, nil
	}
	if !json.Valid(body) {
		return nil, &agui.InputError{Reason: "not valid JSON"}
	}
	if err := agui.EachMember(body, b.member); err != nil {
		return nil, err
	}
	if b.tools != nil {
		in, err := agui.DecodeInput(append(append([]byte(`{"tools":`), b.tools...), '}'))
		if err != nil {
			return nil, err
		}
		b.Tools = in.Tools
	}
	return b, nil
}

// member reads one member. An answer to a tool call may stand at the top or in forwardedProps.
func (b *Body) member(key, val []byte) error {
	switch string(key) {
	case "prompt":
		b.HasPrompt = string(val) != "null"
		return readString(&b.Prompt, val)
	case "threadId":
		return readString(&b.ThreadID, val)
	case "runId":
		return readString(&b.RunID, val)
	case "toolCallMessage":
		return b.answer(val)
	case "regenerate":
		if err := json.Unmarshal(val, &b.Regenerate); err != nil {
			return &agui.InputError{Path: "/regenerate", Reason: "must be a boolean"}
		}
	case "tools":
		b.tools = val
	case "attachments":
		return b.files(val)
	case "forwardedProps":
		return b.forwarded(val)
	}
	return nil
}

// files reads attachments as TDesign's component has them: {fileType, name, url, …}. One that was not uploaded has no URL, or one
// within its browser, and is left out.
func (b *Body) files(val []byte) error {
	var items []struct {
		FileType string `json:"fileType"`
		Name     string `json:"name"`
		URL      string `json:"url"`
		MimeType string `json:"mimeType"`
	}
	if json.Unmarshal(val, &items) != nil {
		return &agui.InputError{Reason: "must be an array of objects with fileType, name and url"}
	}
	for _, item := range items {
		if item.URL == "" || strings.HasPrefix(item.URL, "blob:") {
			continue
		}
		part := agui.ContentPart{Type: agui.PartDocument, Source: sourceOf(item.URL, item.MimeType)}
		switch item.FileType {
		case agui.PartImage, agui.PartAudio, agui.PartVideo:
			part.Type = item.FileType
		}
		if item.Name != "" {
			part.Metadata, _ = json.Marshal(map[string]string{"filename": item.Name}) // a text always can be written
		}
		b.Files = append(b.Files, part)
	}
	return nil
}

// sourceOf is what an attachment's URL points to. One that was not uploaded may hold its bytes itself.
func sourceOf(url, mimeType string) *agui.Source {
	source := &agui.Source{Type: agui.SourceURL, Value: url, MimeType: mimeType}
	source.Plain()
	return source
}

// forwarded looks for an answer where a hand-made RunAgentInput would put it; one
// that stands where TDesign's examples put it goes first.
func (b *Body) forwarded(props []byte) error {
	if props[0] != '{' || b.Answer != nil {
		return nil
	}
	return agui.EachMember(props, func(key, val []byte) error {
		if string(key) != "toolCallMessage" {
			return nil
		}
		return b.answer(val)
	})
}

// answer reads an answered tool call. The page may have lost the call's id, which the server has to
// make up for.
func (b *Body) answer(val []byte) error {
	if string(val) == "null" {
		return nil
	}
	a := new(Answer)
	b.Answer = a
	return agui.EachMember(val, func(key, val []byte) error {
		switch string(key) {
		case "toolCallId":
			return readString(&a.ToolCallID, val)
		case "toolCallName":
			return readString(&a.ToolCallName, val)
		case "result":
			return a.readResult(val)
		}
		return nil
	})
}

// readResult: pages send JSON in a string. Words that are no JSON are a string
// and nothing more, and what is in the string is looked at as a body is.
// The text is checked for duplicate keys and depth, because CheckJSON of the body has seen a string
// only.
func (a *Answer) readResult(val []byte) error {
	if string(val) == "null" {
		return nil
	}
	a.Result = bytes.Clone(val)
	if val[0] != '"' {
		return nil
	}
	var inner string
	if err := readString(&inner, val); err != nil {
		return err
	}
	if !json.Valid([]byte(inner)) {
		return nil
	}
	a.Result = json.RawMessage(inner)
	return agui.CheckJSON(a.Result, agui.MaxJSONDepth)
}

// readString reads a string; null leaves dst as it is.
func readString(dst *string, val []byte) error {
	if string(val) == "null" {
		return nil
	}
	if val[0] != '"' || json.Unmarshal(val, dst) != nil {
		return &agui.InputError{Reason: "must be a string"}
	}
	return nil
}
