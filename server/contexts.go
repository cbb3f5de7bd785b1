// The context store over HTTP (platform contract §11.1): POST /v1/context mints a key, PUT, GET and DELETE work on what is
// under it. Who may use an entry is the store's business (bridge/contextstore); this file reads requests and words answers.

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/contextstore"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// contexts is /v1/context. The same paths serve agents and users: a run token has a form that no user's token has.
type contexts struct {
	entries *contextstore.Service
	agents  agentCallers
	in      *decode.Decoder
}

// Mount adds the routes as open ones, because a run token is no credential of a caller; each handler checks it first.
func (h *contexts) Mount(to *route.Routes) {
	const path = "/v1/context/:key"
	h.mount(to, http.MethodPost, "/v1/context", h.mint)
	h.mount(to, http.MethodGet, "/v1/context", h.list)
	h.mount(to, http.MethodPut, path, h.put)
	h.mount(to, http.MethodGet, path, h.get)
	h.mount(to, http.MethodDelete, path, h.delete)
}

// mount adds a route whose handler gets the caller, agent or user. Both are counted like an agent's calls.
func (h *contexts) mount(to *route.Routes, method, path string, handle func(echo.Context, contextstore.Caller) error) {
	own := to.Beside(method, path, func(c echo.Context) error {
		who := auth.From(c.Request().Context()).Principal
		if err := h.in.MayInvoke(c, who); err != nil {
			return err
		}
		return handle(c, contextstore.Caller{Principal: who})
	})
	to.Open(method, path, func(c echo.Context) error {
		if _, err := runToken(c); err != nil {
			return own(c)
		}
		token, _, err := h.agents.counted(c)
		if err != nil {
			return err
		}
		who, err := h.agents.sessions.AgentRequests().ContextCaller(c.Request().Context(), token)
		if err != nil {
			return agentProblem(err)
		}
		return handle(c, who)
	})
}

// contextBody is an entry whose content is JSON. A content of another type is a body of that type, and the rest is in
// the query.
type contextBody struct {
	OwnerType  string          `json:"owner_type" validate:"omitempty,oneof=session run user agent"`
	OwnerID    string          `json:"owner_id" validate:"max=128"`
	TTLSeconds int64           `json:"ttl_seconds" validate:"gte=0,lte=315360000"`
	Content    json.RawMessage `json:"content"`
	Metadata   json.RawMessage `json:"metadata"`
}

// contextQuery is the same beside a content of another type.
type contextQuery struct {
	OwnerType  string `query:"owner_type" validate:"omitempty,oneof=session run user agent"`
	OwnerID    string `query:"owner_id" validate:"max=128"`
	TTLSeconds int64  `query:"ttl_seconds" validate:"gte=0,lte=315360000"` // 10 years; 0 is for good
}

