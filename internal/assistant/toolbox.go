// This file knows the tools of one call: which there are, under which names the model is offered them, and how the
// platform is made to run one. Whether a tool may run is not decided here; a call of the platform's may take as long
// as a person does.

package assistant

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"aqueduct/internal/fault"
	"aqueduct/internal/modelform"
)

// toolbox are the tools that the model is offered in one call: those of the installation, and those of the page.
type toolbox struct {
	byFunction map[string]*tool
	list       []functionTool
	own        map[string]string // names that the transcript spells differently
}

// tool is one of them.
type tool struct {
	name   string // in Aqueduct
	ofPage bool   // the user's client declared it for this prompt
}

// functionTool is a tool as the model is offered it.
type functionTool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// functions is what the model is offered; nil is none.
func (b *toolbox) functions() []functionTool { return b.list }

const (
	// maxTools bounds the tools that the model is offered: OpenAI's API takes 128, and models choose worse among many.
	maxTools = 128
	// maxDescription is the maximum length in characters of a tool's description in OpenAI's API.
	maxDescription = 1024
	// toolsPage is how many tools one request lists, the most that the route gives.
	toolsPage = 1000
)

// listedTools is a page of GET /v1/tools.
type listedTools struct {
	Tools []struct {
		Name, Description string
		Schema            json.RawMessage
	}
	Next string
}

// tools reads which tools there are. A tool of the page goes before one of the installation that has its name, and before all
// others where there are too many; of those the first by name are taken.
func (p platform) tools(ctx context.Context, in invocation, logger *slog.Logger) (toolbox, error) {
	b := toolbox{byFunction: make(map[string]*tool), own: in.FunctionNames}
	for _, t := range in.Tools {
		b.add(&tool{name: cmp.Or(b.own[t.Name], t.Name), ofPage: true}, t.Description, t.Parameters)
	}
	for after := ""; ; {
		var listed listedTools
		query := url.Values{"limit": {strconv.Itoa(toolsPage)}}
		if after != "" {
			query.Set("after", after)
		}
		if err := p.call(ctx, http.MethodGet, "/v1/tools?"+query.Encode(), nil, &listed); err != nil {
			return b, err
		}
		for _, t := range listed.Tools {
			b.add(&tool{name: t.Name}, t.Description, t.Schema)
		}
		if after = listed.Next; after == "" || len(b.list) > maxTools {
			b.bound(after != "", logger)
			return b, nil
		}
	}
}

// bound leaves out what is beyond maxTools. more: others were not even read.
func (b *toolbox) bound(more bool, logger *slog.Logger) {
	if len(b.list) <= maxTools {
		return
	}
	var left []string
	for _, f := range b.list[maxTools:] {
		left = append(left, b.byFunction[f.Function.Name].name)
		delete(b.byFunction, f.Function.Name)
	}
	b.list = b.list[:maxTools]
	logger.Warn("the assistant's model is not offered all tools", slog.Int("offered", maxTools), slog.Any("left_out", left), slog.Bool("and_more", more))
}

// add offers a tool to the model, under a name that OpenAI's API takes: letters, digits, _ and -. Two tools whose names
// become the same get numbers.
func (b *toolbox) add(t *tool, description string, schema json.RawMessage) {
	name := functionName(t.name)
	for n := 2; b.byFunction[name] != nil; n++ {
		if b.byFunction[name].name == t.name {
			return // the page's
		}
		number := "_" + strconv.Itoa(n)
		name = strings.TrimSuffix(name, "_"+strconv.Itoa(n-1))
		name = name[:min(len(name), modelform.MaxName-len(number))] + number
	}
	if cut := []rune(description); len(cut) > maxDescription {
		description = string(cut[:maxDescription])
	}
	b.byFunction[name] = t
	b.list = append(b.list, functionTool{"function", function{name, description, modelform.Schema(schema)}})
}

// functionName returns a tool's name in the form that models accept: Gemini requires a letter or _ first.
func functionName(tool string) string {
	if tool != "" && (tool[0] >= '0' && tool[0] <= '9' || tool[0] == '-') {
		tool = "_" + tool
	}
	return modelform.Name(tool)
}

// functionOf is the name under which the model is offered a tool; one that is not there any more has what it would have.
func (b *toolbox) functionOf(tool string) string {
	for name, t := range b.byFunction {
		if t.name == tool {
			return name
		}
	}
	return functionName(tool)
}

// outcome is a tool call as the platform answers it.
type outcome struct {
	Status string // succeeded, failed, pending
	CallID string `json:"tool_call_id"`
	Result json.RawMessage
	Error  struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
}

// waitFor is how long one :wait lasts; the next begins at once. An approval may take days.
const waitFor = "240000"

// invoke has the platform run a tool and returns what the model is given as its result. The call has the id of the frames
// that show it, which makes the platform show it once, and run it once also where the request was sent twice.
func (p platform) invoke(ctx context.Context, runID, tool, callID, args string) (string, error) {
	var got outcome
	path := "/v1/tools/" + url.PathEscape(tool) + ":invoke"
	err := p.call(ctx, http.MethodPost, path, struct {
		RunID  string          `json:"run_id"`
		CallID string          `json:"call_id"`
		Args   json.RawMessage `json:"args"`
	}{runID, callID, json.RawMessage(args)}, &got)
	for err == nil && got.Status == "pending" {
		err = p.call(ctx, http.MethodPost, "/v1/tool_calls/"+got.CallID+":wait?timeout_ms="+waitFor, struct{}{}, &got)
	}
	// A refusal of the platform's is for the model: it may do without, or call it otherwise.
	if f, ok := errors.AsType[*fault.Error](err); ok && ctx.Err() == nil {
		return failed(f.Code, f.Message), nil
	}
	if err != nil {
		return "", err
	}
	if got.Status != "succeeded" {
		return failed(got.Error.Code, got.Error.Message), nil
	}
	return cmp.Or(string(got.Result), "null"), nil
}

// failed is the result of a call that has none.
func failed(code, message string) string {
	text, _ := json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": message}}) // strings always encode
	return string(text)
}
