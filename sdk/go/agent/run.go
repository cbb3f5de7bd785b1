// This file is one call of the agent: what it was called with, and what it answers. A Turn is one call or several,
// one more for each time that answers come; nothing is kept between them but what Aqueduct brings back.

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// transcriptWithin is how long a page of the transcript may take.
const transcriptWithin = time.Minute

// Message is one of the conversation. Content is a text, or a list of parts.
type Message struct {
	ID      string          `json:"id,omitempty"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content,omitempty"`
}

// Text is the message's text; of a list of parts those that are text.
func (m Message) Text() string {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	_ = json.Unmarshal(m.Content, &parts) // another form has no text
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// input is the body of /invoke (docs/protocol.md). Members of later versions are ignored.
type input struct {
	AgentID   string    `json:"agent_id"`
	SessionID string    `json:"session_id"`
	RunID     string    `json:"run_id"`
	Input     Message   `json:"input_message"`
	Messages  []Message `json:"messages"`
	Context   struct {
		UserID string `json:"user_id"`
	} `json:"context"`
	Tools          []json.RawMessage `json:"tools"`
	State          json.RawMessage   `json:"state"`
	ForwardedProps json.RawMessage   `json:"forwarded_props"`
	Resume         []answered        `json:"resume"`
}

// Run is one call of an agent: what Aqueduct sent, and what the agent can do about it. Its function alone uses it; another
// goroutine of the function may call Aqueduct by it, but not ask or write.
type Run struct {
	// ID is the Turn's: the same in every call of it.
	ID string
	// SessionID is the client's own name of the conversation, which another user may use too; AqueductSessionID no other has.
	SessionID, AqueductSessionID string
	AgentID, UserID              string
	// Prompt is what the person wrote. A call that brings answers has the same prompt as the first.
	Prompt   string
	Input    Message
	Messages []Message
	// ClientTools, State (the thread's shared state) and ForwardedProps are what the caller sent along.
	ClientTools           []json.RawMessage
	State, ForwardedProps json.RawMessage
	// Result is what the run gives beside its words, if it is set.
	Result any

	out     *outlet
	link    link
	answers answers
	replay  replay
	pending []string
	usage   map[string]int
	keys    keys
	broken  error // the first frame that could not be made
}

// newRun makes a Run of a call. The error is an answer whose id this package did not make.
//
// A call that brings answers has no message of a person as its input, so its prompt is the newest of the
// conversation.
func newRun(h http.Header, in input, out *outlet) (*Run, error) {
	answers, calls, err := gather(in.Resume)
	if err != nil {
		return nil, err
	}
	run := &Run{
		ID: in.RunID, SessionID: in.SessionID, AqueductSessionID: h.Get("x-aqueduct-session-id"), AgentID: in.AgentID,
		UserID: in.Context.UserID, Prompt: in.Input.Text(), Input: in.Input, Messages: in.Messages, ClientTools: in.Tools,
		State: in.State, ForwardedProps: in.ForwardedProps, out: out, answers: answers, replay: replay{calls: calls}, pending: []string{}, usage: map[string]int{},
		link: link{
			base: strings.TrimRight(h.Get("x-aqueduct-base-url"), "/"), token: h.Get("x-aqueduct-run-token"),
			trace: h.Get("traceparent"),
		},
	}
	for i := len(in.Messages) - 1; i >= 0 && in.Input.Role != "user"; i-- {
		if in.Messages[i].Role == "user" {
			run.Prompt = in.Messages[i].Text()
			break
		}
	}
	return run, nil
}

// Say adds words to the answer.
func (r *Run) Say(words string) {
	if words != "" {
		r.Frame("delta", map[string]string{"text": words})
	}
}

// Thought adds words of the reasoning, which are shown apart from the answer.
func (r *Run) Thought(words string) { r.Frame("thought", map[string]string{"text": words}) }

// Frame sends a frame of docs/protocol.md, for example "state", "tool_call" or "activity". When the caller has left, the
// function's ctx has ended, and frames go nowhere. Data that JSON cannot hold fails the run at its end.
func (r *Run) Frame(name string, data any) {
	raw, err := encode(name, data)
	if err != nil && r.broken == nil {
		r.broken = err
	}
	if err == nil && !r.replay.holds(raw) {
		r.out.write(raw)
	}
}

// Used adds to the usage that "done" has: input_tokens, output_tokens, total_tokens.
func (r *Run) Used(what string, n int) { r.usage[what] += n }

// LLM is what any client of OpenAI's API needs to call models through Aqueduct.
func (r *Run) LLM() (baseURL, apiKey string) { return r.link.base + "/v1", r.link.token }

// Context is what an agent keeps under keys, for this run and later ones.
func (r *Run) Context() Contexts { return Contexts{r.link} }

// TranscriptPage is which messages are wanted.
type TranscriptPage struct {
	// Limit is 50 where it is 0, at most 200.
	Limit int
	// Before is that of a page: it leads to the one before it.
	Before string
	// Form is agui, the default, or openai.
	Form string
}

// Transcript is a page of the conversation, the newest message last.
type Transcript struct {
	Messages []json.RawMessage `json:"messages"`
	HasMore  bool              `json:"has_more"`
	Before   string            `json:"before"`
}

// Transcript reads the conversation as a model would be given it (docs/api.md, "Transcript").
func (r *Run) Transcript(ctx context.Context, page TranscriptPage) (t Transcript, err error) {
	query := url.Values{}
	if page.Limit > 0 {
		query.Set("limit", strconv.Itoa(page.Limit))
	}
	if page.Before != "" {
		query.Set("before", page.Before)
	}
	if page.Form != "" {
		query.Set("format", page.Form)
	}
	got, err := r.link.once(ctx, transcriptWithin, http.MethodGet, "/v1/sessions/"+url.PathEscape(r.AqueductSessionID)+"/messages?"+query.Encode(), nil, nil)
	if err != nil {
		return t, err
	}
	if got.status != http.StatusOK {
		return t, refusal(got.status, got.raw)
	}
	err = json.Unmarshal(got.raw, &t)
	return t, err
}

// end sends the last frame: "done" where the function has ended well or has asked, and "error" otherwise. What is not
// meant for people stays in the log.
func (r *Run) end(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the caller has left
	}
	if err == nil || errors.Is(err, errAsked) {
		r.out.write(r.replay.letGo())
		r.Frame("done", done{Usage: r.usage, Pending: r.pending, Result: r.Result})
		if err = r.broken; err == nil {
			return
		}
	}
	known := (*Error)(nil)
	if !errors.As(err, &known) {
		slog.Error("the agent failed", "run", r.ID, "err", err)
		known = &Error{Code: "agent_error", Message: "The agent failed."}
	}
	r.Frame("error", map[string]string{"code": known.Code, "message": known.Message})
}

// done is the last frame of an answer. Pending is always there: an empty list means that the agent waits for nothing.
type done struct {
	Usage   map[string]int `json:"usage"`
	Pending []string       `json:"pending"`
	Result  any            `json:"result,omitempty"`
}
