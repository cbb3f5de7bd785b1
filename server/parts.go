// Large parts of messages (pictures, sound, documents) over HTTP. A history names them by
// /api/threads/{id}/parts/{sha256} in place of their bytes, so that a page loads what it shows and nothing else.

package server

import (
	"bytes"
	"cmp"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
)

// shownParts are the types that a browser only draws or plays. Whatever else a part may be is offered as a download:
// an SVG or a page of HTML opened by its URL would run its scripts with the rights of ours. Types of documents are
// not among them, PDF included, because viewers run scripts too.
var shownParts = map[string]bool{
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true, "image/bmp": true,
	"audio/mpeg": true, "audio/mp4": true, "audio/ogg": true, "audio/wav": true, "audio/x-wav": true, "audio/webm": true, "audio/flac": true,
	"video/mp4": true, "video/webm": true, "video/ogg": true, "text/plain": true,
}

// part is the bytes of a large part of a message, which the history names by this URL. They never change, and are
// kept by the caller's own browser only. net/http answers ranges and If-None-Match. The thread is found first, so the
// hash alone opens nothing: a user who learned it from elsewhere gets 404. The policy header keeps a document that a
// browser shows from running scripts or loading anything.
func (h *threads) part(c echo.Context) error {
	s, err := h.find(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	p, err := h.store.MessagePart(ctx, auth.From(ctx).Scope(), s.ID, strings.ToLower(c.Param("sha256")))
	if err != nil {
		return err
	}
	kind, disposition := partType(p.MimeType)
	header := c.Response().Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Disposition", disposition)
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	header.Set("ETag", `"`+p.SHA256+`"`)
	// The name is the hash of the content, so a part can never become stale; private keeps it out of shared caches.
	header.Set("Cache-Control", "private, max-age=31536000, immutable")
	http.ServeContent(c.Response(), c.Request(), "", time.Time{}, bytes.NewReader(p.Data))
	return nil
}

// partType is what a part is served as: the type that its client gave, where that is one. A type that cannot be
// parsed, or is multipart, becomes plain bytes, so that no browser has to guess what it is.
func partType(given string) (kind, disposition string) {
	media, params, err := mime.ParseMediaType(given)
	if err != nil || strings.HasPrefix(media, "multipart/") || !strings.Contains(media, "/") {
		return "application/octet-stream", "attachment"
	}
	// Of the parameters only a text's charset is kept; anything else was chosen by the sender and means nothing here.
	charset := params["charset"]
	params = nil
	if strings.HasPrefix(media, "text/") {
		params = map[string]string{"charset": cmp.Or(charset, "utf-8")}
	}
	if shownParts[media] {
		return mime.FormatMediaType(media, params), "inline"
	}
	return cmp.Or(mime.FormatMediaType(media, params), "application/octet-stream"), "attachment"
}
