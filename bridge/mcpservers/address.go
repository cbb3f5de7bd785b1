package mcpservers

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge/outbound"
	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
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
	resp, err := b.next.RoundTrip(req)
	if d := deliveryOf(req.Context()); d != nil && req.Method == http.MethodPost {
		d.note(resp, err)
	}
	return resp, err
}

// delivery is what is known of the request that carries a call: why it certainly did not reach the tool. Of every other
// failure it is not known.
type delivery struct {
	refused atomic.Pointer[fault.Error]
	unknown atomic.Bool // the server may not know the session
}

type deliveryKey struct{}

// withDelivery makes a context whose requests are noted in the delivery.
func withDelivery(ctx context.Context) (context.Context, *delivery) {
	d := &delivery{}
	return context.WithValue(ctx, deliveryKey{}, d), d
}

func deliveryOf(ctx context.Context) *delivery {
	d, _ := ctx.Value(deliveryKey{}).(*delivery)
	return d
}

// note keeps why a request was not taken. A connection that could not be made has carried nothing; an answer of 4xx is a
// refusal. After 5xx, or when the connection broke later, the tool may have run.
func (d *delivery) note(resp *http.Response, err error) {
	var no *outbound.Refused
	var op *net.OpError
	switch {
	case errors.As(err, &no):
		d.refused.Store(fault.New(tools.CodeRefusedAddress, "The MCP server's address may not be called: "+outbound.Cause(err)+"."))
	case errors.As(err, &op) && op.Op == "dial":
		d.refused.Store(fault.New(tools.CodeUnreachable, "The MCP server could not be reached."))
	case err == nil && resp.StatusCode/100 == 4:
		// The protocol has 404 for a session that is gone. Many servers answer 400.
		d.unknown.Store(resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusBadRequest)
		d.refused.Store(fault.New(tools.CodeStatus, "The MCP server answered HTTP "+strconv.Itoa(resp.StatusCode)+"."))
	}
}
