package mcpservers

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge/outbound"
	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
)

// delivery is what is known of how a call went out: that nothing of it was sent, or why it certainly did not reach the tool. Of
// every other failure it is not known whether the tool has run.
type delivery struct {
	sent    atomic.Bool
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

// noted is a transport that notes which calls were written to it.
type noted struct{ mcp.Transport }

// Connect implements mcp.Transport.
func (n noted) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := n.Transport.Connect(ctx)
	return notedConnection{conn}, err
}

type notedConnection struct{ mcp.Connection }

// Write implements mcp.Connection.
func (n notedConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	if d := deliveryOf(ctx); d != nil {
		d.sent.Store(true)
	}
	return n.Connection.Write(ctx, m)
}
