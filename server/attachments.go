// Attachments of chats: a file is uploaded first and then named by the message that brings it. Until a message does, it is
// an entry of the context store that expires; from then on it is a part of the thread (parts.go).

package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/contextstore"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// attachments is POST /api/attachments.
type attachments struct {
	entries *contextstore.Service
	in      *decode.Decoder
	public  string // where people reach this server; "" leaves URLs as paths
}

// Mount adds the route, for users.
func (h *attachments) Mount(to *route.Routes) {
	to.Callers(http.MethodPost, attachmentsPath, h.upload)
}

const (
	attachmentsPath = "/api/attachments"
	// attachmentLife is how long a file waits for the message that it was uploaded for: a day, so that a draft is there in
	// the morning.
	attachmentLife = 24 * time.Hour
	// attachmentForm is what a form may hold beside the file: its boundaries, headers and small fields.
	attachmentForm = 64 << 10
	// maxFilename bounds a name that is kept.
	maxFilename = 255
	// sniffed is how many bytes of a file its type is found in.
	sniffed = 512
)

// attachmentKinds are the top-level media types of files. What is left out (multipart, message, model …) is no file that an
// agent is given.
func attachmentKinds() []string {
	return []string{"image", "audio", "video", "text", "application", "font"}
}

// attachmentJSON is an uploaded file. type and url are those of the content part that names it.
type attachmentJSON struct {
	ID        string     `json:"id"`
	URL       string     `json:"url"`
	Type      string     `json:"type"`
	MimeType  string     `json:"mimeType"`
	Filename  string     `json:"filename,omitempty"`
	Size      int64      `json:"size"`
	SHA256    string     `json:"sha256,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt"`
}

// attachmentQuery is the name of a file whose bytes are the body.
type attachmentQuery struct {
	Filename string `query:"filename" validate:"max=255"`
}

// upload takes a file: the body, or the first file of a form. Uploads are counted like prompts.
func (h *attachments) upload(c echo.Context) error {
	who := auth.From(c.Request().Context()).Principal
	if err := h.in.MayRun(c, who); err != nil {
		return err
	}
	f, err := h.file(c, who)
	if err != nil {
		return err
	}
	if len(f.Data) == 0 {
		return problem.Refuse(problem.InvalidBody, "The file is empty.")
	}
	if err := f.settleType(); err != nil {
		return err
	}
	var meta []byte
	if f.name != "" {
		meta, _ = json.Marshal(map[string]string{"filename": f.name}) // a text always can be written
	}
	e, err := h.entries.Mint(c.Request().Context(), contextstore.Caller{Principal: who}, contextstore.Minting{
		Owner: contextstore.Owner{Type: store.ContextOfUpload}, Content: f.Content, Metadata: meta, TTL: attachmentLife,
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, attachmentJSON{
		ID: e.Key, URL: strings.TrimSuffix(h.public, "/") + bridge.AttachmentURL(e.Key, e.SHA256), Type: partKind(e.ContentType), MimeType: e.ContentType,
		Filename: f.name, Size: e.Size, SHA256: e.SHA256, ExpiresAt: &e.ExpiresAt,
	})
}

// file is an uploaded file.
type file struct {
	contextstore.Content
	name string
}

// file reads the body.
func (h *attachments) file(c echo.Context, who store.Principal) (f file, err error) {
	media, params, err := mime.ParseMediaType(c.Request().Header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	if media == "multipart/form-data" {
		data, err := h.in.BodyOf(c, who, contextstore.MaxContent+attachmentForm)
		if err != nil {
			return f, err
		}
		return formFile(data, params["boundary"])
	}
	var q attachmentQuery
	if err := h.in.Query(c, &q); err != nil {
		return f, err
	}
	f.Type, f.name = c.Request().Header.Get("Content-Type"), baseName(q.Filename)
	f.Data, err = h.in.BodyOf(c, who, contextstore.MaxContent)
	return f, err
}

// formFile is the first file of a form. Its other fields mean nothing here: upload components send some of their own.
func formFile(body []byte, boundary string) (f file, err error) {
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		p, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return f, problem.Refuse(problem.InvalidBody, "The form has no file.")
		}
		if err != nil {
			return f, problem.Refuse(problem.InvalidBody, "The form could not be read.")
		}
		if p.FileName() == "" {
			continue
		}
		f.Type, f.name = p.Header.Get("Content-Type"), baseName(p.FileName())
		if f.Data, err = io.ReadAll(p); err != nil {
			return f, problem.Refuse(problem.InvalidBody, "The form could not be read.")
		}
		if len(f.Data) > contextstore.MaxContent {
			return f, &http.MaxBytesError{Limit: contextstore.MaxContent}
		}
		return f, nil
	}
}

// baseName is a file's name without folders, in one line and of bounded length.
func baseName(given string) string {
	name := filepath.Base(strings.ReplaceAll(given, `\`, "/"))
	if given == "" || name == "." || name == "/" {
		return ""
	}
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	if len(name) > maxFilename {
		name = strings.ToValidUTF8(name[:maxFilename], "")
	}
	return name
}

// settleType is the type that the file is kept as. One that its sender does not know is found in its first bytes. What
// is called a picture, a sound or a video and reads as a text is neither: as such it would be shown inline.
func (f *file) settleType() error {
	media, params, err := mime.ParseMediaType(f.Type)
	if err != nil || media == "application/octet-stream" {
		media, params = "", nil
	}
	kind, _, _ := strings.Cut(media, "/")
	if media != "" && (!slices.Contains(attachmentKinds(), kind) || len(f.Type) > maxMediaType) {
		return problem.Refuse(problem.MediaType, "A file of that type is not taken: it is an image, audio, video, text, application or font.")
	}
	looks := http.DetectContentType(f.Data[:min(len(f.Data), sniffed)])
	if media == "" {
		f.Type = looks
		return nil
	}
	if media != "text/plain" && shownParts[media] && strings.HasPrefix(looks, "text/") {
		f.Type = "application/octet-stream"
		return nil
	}
	f.Type = cmp.Or(mime.FormatMediaType(media, params), "application/octet-stream")
	return nil
}

// partKind is AG-UI's type of a part with that media type.
func partKind(media string) string {
	switch kind, _, _ := strings.Cut(media, "/"); kind {
	case agui.PartImage, agui.PartAudio, agui.PartVideo:
		return kind
	}
	return agui.PartDocument
}