// contextJSON is an entry without its content.
type contextJSON struct {
	ContextKey  string          `json:"context_key"`
	OwnerType   string          `json:"owner_type"`
	OwnerID     string          `json:"owner_id"`
	Version     int64           `json:"version"`
	ContentType string          `json:"content_type"`
	Size        int64           `json:"size"`
	SHA256      string          `json:"sha256,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
	ExpiresAt   *time.Time      `json:"expires_at,omitempty"`
}

func contextOut(e store.ContextEntry) contextJSON {
	out := contextJSON{
		ContextKey: e.Key, OwnerType: string(e.OwnerType), OwnerID: e.OwnerID, Version: e.Version, ContentType: e.ContentType, Size: e.Size, SHA256: e.SHA256,
		Metadata: e.Metadata, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt,
	}
	if !e.ExpiresAt.IsZero() {
		out.ExpiresAt = &e.ExpiresAt
	}
	return out
}

// mint is POST /v1/context.
func (h *contexts) mint(c echo.Context, who contextstore.Caller) error {
	var q contextQuery
	m := contextstore.Minting{}
	if sendsJSON(c.Request()) {
		var body contextBody
		if err := h.in.JSON(c, &body); err != nil {
			return err
		}
		if err := metadataOf(body.Metadata, &m); err != nil {
			return err
		}
		q = contextQuery{body.OwnerType, body.OwnerID, body.TTLSeconds}
		if m.Data = body.Content; len(m.Data) > 0 {
			m.Content.Type = "application/json"
		}
	} else {
		if err := h.in.Query(c, &q); err != nil {
			return err
		}
		var err error
		if m.Content, err = h.content(c, who); err != nil {
			return err
		}
	}
	m.Owner = contextstore.Owner{Type: store.ContextOwner(q.OwnerType), ID: q.OwnerID}
	m.TTL = time.Duration(q.TTLSeconds) * time.Second
	e, err := h.entries.Mint(c.Request().Context(), who, m)
	return describe(c, http.StatusCreated, e, err)
}

// contextPage is whose entries are listed, and from where on.
type contextPage struct {
	OwnerType string `query:"owner_type" validate:"omitempty,oneof=session run user agent upload"`
	OwnerID   string `query:"owner_id" validate:"max=128"`
	Limit     int    `query:"limit" validate:"gte=0,lte=1000"`
	After     string `query:"after" validate:"omitempty,uuid"`
}

// contextListJSON is a page of entries; next is what ?after= takes to get the page behind it.
type contextListJSON struct {
	Entries []contextJSON `json:"entries"`
	Next    string        `json:"next,omitempty"`
}

// list is GET /v1/context: with it a user finds what agents keep, and a caller the key of an answer that got lost.
func (h *contexts) list(c echo.Context, who contextstore.Caller) error {
	var q contextPage
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	page := store.Page{Limit: q.Limit, After: q.After}
	rows, err := h.entries.List(c.Request().Context(), who, contextstore.Owner{Type: store.ContextOwner(q.OwnerType), ID: q.OwnerID}, page)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, contextListJSON{
		Entries: eachOut(rows, contextOut), Next: nextOf(rows, page.Size(), func(e store.ContextEntry) string { return e.Key }),
	})
}

// metadataOf takes an object of bounded size.
func metadataOf(raw json.RawMessage, m *contextstore.Minting) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] != '{' || len(raw) > contextstore.MaxMetadata {
		return problem.Refuse(problem.InvalidBody, fmt.Sprintf("At /metadata: must be an object of at most %d bytes.", contextstore.MaxMetadata))
	}
	m.Metadata = raw
	return nil
}

// content is a body of any type. Its bytes are held against the share of the user whose entry it is.
func (h *contexts) content(c echo.Context, who contextstore.Caller) (contextstore.Content, error) {
	kind := c.Request().Header.Get("Content-Type")
	if media, params, err := mime.ParseMediaType(kind); err != nil || len(kind) > maxMediaType {
		kind = "application/octet-stream"
	} else {
		kind = mime.FormatMediaType(media, params)
	}
	data, err := h.in.BodyOf(c, who.Principal, contextstore.MaxContent)
	return contextstore.Content{Type: kind, Data: data}, err
}

// maxMediaType bounds a media type that is kept: the longest that is registered has 80 characters.
const maxMediaType = 255

// contextPut is how long the new version lasts; nil leaves it as it was.
type contextPut struct {
	TTLSeconds *int64 `query:"ttl_seconds" validate:"omitempty,gte=0,lte=315360000"`
}

// put is PUT /v1/context/{key}: the body is the content, whatever its type.
func (h *contexts) put(c echo.Context, who contextstore.Caller) error {
	key, version, err := named(c)
	if err != nil {
		return err
	}
	var q contextPut
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	change := contextstore.Change{If: version}
	if q.TTLSeconds != nil {
		ttl := time.Duration(*q.TTLSeconds) * time.Second
		change.TTL = &ttl
	}
	if change.Content, err = h.content(c, who); err != nil {
		return err
	}
	e, err := h.entries.Put(c.Request().Context(), who, key, change)
	return describe(c, http.StatusOK, e, err)
}

// delete is DELETE /v1/context/{key}.
func (h *contexts) delete(c echo.Context, who contextstore.Caller) error {
	key, version, err := named(c)
	if err != nil {
		return err
	}
	return done(c, h.entries.Delete(c.Request().Context(), who, key, version))
}

// named is the key that the path names, and the version that If-Match does; nil for none, and for "*".
func named(c echo.Context) (key string, version *int64, err error) {
	if key, err = decode.PathID(c, "key"); err != nil {
		return "", nil, err
	}
	given := strings.Join(c.Request().Header.Values("If-Match"), ",")
	if given == "" || given == "*" {
		return key, nil, nil
	}
	n, err := strconv.ParseInt(strings.Trim(given, `"`), 10, 64)
	if err != nil {
		n = 0 // a tag that is not one of ours matches no version
	}
	return key, &n, nil
}

// contextView chooses between the content and what describes it.
type contextView struct {
	Format string `query:"format" validate:"omitempty,oneof=content entry"`
}

// get is GET /v1/context/{key}: the content as it was written or, with format=entry, the entry without it.
func (h *contexts) get(c echo.Context, who contextstore.Caller) error {
	key, _, err := named(c)
	if err != nil {
		return err
	}
	var q contextView
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	ctx := c.Request().Context()
	e, err := h.entries.Entry(ctx, who, key)
	if err != nil || q.Format == "entry" {
		return describe(c, http.StatusOK, e, err)
	}
	if e.KID != "" || e.BlobID == "" { // decrypted, or read from its row, in memory
		if err := h.in.Hold(c, who.Principal, e.Size); err != nil {
			return err
		}
	}
	e, from, err := h.entries.Content(ctx, who, e)
	if err != nil {
		return err
	}
	defer from.Close() // it was read
	return serveContext(c, e, from)
}

// serveContext sends a content as a download that runs no scripts, whatever it is: it is an agent's, and may be a page.
func serveContext(c echo.Context, e store.ContextEntry, from io.ReadSeeker) error {
	header := c.Response().Header()
	if e.ContentType == "" {
		e.ContentType = "application/octet-stream"
	}
	header.Set("Content-Type", e.ContentType)
	header.Set("Content-Disposition", "attachment")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	header.Set("Cache-Control", "private, no-cache")
	header.Set("ETag", etag(e))
	http.ServeContent(c.Response(), c.Request(), "", e.UpdatedAt, from)
	return nil
}

// describe answers with an entry, and its version as the tag that If-Match takes.
func describe(c echo.Context, status int, e store.ContextEntry, err error) error {
	if err != nil {
		return err
	}
	c.Response().Header().Set("ETag", etag(e))
	return c.JSON(status, contextOut(e))
}

func etag(e store.ContextEntry) string { return `"` + strconv.FormatInt(e.Version, 10) + `"` }
