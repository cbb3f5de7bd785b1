package mcpservers

import (
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// address is the way to a server by its URL.
type address struct {
	url, token string
	client     *http.Client
}

// open makes the way; nothing is sent yet.
func (a *address) open() (way, error) {
	client := *a.client
	client.Transport = &bearer{token: a.token, next: a.client.Transport}
	return way{
		transport: &mcp.StreamableClientTransport{Endpoint: a.url, HTTPClient: &client, MaxEventSize: longestMessage},
		end:       func() {}, // its requests end with the session
	}, nil
}

// bearer adds the server's token to its requests, and notes of a call why the server did not take it.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	d := deliveryOf(req.Context())
	if d != nil {
		d.sent.Store(true)
	}
	resp, err := b.next.RoundTrip(req)
	if err == nil && !isStream(resp) {
		resp.Body = &bodyOf{ReadCloser: resp.Body, left: longestMessage + 1}
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
	left int
}

var errTooLong = errors.New("the answer is longer than is taken")

// Read implements io.Reader.
func (b *bodyOf) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
