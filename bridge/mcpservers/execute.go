// This file executes one call of a tool: it waits for a session, sends the call, and sorts what came of it by what is
// certain. The order of the cases in call is that of certainty: the server's own answer, a refusal, nothing sent, and
// only then what is unknown.

package mcpservers

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
)

// awayTime is how long a call waits for a server that is away. It is as long as most servers take to start again; nothing of
// the call was sent, so it may fail for certain then.
const awayTime = 15 * time.Second

// Execute implements tools.Runtime.
func (s *Servers) Execute(ctx context.Context, d tools.Dispatch) (json.RawMessage, *fault.Error) {
	name, _ := tools.MCPServer(d.Tool)
	one := s.byName[name]
	if one == nil {
		return nil, fault.New(tools.CodeUnreachable, "The tool's MCP server is not known here.")
	}
	return one.execute(ctx, d)
}

// execute calls the tool, once. Over a session that has ended nothing of a call is sent, and a server that lost its session
// refuses a call before it looks at it; so the call may go over the next session.
func (s *server) execute(ctx context.Context, d tools.Dispatch) (json.RawMessage, *fault.Error) {
	session := s.await(ctx, nil)
	if session == nil {
		return nil, away()
	}
	result, failure, lost := s.call(ctx, session, d)
	if !lost {
		return result, failure
	}
	// Without this the session would stand on, and await would find no other.
	s.lose(session)
	if session = s.await(ctx, session); session == nil {
		return nil, away()
	}
	result, failure, _ = s.call(ctx, session, d)
	return result, failure
}

// away is the failure of a call of which nothing was sent.
func away() *fault.Error { return fault.New(tools.CodeUnreachable, "The MCP server is away.") }

// await is the session that stands, but for one that was lost; nil when none comes in time.
func (s *server) await(ctx context.Context, lost *mcp.ClientSession) *mcp.ClientSession {
	late := time.NewTimer(awayTime)
	defer late.Stop()
	for {
		session, stands := s.current()
		if session != nil && session != lost {
			return session
		}
		if session != nil { // the goroutine that serves it has not seen its end yet
			stands = nil
		}
		tick := time.NewTimer(firstPause)
		select {
		case <-stands:
		case <-tick.C:
		case <-late.C:
			return nil
		case <-ctx.Done():
			return nil
		}
		tick.Stop()
	}
}

// call sends one call. lost means that the session had ended, or that the server refused the call and may have lost it. The trace context and the id of
// the call go in _meta, by which a server can recognize a repeated call.
func (s *server) call(ctx context.Context, session *mcp.ClientSession, d tools.Dispatch) (_ json.RawMessage, failure *fault.Error, lost bool) {
	sending, delivered := withDelivery(ctx)
	args := json.RawMessage(d.Call.Args)
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	result, err := session.CallTool(sending, &mcp.CallToolParams{
		Meta: mcp.Meta{"traceparent": d.Span.Traceparent(), "aqueduct/tool_call_id": d.Call.ID},
		Name: strings.TrimPrefix(d.Tool.Name, s.name+"."), Arguments: args,
	})
	if err == nil {
		raw, failure := resultOf(result, s.resultBytes)
		return raw, failure, false
	}
	answered := answer(err)
	switch refused := delivered.refused.Load(); {
	case answered != nil:
		failure = fault.New(tools.CodeToolFailed, bounded(answered.Message))
	case refused != nil:
		failure = refused
	case !delivered.sent.Load():
		failure = away()
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		failure = fault.New(tools.CodeTimeout, "The tool took too long.")
	case unreadable(ctx, session, err):
		failure = fault.New(tools.CodeToolFailed, "The tool's result cannot be read.")
	default:
		failure = fault.New(tools.CodeUnknownOutcome, "The connection to its MCP server was lost while it ran.")
	}
	return nil, failure, !delivered.sent.Load() || session.ID() != "" && delivered.unknown.Load()
}

const (
	// aliveTime bounds the question whether a session stands.
	aliveTime = 5 * time.Second
	// noAnswer ends the library's error for a stream over HTTP that has ended without the answer; the session stands.
	noAnswer = "request terminated without response"
)

// unreadable reports whether a call failed because the library cannot read its result. The library has no error of its own for
// that. But each other failure that has not the protocol's form ends the session, with the one exception above. So a server that still
// answers over the session, with whatever, has answered the call as well.
func unreadable(ctx context.Context, session *mcp.ClientSession, err error) bool {
	var inForm *jsonrpc.Error
	if ctx.Err() != nil || errors.As(err, &inForm) || strings.HasSuffix(err.Error(), noAnswer) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, aliveTime)
	defer cancel()
	err = session.Ping(ctx, nil)
	return err == nil || answer(err) != nil
}

// The codes by which the library reports its own failures in the form of a server's error: client closing, server closing,
// rejected by transport. Nothing is known of a call that failed so. A server that answers with one of them is not believed either.
const leastOwnCode, mostOwnCode = -32005, -32003

// answer is the server's error; nil where the failure is another.
func answer(err error) *jsonrpc.Error {
	var answered *jsonrpc.Error
	if !errors.As(err, &answered) || answered.Code >= leastOwnCode && answered.Code <= mostOwnCode {
		return nil
	}
	return answered
}
