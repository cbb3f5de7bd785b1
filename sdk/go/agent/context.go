// This file is the context store, as a run uses it: /v1/context (docs/context.md). A write has no key by which the
// server could know it again, so one whose connection broke is not repeated; with a version (If-Match) it could not
// go over another one.

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// contextWithin is how long one request to the context store may take: 16 MiB have to get there.
	contextWithin = 2 * time.Minute
	// contextTries is how often a request is made that the server could not take at the moment.
	contextTries = 4
)

// Contexts is the context store, for one run (docs/context.md).
type Contexts struct{ link link }

// Entry is an entry of the context store: without content after Put, with it after Get.
type Entry struct {
	Key         string `json:"context_key"`
	Version     int64  `json:"version"`
	ContentType string `json:"content_type"`
	Content     []byte `json:"-"`
}

// JSON reads the content as JSON.
func (e Entry) JSON(into any) error { return json.Unmarshal(e.Content, into) }

// Put is what is written.
type Put struct {
	// Key is the entry to write; without one a new entry is made.
	Key string
	// IfVersion is the version that is replaced, if it is not 0: IsMoved is true of the error where it is another.
	IfVersion int64
	// Value is written as JSON; or Content, as ContentType.
	Value       any
	Content     []byte
	ContentType string
	// Owner of a new entry: session (the default), run, user or agent.
	Owner string
	// TTL is how long it is kept from now on, in whole seconds, one at least; 0 leaves the end of an entry as it is,
	// and a new one without.
	TTL time.Duration
}

// IsMoved is whether an entry had another version than the one that was to be replaced.
func IsMoved(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Code == "version_conflict"
}

// Put writes an entry. A new one in JSON goes as a part of the body that describes it; any other content is the body
// itself, and what describes it stands in the query.
func (c Contexts) Put(ctx context.Context, p Put) (e Entry, err error) {
	content, kind := p.Content, p.ContentType
	if content == nil {
		if content, err = json.Marshal(p.Value); err != nil {
			return e, err
		}
		kind = "application/json"
	}
	query := url.Values{}
	if p.TTL > 0 {
		query.Set("ttl_seconds", strconv.FormatInt(max(1, int64(p.TTL.Seconds())), 10))
	}
	method, path := http.MethodPut, "/"+url.PathEscape(p.Key)
	if p.Key == "" {
		method, path = http.MethodPost, ""
		if p.Owner != "" {
			query.Set("owner_type", p.Owner)
		}
		if strings.HasPrefix(kind, "application/json") {
			content, query = described(content, query), nil
		}
	}
	got, err := c.send(ctx, method, path+"?"+query.Encode(), kind, p.IfVersion, content)
	if err != nil {
		return e, err
	}
	err = json.Unmarshal(got.raw, &e)
	return e, err
}

// described is the body of a new entry in JSON: what describes it, and the content within.
func described(content []byte, query url.Values) []byte {
	var b bytes.Buffer
	b.WriteString(`{"content":`)
	b.Write(content)
	if owner := query.Get("owner_type"); owner != "" {
		b.WriteString(`,"owner_type":` + strconv.Quote(owner))
	}
	if ttl := query.Get("ttl_seconds"); ttl != "" {
		b.WriteString(`,"ttl_seconds":` + ttl)
	}
	b.WriteString("}")
	return b.Bytes()
}

// Get reads an entry. One that is not there, or not for this run, is an *Error with the code not_found.
func (c Contexts) Get(ctx context.Context, key string) (Entry, error) {
	got, err := c.send(ctx, http.MethodGet, "/"+url.PathEscape(key), "", 0, nil)
	if err != nil {
		return Entry{}, err
	}
	version, err := strconv.ParseInt(strings.Trim(got.header.Get("ETag"), `"`), 10, 64)
	return Entry{Key: key, Version: version, ContentType: got.header.Get("Content-Type"), Content: got.raw}, err
}

// Delete deletes an entry; a version that is not 0 has to be the entry's.
func (c Contexts) Delete(ctx context.Context, key string, ifVersion int64) error {
	_, err := c.send(ctx, http.MethodDelete, "/"+url.PathEscape(key), "", ifVersion, nil)
	return err
}

// send makes one request, again while the server is away. Of a connection that breaks it is not known whether the request
// counted, so only a read is made again then.
func (c Contexts) send(ctx context.Context, method, path, kind string, version int64, body []byte) (whole, error) {
	header := http.Header{}
	if kind != "" {
		header.Set("Content-Type", kind)
	}
	if version != 0 {
		header.Set("If-Match", strconv.Quote(strconv.FormatInt(version, 10)))
	}
	pauses := newTries()
	for n := 1; ; n++ {
		got, err := c.link.once(ctx, contextWithin, method, "/v1/context"+path, header, body)
		if err != nil || got.status/100 == 2 {
			return got, err
		}
		if n == contextTries || !passing(got.status) && (got.status != 0 || method != http.MethodGet) {
			return got, refusal(got.status, got.raw)
		}
		if err := pauses.wait(ctx); err != nil {
			return got, err
		}
	}
}
