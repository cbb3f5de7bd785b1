// Large parts of messages (pictures, sound, documents) over HTTP. A history names them by
// /api/threads/{id}/parts/{sha256} in place of their bytes, so that a page loads what it shows and nothing else.

package server

import (
	"cmp"
	"context"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/contextstore"
	"aqueduct/server/decode"
	"aqueduct/server/route"
	"aqueduct/store"
)

// shownParts are the types that a browser only draws or plays. Whatever else a part may be is offered as a download:
// an SVG or a page of HTML opened by its URL would run its scripts with the rights of ours. Types of documents are
// not among them, PDF included, because viewers run scripts too.
var shownParts = map[string]bool{
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true, "image/bmp": true,
	"audio/mpeg": true, "audio/mp4": true, "audio/ogg": true, "audio/wav": true, "audio/x-wav": true, "audio/webm": true, "audio/flac": true,
	"video/mp4": true, "video/webm": true, "video/ogg": true, "text/plain": true,
}

// parts is GET /api/threads/{id}/parts/{sha256}, for users and, by the token of a run, for its agent: large parts of a
// prompt are URLs there.
type parts struct {
	threads *threads
	entries *contextstore.Service
	agents  agentCallers
}

// Mount adds the route as an open one, because a run token is no credential of a caller; each handler checks it first.
func (h *parts) Mount(to *route.Routes) {
	const path = "/api/threads/:id/parts/:sha256"
	own := to.Beside(http.MethodGet, path, h.ofUser)
	to.Open(http.MethodGet, path, func(c echo.Context) error {
		if token, err := runToken(c); err == nil {
			return h.ofAgent(c, token)
		}
		return own(c)
	})
}

// ofUser gives a part to who may see the thread. The thread is found first, so the hash alone opens nothing: a user who
// learned it from elsewhere gets 404.
func (h *parts) ofUser(c echo.Context) error {
	s, err := h.threads.find(c)
	if err != nil {
		return err
	}
	ctx, caller := callerOf(c)
	p, err := h.threads.store.MessagePart(ctx, caller.Scope(), s.ID, sumOf(c))
	if err != nil {
		return err
	}
	return h.serve(c, ctx, reading{who: caller.Principal}, p)
}

// ofAgent gives a part to an agent that was called with the message that names it, as its user sent it.
func (h *parts) ofAgent(c echo.Context, token string) error {
	who, err := h.agents.known(c, token)
	if err != nil {
		return err
	}
	id, err := decode.PathID(c, "id")
	if err != nil {
		return err
	}
	ctx := store.WithOriginals(c.Request().Context())
	p, err := h.threads.sessions.AgentRequests().Part(ctx, token, id, sumOf(c))
	if err != nil {
		return agentProblem(err)
	}
	return h.serve(c, ctx, reading{who: who, original: true}, p)
}

// sumOf is the hash that the path names.
func sumOf(c echo.Context) string { return strings.ToLower(c.Param("sha256")) }

// reading is as whom a part is read. original: as it was sent, and not with its secrets masked.
type reading struct {
	who      store.Principal
	original bool
}

// serve sends the bytes of a part. They never change, and are kept by the caller's own browser only. net/http answers ranges and If-None-Match.
// The policy header keeps a document that a browser shows from running scripts or loading anything.
func (h *parts) serve(c echo.Context, ctx context.Context, as reading, p store.MessagePart) error {
	if p.KID != "" { // decrypted in memory
		if err := h.threads.in.Hold(c, as.who, p.BlobSize); err != nil {
			return err
		}
	}
	from, err := h.entries.Part(ctx, p, as.original)
	if err != nil {
		return err
	}
	defer from.Close() // it was read
	kind, disposition := partType(p.MimeType)
	header := c.Response().Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Disposition", disposition)
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	header.Set("ETag", `"`+p.SHA256+`"`)
	// The name is the hash of the content, so a part can never become stale; private keeps it out of shared caches.
	header.Set("Cache-Control", "private, max-age=31536000, immutable")
	http.ServeContent(c.Response(), c.Request(), "", time.Time{}, from)
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
