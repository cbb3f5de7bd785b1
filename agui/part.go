package agui

import (
	"bytes"
	"encoding/json"
	"strings"
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

// Content is what a message says: a string, or parts. Parts that are not nil
// win over Text.
type Content struct {
	Text   string
	Parts  []ContentPart
	Absent bool // no content at all, which only an assistant message may have
}

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
	Type     string
	Value    string
	Provider string
	MimeType string
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

// AppendJSON appends the part as a JSON object.
func (p *ContentPart) AppendJSON(dst []byte) []byte {
	if len(p.Raw) > 0 {
		return appendRaw(dst, p.Raw)
	}
	dst = appendMember(append(dst, '{'), "type", p.Type)
	if p.Type == PartText {
		dst = appendMember(dst, "text", p.Text)
	}
	if p.Source != nil {
		dst = p.Source.appendJSON(appendKey(dst, "source"))
	}
	dst = appendOptional(dst, "id", p.ID)
	dst = appendOptionalRaw(dst, "metadata", p.Metadata)
	return append(dst, '}')
}

func (s *Source) appendJSON(dst []byte) []byte {
	dst = appendMember(append(dst, '{'), "type", s.Type)
	dst = appendMember(dst, "value", s.Value)
	dst = appendOptional(dst, "provider", s.Provider)
	dst = appendOptional(dst, "mimeType", s.MimeType)
	return append(dst, '}')
}

// UnmarshalJSON reads a string or an array of parts.
func (c *Content) UnmarshalJSON(raw []byte) error { return c.decode(bytes.TrimSpace(raw)) }

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
	ContentPart
	text                          *string
	mimeType, url, data, filename string
}

func (p *wirePart) member(key, raw []byte) error {
	switch string(key) {
	case "type":
		return decodeString(&p.Type, raw)
	case "id":
		return decodeString(&p.ID, raw)
	case "metadata":
		return decodeObject(&p.Metadata, raw)
	case "text":
		p.text = &p.Text
		return decodeString(&p.Text, raw)
	case "source":
		return decodeStruct(&p.Source, raw)
	case "mimeType":
		return decodeString(&p.mimeType, raw)
	case "url":
		return decodeString(&p.url, raw)
	case "data":
		return decodeString(&p.data, raw)
	case "filename":
		return decodeString(&p.filename, raw)
	}
	return nil
}

func (s *Source) member(key, raw []byte) error {
	switch string(key) {
	case "type":
		return decodeOneOf(&s.Type, raw, SourceData, SourceURL, SourceFile)
	case "value":
		return decodeString(&s.Value, raw)
	case "provider":
		return decodeString(&s.Provider, raw)
	case "mimeType":
		return decodeString(&s.MimeType, raw)
	}
	return nil
}

// decodePart looks at the type first: a part of an unknown type may use the
// same names for other things, so nothing in it is judged.
func decodePart(raw []byte) (ContentPart, error) {
	kind, err := partType(raw)
	if err != nil {
		return ContentPart{}, err
	}
	switch kind {
	case PartText, PartImage, PartAudio, PartVideo, PartDocument, partBinary:
	default:
		return ContentPart{Type: kind, Raw: bytes.Clone(raw)}, nil
	}
	var p wirePart
	if err := EachMember(raw, p.member); err != nil {
		return ContentPart{}, err
	}
	return p.upgraded()
}

func partType(raw []byte) (string, error) {
	var kind string
	err := EachMember(raw, func(key, val []byte) error {
		if string(key) == "type" {
			return decodeString(&kind, val)
		}
		return nil
	})
	if err == nil && kind == "" {
		err = within("type", wrong("is required"))
	}
	return kind, err
}

// upgraded is the part in the words of 1.0 alone.
func (p *wirePart) upgraded() (ContentPart, error) {
	part := p.ContentPart
	switch part.Type {
	case PartText:
		part.Source = nil
		if p.text == nil {
			return part, within("text", wrong("is required"))
		}
		return part, nil
	case partBinary:
		return p.upgradedBinary()
	}
	part.Text = ""
	if part.Source == nil {
		return part, within("source", wrong("is required"))
	}
	if part.Source.Type == "" {
		return part, within("source", within("type", wrong("is required")))
	}
	return part, nil
}

// upgradedBinary turns 0.x's {type: binary, mimeType, data | url | id} into the
// media part of 1.0 that its MIME type names.
func (p *wirePart) upgradedBinary() (ContentPart, error) {
	source := &Source{MimeType: p.mimeType}
	switch {
	case p.data != "":
		source.Type, source.Value = SourceData, p.data
	case p.url != "":
		source.Type, source.Value = SourceURL, p.url
	case p.ID != "":
		source.Type, source.Value = SourceFile, p.ID
	default:
		return ContentPart{}, wrong("a binary part needs data, url or id")
	}
	part := ContentPart{Type: PartDocument, Source: source, Metadata: p.Metadata}
	major, _, _ := strings.Cut(p.mimeType, "/")
	switch major {
	case PartImage, PartAudio, PartVideo:
		part.Type = major
	}
	if p.filename != "" && part.Metadata == nil {
		part.Metadata = append(appendMember([]byte{'{'}, "filename", p.filename), '}')
	}
	return part, nil
}
