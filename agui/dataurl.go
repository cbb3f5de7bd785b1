// This file normalizes the many forms in which clients send the bytes of a part. The same picture then has the same bytes: it
// is kept once, compared as one, and forwarded as one.

package agui

import (
	"encoding/base64"
	"net/url"
	"strings"
)

const dataScheme = "data:"

// hasDataScheme reports whether a value is a data URL. Schemes are case-insensitive.
func hasDataScheme(value string) bool {
	return len(value) >= len(dataScheme) && strings.EqualFold(value[:len(dataScheme)], dataScheme)
}

// Plain normalizes a source with inline bytes: base64 of the standard alphabet in Value, and their type in MimeType. Clients
// also write a data URL into it, once or twice, as a URL or as the data. They use parameters, percent signs, the URL alphabet
// or line breaks. A value that is not base64 does not change.
//
// Of an address it makes one spelling (plainURL). One that no reader may follow does not change.
func (s *Source) Plain() {
	s.plainData()
	if s.Type == SourceURL {
		if address, ok := plainURL(s.Value); ok {
			s.Value = address
		}
	}
	s.MimeType = plainType(s.MimeType)
}

func (s *Source) plainData() {
	mimeType, value := s.MimeType, s.Value
	for { // URLs are read without the white space before them
		address := strings.TrimLeft(value, " \t\r\n")
		if !hasDataScheme(address) {
			break
		}
		kind, data, ok := readDataURL(address)
		if !ok {
			return
		}
		if kind != "" && unknownType(mimeType) {
			mimeType = kind
		}
		s.Type, value = SourceData, data
	}
	if s.Type != SourceData {
		return
	}
	value, ok := standardBase64(value)
	if !ok {
		return
	}
	if mimeType = bareType(mimeType); unknownType(mimeType) {
		if found := typeOfBytes(value); found != "" {
			mimeType = found
		}
	}
	s.Value, s.MimeType = value, mimeType
}

// readDataURL returns the type and the base64 of a data URL (RFC 2397).
func readDataURL(text string) (kind, data string, ok bool) {
	kind, data, ok = strings.Cut(text[len(dataScheme):], ",")
	if !ok {
		return "", "", false
	}
	if at := strings.LastIndexByte(kind, ';'); at >= 0 && strings.EqualFold(strings.TrimSpace(kind[at+1:]), "base64") {
		kind = kind[:at]
		if strings.IndexByte(data, '%') >= 0 && !hasDataScheme(data) {
			if data, err := url.PathUnescape(data); err == nil {
				return kind, data, true
			}
		}
		return kind, data, true
	}
	plain, err := url.PathUnescape(data)
	return kind, base64.StdEncoding.EncodeToString([]byte(plain)), err == nil
}

// standardBase64 returns base64 of the standard alphabet with padding and without white space. It reports false for text that
// is not base64. Most values are megabytes in that form already, so only other values are copied.
func standardBase64(text string) (string, bool) {
	if len(text)%4 == 0 && !strings.ContainsAny(text, "-_ \r\n\t") {
		return text, true
	}
	whole := strings.TrimRight(strings.Map(func(r rune) rune {
		switch r {
		case '-':
			return '+'
		case '_':
			return '/'
		case ' ', '\r', '\n', '\t':
			return -1
		}
		return r
	}, text), "=")
	if len(whole)%4 == 1 || !isBase64(whole) {
		return "", false
	}
	return whole + "==="[:(4-len(whole)%4)%4], true
}

// HasBytes reports whether a data source has readable bytes: base64 of the standard alphabet with padding.
func (s *Source) HasBytes() bool {
	whole := strings.TrimRight(s.Value, "=")
	return whole != "" && len(s.Value)%4 == 0 && len(s.Value)-len(whole) <= 2 && isBase64(whole)
}

// isBase64 reports whether a text uses only the standard alphabet.
func isBase64(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '+' && c != '/' {
			return false
		}
	}
	return true
}

// unknownType reports whether a MIME type does not identify a format.
func unknownType(mimeType string) bool {
	return mimeType == "" || bareType(mimeType) == "application/octet-stream"
}

// bareType returns a MIME type in lower case. It drops the parameters, except those of a text type, whose charset counts.
func bareType(mimeType string) string {
	kind, parameters, _ := strings.Cut(mimeType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	if parameters != "" && strings.HasPrefix(kind, "text/") {
		return kind + ";" + parameters
	}
	return kind
}

// typeOfBytes detects the type of base64 from its first bytes. It returns "" for other formats, which providers do not accept
// without a type.
func typeOfBytes(data string) string {
	begin, err := base64.StdEncoding.DecodeString(data[:min(len(data), 16)])
	if err != nil {
		return ""
	}
	for _, known := range [...]struct{ mimeType, prefix, at8 string }{
		{"image/png", "\x89PNG", ""}, {"image/jpeg", "\xFF\xD8\xFF", ""}, {"image/gif", "GIF8", ""}, {"image/webp", "RIFF", "WEBP"},
		{"audio/wav", "RIFF", "WAVE"}, {"audio/mpeg", "ID3", ""}, {"audio/mpeg", "\xFF\xFB", ""}, {"application/pdf", "%PDF", ""},
	} {
		if strings.HasPrefix(string(begin), known.prefix) && (known.at8 == "" || len(begin) >= 12 && string(begin[8:12]) == known.at8) {
			return known.mimeType
		}
	}
	return ""
}
