// This file asks the model, and reads its answer as it comes: OpenAI's chat completions as a stream, which the model
// proxy of this server passes on from whatever upstream it has.

package assistant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/r3labs/sse/v2"

	"aqueduct/internal/fault"
	"aqueduct/internal/jsontext"
)

// Codes of RUN_ERROR of the assistant.
const (
	codeModel = "model_failed"   // the model's server refused, or broke off
	codeSteps = "too_many_steps" // the model called tools again and again
)

// maxChunk bounds an event of the model's stream.
const maxChunk = 4 << 20

// reply is what the model answered in one step: a text, calls of tools, or both. Thoughts are shown and not kept,
// since they are no part of what a model is sent again.
type reply struct {
	text          strings.Builder
	calls         []*modelCall // by the index that the model gives each
	size          int          // of the names and arguments of the calls
	said, thought joiner
}

// joiner joins pieces of one text into whole characters. Some servers cut text by UTF-16 units, and so cut characters in two.
type joiner struct{ open string }

// join returns a piece with the half character before it, and without the half with which it ends.
func (j *joiner) join(pieces ...jsontext.Fragment) (whole string) {
	for _, piece := range pieces {
		var text string
		text, j.open = jsontext.Join(j.open, string(piece))
		whole += text
	}
	return whole
}

// modelCall is a call of a tool, as the model makes it.
type modelCall struct {
	id   string // ours: the model's may repeat in the next step
	tool *tool  // nil: there is none of that name
	name string // by which the model called it
	args strings.Builder
	cut  joiner // of the arguments
}

// chunk is an event of a chat completion's stream.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content          jsontext.Fragment
			Reasoning        jsontext.Fragment
			ReasoningContent jsontext.Fragment `json:"reasoning_content"`
			Refusal          jsontext.Fragment
			ToolCalls        []struct {
				Index    int
				Function struct {
					Name      string
					Arguments jsontext.Fragment
				}
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Error *struct{ Message string }
}

// ask has the model answer the conversation, and writes what it answers as it comes.
func (t *turn) ask(ctx context.Context) (*reply, error) {
	content, err := t.platform.open(ctx, http.MethodPost, "/v1/chat/completions", struct {
		Model    string            `json:"model"`
		Messages []json.RawMessage `json:"messages"`
		Tools    []functionTool    `json:"tools,omitempty"`
		Stream   bool              `json:"stream"`
	}{t.model, t.conversation, t.tools.functions(), true})
	if err != nil {
		return nil, err
	}
	defer content.Close()
	r, over := new(reply), false
	for reader := sse.NewEventStreamReader(content, maxChunk); ; {
		event, err := reader.ReadEvent()
		if err != nil {
			return r, ended(err, over)
		}
		for line := range bytes.Lines(event) {
			data, ok := bytes.CutPrefix(line, []byte("data:"))
			if !ok {
				continue
			}
			if data = bytes.TrimSpace(data); string(data) == "[DONE]" {
				over = true // the stream is read to its end, before which the proxy has put on record what was used
				continue
			}
			var c chunk
			if json.Unmarshal(data, &c) != nil {
				return nil, fault.New(codeModel, "The model's server sent what could not be read.")
			}
			if c.Error != nil {
				return nil, fault.New(codeModel, "The model's server reported an error: "+c.Error.Message)
			}
			if over = t.take(r, c) || over; r.size > maxArguments {
				return nil, fault.New(codeModel, "The model calls tools with more than can be taken.")
			}
		}
	}
}

// ended is the error of a stream that ended. Some servers send no [DONE], so a reason to finish will do.
func ended(err error, finished bool) error {
	if errors.Is(err, io.EOF) && finished {
		return nil
	}
	return &fault.Error{Code: codeModel, Message: "The model's answer ended before it was complete.", Cause: err}
}

// take writes what a chunk adds, and reports whether the answer is complete. A refusal of the model's is text for the
// user like any other, and thoughts have two names among upstreams.
func (t *turn) take(r *reply, c chunk) (complete bool) {
	for _, choice := range c.Choices {
		d := &choice.Delta
		if thought := r.thought.join(d.Reasoning, d.ReasoningContent); thought != "" {
			t.out.think(thought)
		}
		if text := r.said.join(d.Content, d.Refusal); text != "" {
			r.text.WriteString(text)
			t.out.say(text)
		}
		for _, part := range d.ToolCalls {
			call := t.callAt(r, part.Index, part.Function.Name)
			if call == nil {
				continue
			}
			args := call.cut.join(part.Function.Arguments)
			if args == "" {
				continue
			}
			r.size += len(args)
			call.args.WriteString(args)
			t.show(call, "tool_call_args", callFrame{ID: call.id, Delta: args})
		}
		complete = complete || choice.FinishReason != ""
	}
	return complete
}

// maxCalls bounds the calls of one answer of the model, and maxArguments their names and arguments together: those of the
// platform's tools are kept here alone until they are whole, so no other bound ends an answer without end.
const (
	maxCalls     = 128
	maxArguments = 4 << 20
)

// callAt is the call at an index of the answer; its first part has the name.
func (t *turn) callAt(r *reply, index int, name string) *modelCall {
	if index < len(r.calls) && index >= 0 {
		return r.calls[index]
	}
	if index != len(r.calls) || name == "" || index >= maxCalls {
		return nil
	}
	call := &modelCall{id: t.newID(), tool: t.tools.byFunction[name], name: name}
	r.size += len(name)
	r.calls = append(r.calls, call)
	t.show(call, "tool_call_start", callFrame{ID: call.id, Name: name})
	return call
}
