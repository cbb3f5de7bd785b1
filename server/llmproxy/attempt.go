package llmproxy

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"aqueduct/bridge/outbound"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
)

// tried is the answer of an upstream, and which ones failed before it.
type tried struct {
	resp   *http.Response
	from   *Upstream
	failed []string
}

// taken reports whether an upstream took the request, or may be at work on it: the agent left before there was an answer.
func (t tried) taken(ctx context.Context, err error) bool {
	if err != nil {
		return ctx.Err() != nil
	}
	return t.resp.StatusCode < http.StatusMultipleChoices
}

// attempt calls the upstreams until one takes the request. The last one's answer is the caller's, whatever it is: it
// holds the upstream's own reason.
func (h *Handler) attempt(ctx context.Context, route string, r request, upstreams []*Upstream, id callID) (t tried, err error) {
	for i, up := range upstreams {
		t.from = up
		t.resp, err = h.send(ctx, up, http.MethodPost, route, r.forUpstream(up), id) //nolint:bodyclose // relay's caller closes it
		if err == nil && !(tryAnother(t.resp.StatusCode) && i < len(upstreams)-1) {
			return t, nil
		}
		if ctx.Err() != nil { // the agent has left, or the server is stopping: another one would answer no caller
			return t, ctx.Err()
		}
		if err == nil {
			_ = t.resp.Body.Close() // unread: an upstream that fails may not end its reason either, and the connection is cheaper than that wait
		}
		if i < len(upstreams)-1 {
			t.failed = append(t.failed, up.Name)
		}
	}
	return t, unreachable(err)
}

// tryAnother reports whether another upstream may do better. A request that is wrong is wrong everywhere. A key that an
// upstream refuses is not tried elsewhere either: it is the operator's mistake, and hidden by another upstream it would
// only show up on a bill.
func tryAnother(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= http.StatusInternalServerError
}

// forUpstream is the body as an upstream gets it. An upstream that does not know stream_options gets none from here.
func (r request) forUpstream(up *Upstream) []byte {
	if up.StreamUsage != nil && !*up.StreamUsage {
		return r.original
	}
	return r.body
}

// callID is by which an upstream's own log and spans can be found: the id goes along as X-Request-Id, the span as
// traceparent. tracestate is the business of those who watch this server, and stays here.
type callID struct {
	id   string
	span trace.Context
}

// set gives a request both.
func (c callID) set(h http.Header) {
	h.Set("X-Request-Id", c.id)
	c.span.State = ""
	c.span.SetHeaders(h)
}

// send makes one call. Nothing of the caller's own headers is passed on.
func (h *Handler) send(ctx context.Context, up *Upstream, method, route string, body []byte, id callID) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, up.URL+"/"+route, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "aqueduct")
	id.set(req.Header)
	switch {
	case up.key == "":
	case up.KeyHeader != "":
		req.Header.Set(up.KeyHeader, up.key)
	default:
		req.Header.Set("Authorization", "Bearer "+up.key)
	}
	resp, err := h.cfg.Client.Do(req)
	if err == nil && resp.StatusCode/100 == 3 {
		_ = resp.Body.Close()
		return nil, errRedirect
	}
	if err == nil && len(up.key) >= leastKey {
		withoutKey(resp, up.key)
	}
	return resp, err
}

var errRedirect = errors.New("llmproxy: the upstream redirects")

// unreachable is a call without an answer, in words without an address: the error has it, and is for the log.
func unreachable(err error) error {
	var late interface{ Timeout() bool }
	var refused *outbound.Refused
	switch {
	case errors.As(err, &refused):
		return &fault.Error{Code: ModelUnreachable, Message: "The upstream's address may not be called: " + outbound.Cause(err) + ".", Cause: err}
	case errors.Is(err, errRedirect):
		return &fault.Error{Code: ModelUnreachable, Message: "The upstream redirects to another address, which is not followed.", Cause: err}
	case errors.As(err, &late) && late.Timeout():
		return &fault.Error{Code: ModelTimeout, Message: "The upstream did not answer in time.", Cause: err}
	}
	return &fault.Error{Code: ModelUnreachable, Message: "The upstream could not be reached.", Cause: err}
}
