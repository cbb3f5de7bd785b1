// This file knows how far a call got. The library reports most failures alike; whether the tool may have run decides
// what the caller is answered with, so it is noted where the bytes go out: in the RoundTripper for a URL, in the
// connection for a program. The delivery travels in the call's context, because the library passes that down to both.

package mcpservers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge/outbound"
	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
)

// delivery is what is known of how a call went out: that nothing of it was sent, or why it certainly did not reach
// the tool. Of every other failure it is not known whether the tool has run. Goroutines of the library write it, the
// one that makes the call reads it behind the call's end.
type delivery struct {
	sent    atomic.Bool
	refused atomic.Pointer[fault.Error]
	unknown atomic.Bool // the server may not know the session
}

// deliveryKey is the key of a call's delivery in its context. Requests without one are no calls: the handshake,
// lists, pings and answers.
type deliveryKey struct{}

// withDelivery makes a context whose requests are noted in the delivery.
func withDelivery(ctx context.Context) (context.Context, *delivery) {
	d := &delivery{}
	return context.WithValue(ctx, deliveryKey{}, d), d
}

// deliveryOf is the delivery of the call that a request is for; nil for any other request.
func deliveryOf(ctx context.Context) *delivery {
	d, _ := ctx.Value(deliveryKey{}).(*delivery)
	return d
}

// note keeps why a request was not taken. A connection that could not be made has carried nothing; an answer of 4xx is a
// refusal. After 5xx, or when the connection broke later, the tool may have run; so it may after 400 and 408, by which servers
// also report what went wrong while they worked, unless a 400 names the session as unknown.
//
// In short, of a request by HTTP:
//
//	address refused, dial failed       nothing was sent: refused
//	404, and 400 about the session     refused, and the session may be unknown: it may go over the next one
//	any other 4xx but 400 and 408      refused
//	400, 408, 5xx, a broken stream     the tool may have run
func (d *delivery) note(resp *http.Response, err error) {
	var no *outbound.Refused
	var op *net.OpError
	switch {
	case errors.As(err, &no):
		d.refused.Store(fault.New(tools.CodeRefusedAddress, "The MCP server's address may not be called: "+outbound.Cause(err)+"."))
	case errors.As(err, &op) && op.Op == "dial":
		d.refused.Store(fault.New(tools.CodeUnreachable, "The MCP server could not be reached."))
	case err == nil && resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusRequestTimeout:
		// The protocol has 404 for a session that is gone. Many servers answer 400.
		unknown := resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusBadRequest && namesSession(resp)
		d.unknown.Store(unknown)
		if resp.StatusCode == http.StatusBadRequest && !unknown {
			return
		}
		d.refused.Store(fault.New(tools.CodeStatus, "The MCP server answered HTTP "+strconv.Itoa(resp.StatusCode)+"."))
	}
}

// longestRefusal is what is read of a refusal to find out why.
const longestRefusal = 4 << 10

// namesSession reports whether a refusal is about an unknown session. What it reads of the body stays to be read.
func namesSession(resp *http.Response) bool {
	read, _ := io.ReadAll(io.LimitReader(resp.Body, longestRefusal)) // what broke is no such word
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(read), resp.Body), resp.Body}
	return regexp.MustCompile(`(?i)\b(no valid|unknown|invalid|no such|expired|missing) (mcp[- ]?)?session\b` +
		`|\bsession([- ]?id)?( \S+)? (was |is |has )?(not found|not known|unknown|expired|does not exist|invalid|not initialized)\b`).Match(read)
}

// noted is a transport that notes which calls were written to it.
type noted struct{ mcp.Transport }

// Connect implements mcp.Transport.
func (n noted) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := n.Transport.Connect(ctx)
	return &notedConnection{Connection: conn}, err
}

// notedConnection is a connection over streams. The library waits for a server that reads nothing, whatever the call's time is,
// and keeps whatever a server asks until it has taken the answer; both end the connection here.
type notedConnection struct {
	mcp.Connection
	unanswered atomic.Int64
	closed     atomic.Bool
}

const (
	// writeGrace is how long a message may be on its way when its sender waits no more. A part of it may be
	// written, so nothing can be sent behind it.
	writeGrace = 2 * time.Second
	// mostUnanswered bounds what a server has asked and not been answered. It is offered nothing that it could ask for.
	mostUnanswered = 1000
)

var (
	errUnanswered = errors.New("it asks without end and reads no answer")
	errClosed     = errors.New("its connection was closed here")
)

// Close implements mcp.Connection.
func (n *notedConnection) Close() error {
	n.closed.Store(true)
	return n.Connection.Close()
}

// Write implements mcp.Connection. What comes when the connection was closed is certainly not sent: the session is given out
// until its end was seen.
func (n *notedConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	if n.closed.Load() {
		return errClosed
	}
	if d := deliveryOf(ctx); d != nil {
		d.sent.Store(true)
	}
	written := make(chan struct{})
	defer close(written)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-written:
		case <-time.After(writeGrace):
			_ = n.Close() // it ends the write
		}
	})()
	if _, answer := m.(*jsonrpc.Response); answer {
		defer n.unanswered.Add(-1)
	}
	return n.Connection.Write(ctx, m)
}

// Read implements mcp.Connection.
func (n *notedConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := n.Connection.Read(ctx)
	if ask, ok := m.(*jsonrpc.Request); ok && ask.IsCall() && n.unanswered.Add(1) > mostUnanswered {
		_ = n.Close() // an answer that is on its way would hold it
		return nil, errUnanswered
	}
	return m, err
}
