// This file is the loop: ask the model, have its calls run, ask again. A turn here is one call of the assistant,
// which may be one of several of the engine's Turn: where the page has to run a tool, the call ends, and the answer
// comes with the next one.

package assistant

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"aqueduct/internal/fault"
	"aqueduct/internal/modelform"
)

// maxSteps bounds how often one call of the assistant asks the model: a model that is not content with what a tool gives may
// call it for ever.
const maxSteps = 50

// turn is one call of the assistant: it asks the model, has the tools run that the model calls, and asks again with
// what they gave, until the model calls none. The goroutine of the request uses it; the calls of one answer run on
// goroutines of their own, which only read it, and obey waits for all of them.
type turn struct {
	in       invocation
	model    string
	out      *stream
	platform platform
	logger   *slog.Logger

	tools        toolbox
	conversation []json.RawMessage // in OpenAI's form
	prefix       string            // of the ids of this call's tool calls
	calls        int
}

// run does all of it. What fails ends the answer with an error; a caller that has left ends everything through ctx.
func (t *turn) run(ctx context.Context) {
	pending, err := t.steps(ctx)
	switch failure, ok := errors.AsType[*fault.Error](err); {
	case err == nil:
		t.out.finish(pending)
	case ok:
		t.out.fail(failure)
	default:
		t.out.fail(&fault.Error{Code: codeModel, Message: "The server could not be reached.", Cause: err})
	}
}

// steps goes on until the model calls no tool, or one of the page, whose calls it returns: the page's answers come with the
// next call.
func (t *turn) steps(ctx context.Context) (pending []string, err error) {
	// Ids of calls are unique in the Turn, of which this may be the second call of the assistant: the platform takes
	// two calls of one id for one.
	t.prefix = uuid.NewString()[:8]
	if t.tools, err = t.platform.tools(ctx, t.in, t.logger); err != nil {
		return nil, err
	}
	t.conversation = t.tools.conversation(t.in.Messages, t.in.Resume)
	if err := newPictures(t.platform, t.conversation).inline(ctx, t.conversation); err != nil {
		return nil, err
	}
	for range maxSteps {
		r, err := t.ask(ctx)
		if err != nil {
			return nil, err
		}
		if len(r.calls) == 0 {
			return nil, nil
		}
		if pending, err = t.obey(ctx, r); err != nil || len(pending) > 0 {
			return pending, err
		}
	}
	return nil, fault.New(codeSteps, "The model called tools "+strconv.Itoa(maxSteps)+" times without an answer.")
}

// newID is the id of a tool call. Models begin to number theirs anew in each answer, and an id is for one call in a run.
func (t *turn) newID() string {
	t.calls++
	return "call_" + t.prefix + "_" + strconv.Itoa(t.calls)
}

// obey has the calls of an answer run, side by side: each may wait for a person. Those of the page's tools are asked for,
// and returned.
func (t *turn) obey(ctx context.Context, r *reply) (pending []string, err error) {
	// Each call writes its own place, so the results stand in the order of the calls, which is how the model has to
	// find them.
	results, errs := make([]string, len(r.calls)), make([]error, len(r.calls))
	var running sync.WaitGroup
	for i, call := range r.calls {
		args := cmp.Or(call.args.String(), "{}")
		t.show(call, "tool_call_end", callFrame{ID: call.id})
		switch {
		case !json.Valid([]byte(args)):
			results[i] = t.refuse(call, "invalid_arguments", "The arguments are not JSON.")
		case call.tool == nil:
			results[i] = t.refuse(call, "tool_unknown", "There is no tool of that name.")
		case call.tool.ofPage:
			t.out.send("call_client_tool", callFrame{ID: call.id, Name: call.tool.name, Args: json.RawMessage(args)})
			pending = append(pending, call.id)
		default:
			running.Go(func() {
				results[i], errs[i] = t.platform.invoke(ctx, t.in.RunID, call.tool.name, call.id, args)
			})
		}
	}
	running.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return nil, errs[i]
	}
	t.add(r, results)
	return pending, nil
}

// show sends a frame that shows a call. Those of the platform's tools it shows itself, with the question whether they may be
// run.
func (t *turn) show(call *modelCall, frame string, data callFrame) {
	if call.tool == nil || call.tool.ofPage {
		t.out.send(frame, data)
	}
}

// refuse shows the result of a call that cannot be run.
func (t *turn) refuse(call *modelCall, code, message string) string {
	result := failed(code, message)
	t.out.send("tool_result", callFrame{ID: call.id, Content: result})
	return result
}

// add puts an answer of the model and the results of its calls into the conversation.
func (t *turn) add(r *reply, results []string) {
	m := pastMessage{Role: "assistant"}
	if text := r.text.String(); strings.TrimSpace(text) != "" {
		m.Content = encoded(text)
	}
	for _, call := range r.calls {
		m.ToolCalls = append(m.ToolCalls, messageCall{shortID(call.id), "function", functionCall{modelform.Name(call.name), modelform.Object(call.args.String())}})
	}
	t.conversation = append(t.conversation, encoded(m))
	for i, call := range r.calls {
		t.conversation = append(t.conversation, encoded(pastMessage{Role: "tool", ToolCallID: shortID(call.id), Content: encoded(results[i])}))
	}
}
