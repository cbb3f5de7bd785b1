// This file judges the addresses of parts. Pages put them into links and pictures, and agents send them to models, so an address
// is http or https, or a path of this server's, in a spelling that every reader takes for the same.

package agui

import (
	"encoding/json"
	"mime"
	"net/url"
	"slices"
	"strings"
)

// leftOutFile is the text in place of a part whose address no reader may follow.
const leftOutFile = "[A file was left out here: its address is not http or https.]"

// plainURL returns an address in a spelling without characters that end a Markdown link or an HTML attribute. It reports false for
// an address that is neither http or https with a host and without a user, nor a path.
func plainURL(address string) (string, bool) {
	address = strings.Trim(address, " \t\r\n") // as a browser reads it
	// A browser drops tabs and line ends inside of an address and takes \ for /, net/url does not: the two must agree.
	if strings.ContainsFunc(address, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }) {
		return "", false
	}
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" || u.User != nil {
		return "", false
	}
	switch u.Scheme {
	case "http", "https": // in lower case: Parse has made it so
		if u.Hostname() == "" {
			return "", false
		}
	case "":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") {
			return "", false
		}
	default:
		return "", false
	}
	before, rest := "", address
	if u.Scheme != "" {
		rest = address[len(u.Scheme+"://"):]
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			end = len(rest)
		}
		before, rest = u.Scheme+"://"+encoded(rest[:end], "[]"), rest[end:] // [] are of an address of IPv6
	}
	return before + encoded(rest, ""), true
}

// encoded writes each byte with a percent sign that RFC 3986 does not have in an address, and those that end a Markdown link.
func encoded(text, more string) string {
	const hex, plain = "0123456789ABCDEF", "-._~:/?#@!$&*+,;=%"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte(plain, c) >= 0 || strings.IndexByte(more, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}

// followed is ContentPart.Followed for a source.
func (s *Source) followed() bool {
	switch s.Type {
	case SourceURL:
		_, ok := plainURL(s.Value)
		return ok
	case SourceFile:
		return !runs(s.Value) // a provider's handle may have a scheme
	}
	return true
}

// runs reports whether a text is an address that a browser or a program would run or read from the machine.
func runs(text string) bool {
	scheme, _, ok := strings.Cut(strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text[:min(len(text), maxScheme)]), ":")
	if !ok {
		return false
	}
	switch strings.ToLower(scheme) {
	case "javascript", "vbscript", "data", "file", "blob", "filesystem", "view-source":
		return true
	}
	return false
}

// plainType returns a media type, or "" for a text that is none: pages write it into data URLs.
func plainType(given string) string {
	if _, _, err := mime.ParseMediaType(given); err != nil {
		return ""
	}
	return given
}

// maxScheme is how far into a text a scheme is looked for, with the control characters between its letters.
const maxScheme = 256

// Followed reports whether readers may follow the addresses of the part. A part of a type that is not known names its own in
// whatever member, so all of its texts count.
func (p *ContentPart) Followed() bool {
	if len(p.Raw) > 0 {
		var value any
		return json.Unmarshal(p.Raw, &value) != nil || !anyRuns(value)
	}
	return p.Source == nil || p.Source.followed()
}

func anyRuns(value any) bool {
	switch v := value.(type) {
	case string:
		return runs(v)
	case []any:
		return slices.ContainsFunc(v, anyRuns)
	case map[string]any:
		for _, item := range v {
			if anyRuns(item) {
				return true
			}
		}
	}
	return false
}
