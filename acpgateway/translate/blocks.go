package translate

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
)

// Skipped is a part of a message that an agent cannot be given.
type Skipped struct {
	Index  int    `json:"index"`
	Type   string `json:"type"`
	Reason string `json:"reason"`
}

// Blocks is a user's message as an agent with these capabilities takes it. Text and links
// every agent takes.
func Blocks(m agui.Message, caps wire.PromptCapabilities) (blocks []wire.Block, skipped []Skipped) {
	if m.Content.Parts == nil {
		if m.Content.Text == "" {
			return nil, nil
		}
		return []wire.Block{{Type: wire.BlockText, Text: m.Content.Text}}, nil
	}
	for i, part := range m.Content.Parts {
		block, reason := blockOf(i, part, caps)
		if reason != "" {
			skipped = append(skipped, Skipped{Index: i, Type: part.Type, Reason: reason})
			continue
		}
		blocks = append(blocks, block)
	}
	return blocks, skipped
}

// Notice tells the chat what was left out of a prompt.
func Notice(skipped []Skipped) agui.Event {
	return &agui.Custom{Name: "acp.parts_skipped", Value: marshal(skipped)}
}

// blockOf is one part as a block, or the reason why there is none. What an agent does not take as it is goes in as an
// embedded resource, if it takes those: every kind of file can be one.
func blockOf(i int, p agui.ContentPart, caps wire.PromptCapabilities) (wire.Block, string) {
	switch {
	case p.Type == agui.PartText:
		return wire.Block{Type: wire.BlockText, Text: p.Text}, ""
	case p.Source == nil:
		return wire.Block{}, "a part of this type is not known"
	case !p.Followed():
		return wire.Block{}, "its address is not http or https"
	case p.Source.Type == agui.SourceURL:
		return wire.Block{Type: wire.BlockResourceLink, URI: p.Source.Value, Name: partName(i, p), MimeType: p.Source.MimeType}, ""
	case p.Source.Type != agui.SourceData:
		return wire.Block{}, "a file of a provider's cannot be read by the agent"
	case p.Type == agui.PartImage && caps.Image:
		return wire.Block{Type: wire.BlockImage, Data: p.Source.Value, MimeType: p.Source.MimeType}, ""
	case p.Type == agui.PartAudio && caps.Audio:
		return wire.Block{Type: wire.BlockAudio, Data: p.Source.Value, MimeType: p.Source.MimeType}, ""
	case caps.EmbeddedContext:
		return wire.Block{Type: wire.BlockResource, Resource: resource(i, p)}, ""
	}
	return wire.Block{}, "the agent does not take " + p.Type
}

// resource embeds a document; one that is text as text.
func resource(i int, p agui.ContentPart) *wire.Resource {
	r := &wire.Resource{URI: "attachment:///" + strconv.Itoa(i) + "/" + partName(i, p), MimeType: p.Source.MimeType}
	if strings.HasPrefix(r.MimeType, "text/") || r.MimeType == "application/json" {
		if text, err := base64.StdEncoding.DecodeString(p.Source.Value); err == nil && utf8.Valid(text) {
			r.Text = string(text)
			return r
		}
	}
	r.Blob = p.Source.Value
	return r
}

// partName is the name a part's metadata gives it.
func partName(i int, p agui.ContentPart) string {
	var meta struct{ Filename, Name string }
	_ = json.Unmarshal(p.Metadata, &meta) // without a name it gets one
	return cmp.Or(meta.Filename, meta.Name, p.Type+"-"+strconv.Itoa(i+1))
}
