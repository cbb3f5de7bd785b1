// Files in a transcript: what TDesign's attachment component takes, made of AG-UI's content parts. Parts with base64
// data have an address of this server by now (parts.go).

package server

import (
	"cmp"
	"encoding/json"
	"strings"

	"aqueduct/agui"
)

// pageFile is a media part as TDesign's attachment content takes it. fileType is one of image, video, audio, pdf,
// doc, ppt and txt; the page picks its icon by it.
type pageFile struct {
	FileType string `json:"fileType"`
	Name     string `json:"name"`
	URL      string `json:"url"`
	MimeType string `json:"mimeType,omitempty"`
}

// filesOf are the media parts of a content that something can be shown of: a provider's handle has no address, nor have bytes that
// are not base64.
func filesOf(c agui.Content) []pageFile {
	var files []pageFile
	for i := range c.Parts {
		p := &c.Parts[i]
		if p.Source == nil || p.Source.Type != agui.SourceURL || !p.Followed() { // data that is left here is not base64
			continue
		}
		files = append(files, pageFile{FileType: fileType(p), Name: fileName(p), URL: p.Source.Value, MimeType: p.Source.MimeType})
	}
	return files
}

// fileType is a part's type in the words of TDesign. Images, audio and video have the same names in both protocols;
// documents are divided further by their media type.
func fileType(p *agui.ContentPart) string {
	media := p.Source.MimeType
	switch {
	case p.Type != agui.PartDocument:
		return p.Type
	case media == "application/pdf":
		return "pdf"
	case strings.Contains(media, "presentation"), strings.Contains(media, "powerpoint"):
		return "ppt"
	case strings.HasPrefix(media, "text/"):
		return "txt"
	}
	return "doc"
}

// fileName is the name that a part's metadata gives it, or its type.
func fileName(p *agui.ContentPart) string {
	var meta struct{ Filename, Name string }
	_ = json.Unmarshal(p.Metadata, &meta) // without a name it gets one
	return cmp.Or(meta.Filename, meta.Name, p.Type)
}

// withLinks adds the files to what was typed, a line each, as Markdown: convertHistoryMessages hands on a user's
// content as one text, and leaves out every member that it does not know. Names lose what Markdown reads as more than a
// name, so that no file name can end the link and begin another. Addresses have none of it (agui, plainURL).
func withLinks(text string, files []pageFile) string {
	plain := strings.NewReplacer("[", "(", "]", ")", "<", "(", ">", ")", "`", "'", `\`, "/", "\n", " ", "\r", " ")
	lines := make([]string, 0, len(files)+1)
	if text != "" {
		lines = append(lines, text)
	}
	for _, f := range files {
		link := "[" + plain.Replace(f.Name) + "](" + f.URL + ")"
		if f.FileType == agui.PartImage {
			link = "!" + link
		}
		lines = append(lines, link)
	}
	return strings.Join(lines, "\n")
}
