// This file is the way to a server by its URL (streamable HTTP). The protocol's library makes the requests; the
// RoundTripper here adds the token, bounds what a server may cost, and sees of each call whether it was taken.

package mcpservers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/internal/strictjson"
)

// address is the way to a server by its URL.
type address struct {
	url, token string
	client     *http.Client
}

// open makes the way; nothing is sent yet.
func (a *address) open() (way, error) {
	client := *a.client
	// The way has a context of its own: the library makes requests with contexts of its callers, which do not end
	// with the way.
	open, end := context.WithCancelCause(context.Background())
	client.Transport = &bearer{token: a.token, next: a.client.Transport, open: open, end: end}
	return way{
		transport: &mcp.StreamableClientTransport{Endpoint: a.url, HTTPClient: &client, MaxEventSize: longestMessage},
		end:       func() { end(context.Canceled) },
	}, nil
}

// mostSent bounds the messages beside calls that a server has not taken yet: answers to what it asked, each a request of its own that the
// library waits for without end. A server is offered nothing that it could ask for, so it is far more than one that works has.
const mostSent = 100

// bearer adds the server's token to its requests, ends those that are no calls with the way, and notes of a call why the server did
// not take it. A call has an end of its own, and what became of it is to be known.
type bearer struct {
	token string
	next  http.RoundTripper
	open  context.Context //nolint:containedctx // of the way, whose requests come with contexts of others
	end   context.CancelCauseFunc
	sent  atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	d := deliveryOf(req.Context())
	ctx, cancel := context.WithCancel(req.Context())
	ended := context.AfterFunc(b.open, func() {
		if d == nil || errors.Is(context.Cause(b.open), errUnanswered) { // in the stream of a call it may ask too
			cancel()
		}
	})
	leave := func() {
		ended()
		cancel()
	}
	req = req.Clone(ctx)
	if b.token != "" {
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	// A call counts as sent before it is: what fails in the middle may have arrived. Any other request counts until
	// its head has come; more than mostSent of them at once end the way.
	if d != nil {
		d.sent.Store(true)
	} else {
		if b.sent.Add(1) > mostSent {
			b.end(errUnanswered)
		}
		defer b.sent.Add(-1)
	}
	// The request's context has to outlive this function, because the body is read under it: leave is called with the
	// end of the body, or here where there is none.
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		leave()
	} else {
		left := math.MaxInt
		if !isStream(resp) {
			// One byte more than is taken: an answer of exactly that length has to end in EOF, not in errTooLong.
			left = longestMessage + 1
		}
		resp.Body = &bodyOf{ReadCloser: resp.Body, left: left, stream: isStream(resp), leave: leave}
	}
	if d != nil && req.Method == http.MethodPost {
		d.note(resp, err)
	}
	return resp, err
}

// isStream reports whether an answer is a stream, of which the library bounds each event. Any other it reads whole.
func isStream(resp *http.Response) bool {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && media == "text/event-stream" && resp.StatusCode/100 == 2
}

// bodyOf is a body of bounded length.
type bodyOf struct {
	io.ReadCloser
	left   int
	stream bool
	values strictjson.Counter // of the answer, or of the event of a stream
	blank  bool               // the line of the stream is empty so far
	leave  func()             // its request is over
}

// tooMany counts the values of p, from zero again behind the empty line that ends an event.
func (b *bodyOf) tooMany(p []byte) bool {
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		if b.values.Add(line) > strictjson.MostFrameValues {
			return true
		}
		b.blank = b.blank && len(bytes.TrimRight(line, "\r")) == 0
		if ended {
			if b.blank && b.stream {
				b.values = strictjson.Counter{}
			}
			b.blank = true
		}
		p = rest
	}
	return false
}

var errTooLong = errors.New("the answer is longer than is taken")

// Read implements io.Reader.
func (b *bodyOf) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	if b.tooMany(p[:n]) {
		return 0, errTooLong
	}
	return n, err
}

// Close implements io.Closer.
func (b *bodyOf) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}
