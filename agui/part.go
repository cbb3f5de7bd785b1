// This file is the content of messages: text, or parts with media. Clients of 0.x have another form
// for media, which is rewritten when it is read, so that only one form is known behind this file.

package agui

import (
	"bytes"
	"encoding/json"
	"strings"

	"aqueduct/internal/strictjson"
)

// The content part types of AG-UI 1.0.
const (
	PartText     = "text"
	PartImage    = "image"
	PartAudio    = "audio"
	PartVideo    = "video"
	PartDocument = "document"

	partBinary = "binary" // of 0.x; read as one of the above
)

// The kinds of a part's source.
const (
	SourceData = "data" // base64 in Value
	SourceURL  = "url"
	SourceFile = "file" // an opaque handle of a provider's; never to be fetched
)

// Content is the content of a message: a string, or parts. Parts that are not nil
// win over Text.
type Content struct {
	Text   string
	Parts  []ContentPart
	Absent bool // no content at all, which only an assistant message may have
}

// JSONBounds implements [strictjson.Bounded]: the parts are read here.
func (*Content) JSONBounds() *strictjson.Bounds {
	return &strictjson.Bounds{Most: maxParts}
}

// maxParts bounds the parts of one content: what an agent sent in one comes back in a client's history.
const maxParts = 20_000

// ContentPart is one part of a content. A part of a type this version does not
// know is Raw and nothing else: an agent skips what it cannot use.
type ContentPart struct {
	Type     string
	Text     string
	Source   *Source
	ID       string
	Metadata json.RawMessage
	Raw      json.RawMessage
}

// Source is where a media part's bytes are.
type Source struct {
	Type     string `agui:"type,always,oneof=data|url|file"`
	Value    string `agui:"value,always"`
	Provider string `agui:"provider"`
	MimeType string `agui:"mimeType"`
}

// Text makes a content of plain text.
func Text(s string) Content { return Content{Text: s} }

// String is the content as text: its text parts joined, media left out.
func (c Content) String() string {
	if c.Parts == nil {
		return c.Text
	}
	var b strings.Builder
	for i := range c.Parts {
		b.WriteString(c.Parts[i].Text)
	}
	return b.String()
}

// AppendJSON appends the content as a JSON string or an array of parts.
func (c Content) AppendJSON(dst []byte) []byte {
	if c.Parts == nil {
		return AppendString(dst, c.Text)
	}
	dst = append(dst, '[')
	for i := range c.Parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = c.Parts[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

// AppendJSON appends the part as a JSON object; a text in place of one that readers may not follow.
func (p *ContentPart) AppendJSON(dst []byte) []byte {
	if !p.Followed() {
		p = &ContentPart{Type: PartText, Text: leftOutFile}
	}
	if len(p.Raw) > 0 {
		return appendRaw(dst, p.Raw)
	}
	dst = appendMember(append(dst, '{'), "type", p.Type)
	if p.Type == PartText {
		dst = appendMember(dst, "text", p.Text)
	}
	if p.Source != nil {
		dst = appendObject(appendKey(dst, "source"), p.Source)
	}
	dst = appendOptional(dst, "id", p.ID)
	dst = appendOptionalRaw(dst, "metadata", p.Metadata)
	return append(dst, '}')
}

// UnmarshalJSON reads a string or an array of parts.
func (c *Content) UnmarshalJSON(raw []byte) error { return c.decode(bytes.TrimSpace(raw)) }

// decode reads a string or an array; raw has no white space around it.
func (c *Content) decode(raw []byte) error {
	switch raw[0] {
	case '"':
		*c = Content{Text: unquote(raw)}
		return nil
	case '[':
		*c = Content{}
		return decodeParts(&c.Parts, raw)
	}
	return wrong("must be a string or an array of content parts")
}

// decodeParts keeps the difference between no parts and an empty list.
func decodeParts(dst *[]ContentPart, raw []byte) error {
	list := []ContentPart{}
	err := EachElement(raw, func(val []byte) error {
		part, err := decodePart(val)
		list = append(list, part)
		return err
	})
	*dst = list
	return err
}

// wirePart is a part as it came, with the members of 0.x's binary part.
type wirePart struct {
	Type     string          `agui:"type"`
	Source   *Source         `agui:"source"`
	ID       string          `agui:"id"`
	Metadata json.RawMessage `agui:"metadata,object"`
	MimeType string          `agui:"mimeType"`
	URL      string          `agui:"url"`
	Data     string          `agui:"data"`
	Filename string          `agui:"filename"`

	text    string
	hasText bool
}

// member reads the text, which may be empty but not missing.
func (p *wirePart) member(key, raw []byte) error {
	if string(key) != "text" {
		return nil
	}
	p.hasText = true
	return decodeString(&p.text, raw)
}

// decodePart looks at the type first: a part of an unknown type may use the
// same names for other things, so nothing in it is judged.
func decodePart(raw []byte) (ContentPart, error) {
	kind, err := typeMember(raw)
	if err != nil {
		return ContentPart{}, err
	}
	switch kind {
	case PartText, PartImage, PartAudio, PartVideo, PartDocument, partBinary:
	default:
		return ContentPart{Type: kind, Raw: bytes.Clone(raw)}, nil
	}
	var p wirePart
	if err := readObject(raw, &p); err != nil {
		return ContentPart{}, err
	}
	return p.upgraded()
}

// upgraded is the part in the words of 1.0 alone. Members that the type does not have are dropped,
// even if a client has sent them: an agent that finds a source in a text part may read either.
func (p *wirePart) upgraded() (ContentPart, error) {
	part := ContentPart{Type: p.Type, ID: p.ID, Metadata: p.Metadata}
	switch part.Type {
	case PartText:
		if !p.hasText {
			return part, within("text", wrong("is required"))
		}
		part.Text = p.text
		return part, nil
	case partBinary:
		return p.upgradedBinary()
	}
	part.Source = p.Source
	if part.Source == nil {
		return part, within("source", wrong("is required"))
	}
	if part.Source.Type == "" {
		return part, within("source", within("type", wrong("is required")))
	}
	part.Source.Plain()
	return part, nil
}

// upgradedBinary turns 0.x's {type: binary, mimeType, data | url | id} into the
// media part of 1.0 that its MIME type names.
func (p *wirePart) upgradedBinary() (ContentPart, error) {
	source := &Source{MimeType: p.MimeType}
	switch {
	case p.Data != "":
		source.Type, source.Value = SourceData, p.Data
	case p.URL != "":
		source.Type, source.Value = SourceURL, p.URL
	case p.ID != "":
		source.Type, source.Value = SourceFile, p.ID
	default:
		return ContentPart{}, wrong("a binary part needs data, url or id")
	}
	source.Plain()
	part := ContentPart{Type: PartDocument, Source: source, Metadata: p.Metadata}
	major, _, _ := strings.Cut(source.MimeType, "/")
	switch major {
	case PartImage, PartAudio, PartVideo:
		part.Type = major
	}
	if p.Filename != "" && part.Metadata == nil {
		part.Metadata = append(appendMember([]byte{'{'}, "filename", p.Filename), '}')
	}
	return part, nil
}
