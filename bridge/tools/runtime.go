package tools

import (
	"context"
	"encoding/json"

	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Runtime is where server tools are executed: an endpoint over HTTP, or a server that offers tools. What decides about a
// call, and keeps it, is the same for all.
type Runtime interface {
	// Execute executes a call, once, and returns within ctx. A failure with CodeUnknownOutcome is one of which the
	// Runtime cannot know whether the tool did its work: a person is asked then. Every other failure is the call's end.
	Execute(ctx context.Context, d Dispatch) (json.RawMessage, *fault.Error)
}

// Dispatch is a call on its way to its tool.
type Dispatch struct {
	Tool  store.Tool
	Call  store.ToolCall
	Asked bool          // a person was asked for it
	Span  trace.Context // of executing it
}

// runtimes has the Runtime of each source of tools (store.Tool.Source).
type runtimes map[string]Runtime

// Execute implements Runtime by the one of the tool's source. A server that was started without the flags that another has,
// on the same database, finds rows of tools that it cannot reach.
func (r runtimes) Execute(ctx context.Context, d Dispatch) (json.RawMessage, *fault.Error) {
	if place := r[d.Tool.Source]; place != nil {
		return place.Execute(ctx, d)
	}
	return nil, fault.New(CodeUnreachable, "The tool's server is not known here.")
}
