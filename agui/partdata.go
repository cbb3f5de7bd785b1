// This file moves media between a message and a store of files: a part holds its bytes as base64, or
// a source that points to them.

package agui

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// Data is the bytes of a part that holds them itself; false for any other, and for what is not base64.
func (p *ContentPart) Data() ([]byte, bool) {
	if p.Source == nil || p.Source.Type != SourceData {
		return nil, false
	}
	for _, form := range [...]*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		if data, err := form.DecodeString(p.Source.Value); err == nil {
			return data, true
		}
	}
	return nil, false
}

// Filename returns the name of a document from its metadata, or one made from its type.
func (p *ContentPart) Filename() string {
	var named struct{ Filename, FileName, Name string }
	_ = json.Unmarshal(p.Metadata, &named) // another form names nothing
	if name := cmp.Or(named.Filename, named.FileName, named.Name); name != "" {
		return name
	}
	kind := ""
	if p.Source != nil {
		kind, _, _ = strings.Cut(strings.ToLower(p.Source.MimeType), ";")
	}
	_, ending, _ := strings.Cut(strings.TrimSpace(kind), "/")
	switch ending {
	case "plain":
		ending = "txt"
	case "markdown":
		ending = "md"
	}
	if ending == "" || strings.ContainsAny(ending, ".+-/ ") { // no ending of files
		return "file"
	}
	return "file." + ending
}

// DataSize is about how long Data is, without decoding it; 0 when there is none.
func (p *ContentPart) DataSize() int {
	if p.Source == nil || p.Source.Type != SourceData {
		return 0
	}
	return base64.StdEncoding.DecodedLen(len(p.Source.Value))
}

// WithSources is the message with other sources of its parts, where source gives one; the message itself is left as it
// is. changed is false when there is nothing other in it.
func (m Message) WithSources(source func(*ContentPart) *Source) (out Message, changed bool) {
	out = m
	for i := range m.Content.Parts {
		p := &m.Content.Parts[i]
		if p.Source == nil {
			continue
		}
		other := source(p)
		if other == nil {
			continue
		}
		if !changed {
			out.Content.Parts, out.kept, changed = slices.Clone(m.Content.Parts), nil, true
		}
		out.Content.Parts[i].Source = other
	}
	return out, changed
}

// DataSource is the source that holds the bytes itself.
func DataSource(data []byte, mimeType string) *Source {
	return &Source{Type: SourceData, Value: base64.StdEncoding.EncodeToString(data), MimeType: mimeType}
}
