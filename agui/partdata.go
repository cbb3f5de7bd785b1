// This file moves media between a message and a store of files: a part holds its bytes as base64, or
// a source that points to them.

package agui

import (
	"encoding/base64"
	"slices"
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
