// How the bodies of three kinds of clients become one bridge.ChatRequest: AG-UI 1.0 and 0.x send a RunAgentInput
// ({"threadId":…,"runId":…,"messages":[…],"resume":[…]}), TDesign pages send {"prompt":"…"} or
// {"toolCallMessage":{…}}. Which of them a body is decides also how its client is answered.

package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/agui/tdesign"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/ids"
	"aqueduct/internal/strictjson"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
)

// chatQuery is what a chat's URL may say. follow keeps the stream open across the following Runs of the thread;
// on_leave and on_busy say what happens when the client goes and when the thread is still answering; dialect
// overrides what the body and the headers look like.
type chatQuery struct {
	Agent   string `query:"agent" validate:"max=128"`
	Follow  bool   `query:"follow"`
	OnLeave string `query:"on_leave" validate:"omitempty,oneof=cancel"`
	OnBusy  string `query:"on_busy" validate:"omitempty,oneof=refuse queue"`
	Dialect string `query:"dialect" validate:"omitempty,oneof=agui-1.0 agui-0.x tdesign"`
}

// chatInput is one POST to the chat, read. It belongs to the request's goroutine. Handlers change it: connect clears
// the answers, place sets the thread.
type chatInput struct {
	req   bridge.ChatRequest
	query chatQuery
	// answers: the body answers a question; such a body never gets an HTTP error.
	answers bool
}

// bodyKind distinguishes the bodies: it has the members that only one of them has. The members are kept raw: their
// types are checked when the body is read for good.
type bodyKind struct {
	Messages        json.RawMessage `json:"messages"`
	ProtocolVersion json.RawMessage `json:"protocolVersion"`
	Resume          json.RawMessage `json:"resume"`
	Prompt          json.RawMessage `json:"prompt"`
	ToolCallMessage json.RawMessage `json:"toolCallMessage"`
	AgentID         *string         `json:"agent_id"` // whom the message is for; ?agent= goes before it
}

// maxAgentID bounds the name of an agent. The query parameter has the same bound in its rule.
const maxAgentID = 128

// chatBounds are those of a RunAgentInput, and of what only a TDesign page has.
var chatBounds = func() *strictjson.Bounds {
	b := *strictjson.BoundsOf(reflect.TypeFor[agui.RunAgentInput]())
	b.Members = maps.Clone(b.Members)
	b.Members["attachments"] = &strictjson.Bounds{Most: strictjson.MostElements}
	return &b
}()

// readChatInput reads a body of whichever client posted it. sum is the hash of all of it; messages that are known may
// have been left out of body. An empty body is that of a TDesign page without an onRequest, so it is read as TDesign
// unless the query names another dialect. The result is not nil from the moment on that the dialect is known.
func readChatInput(c echo.Context, in *decode.Decoder, body, sum []byte, q chatQuery) (*chatInput, error) {
	a := &chatInput{query: q, req: bridge.ChatRequest{
		Principal: auth.From(c.Request().Context()).Principal, AgentID: q.Agent, OnBusy: q.OnBusy,
		// Several headers Tracestate are one list (W3C Trace Context).
		ThreadID: headerID(c.Request().Header), Traceparent: c.Request().Header.Get("Traceparent"), Tracestate: strings.Join(c.Request().Header.Values("Tracestate"), ","),
	}}
	// The query is not in the hash: a repeated body is the same request, whatever its URL has.
	a.req.BodyHash = sum
	if len(bytes.TrimSpace(body)) == 0 {
		a.req.Dialect = cmp.Or(q.Dialect, bridge.DialectTDesign)
		return a, nil
	}
	values, err := agui.CheckBounded(body, agui.MaxJSONDepth, strictjson.MostValues, chatBounds)
	if err != nil {
		return nil, err
	}
	if err := in.Weigh(c, len(body), values); err != nil {
		return nil, err
	}
	var s bodyKind
	if err := json.Unmarshal(body, &s); err != nil { // which body it is; those who read it take names exactly
		return nil, problem.Refuse(problem.InvalidBody, "The body must be an object, and an agent_id in it text.")
	}
	// The query wins over the body, because a proxy or a page's URL may choose the agent for a client that knows
	// none.
	if s.AgentID != nil && a.req.AgentID == "" {
		if a.req.AgentID = *s.AgentID; len(a.req.AgentID) > maxAgentID {
			return nil, problem.Refuse(problem.InvalidBody, "agent_id: too long.")
		}
	}
	a.req.Dialect = cmp.Or(q.Dialect, s.dialect(c.Request()))
	// A body without any telling member goes by its dialect: read as a RunAgentInput it gets an error that names the
	// missing member, which helps the author of an AG-UI client and not the one of a page.
	read := a.readTDesign
	if s.isInput() || !s.isTDesign() && a.req.Dialect != bridge.DialectTDesign {
		read = a.readInput
	}
	return a, read(body)
}

// A member that is null does not count: some clients write every member of their type.
func (s bodyKind) isInput() bool {
	return strictjson.IsSet(s.Messages) || strictjson.IsSet(s.ProtocolVersion) || strictjson.IsSet(s.Resume)
}

// isTDesign: a member counts that is given, null too; no other client has it.
func (s bodyKind) isTDesign() bool { return len(s.Prompt) > 0 || len(s.ToolCallMessage) > 0 }

// dialect is what the body's client understands. A TDesign page may build a RunAgentInput by hand, or a body with no
// sign of its dialect; then the headers decide. protocolVersion is sent by AG-UI 1.0 clients alone, so it outweighs
// everything else.
func (s bodyKind) dialect(r *http.Request) string {
	switch {
	case strictjson.IsSet(s.ProtocolVersion):
		return bridge.DialectV1
	case !s.isInput() && s.isTDesign(), sentByTDesign(r.Header):
		return bridge.DialectTDesign
	}
	return bridge.DialectV0
}

// sentByTDesign reports whether the headers are those of TDesign's fetch, which always sets Cache-Control: no-cache.
// Clients of other makers set it too, but outside browsers, which alone send Sec-Fetch-Mode; and a browser whose
// cache is disabled, or whose page was reloaded by force, sends it for every client, with Pragma beside it. It
// decides only for bodies that fit several clients, such as an empty one; a body with a member of its own outweighs
// it.
func sentByTDesign(h http.Header) bool {
	return strings.Contains(h.Get("Cache-Control"), "no-cache") && h.Get("Sec-Fetch-Mode") != "" && h.Get("Pragma") == ""
}

// readInput reads a RunAgentInput. Tool messages stay among the messages: bridge separates those it knows from
// answers. So an answer may arrive three times over: in resume, as a tool message, and in forwardedProps. All of them
// are kept; settling the same question twice the same way changes nothing.
func (a *chatInput) readInput(body []byte) error {
	in, err := agui.DecodeInput(body)
	if err != nil {
		return err
	}
	if in.ProtocolVersion != "" && !strings.HasPrefix(in.ProtocolVersion, "1.") {
		return problem.Refuse(problem.InvalidVersion, "This server speaks "+agui.Version+".")
	}
	a.req.ThreadID, a.req.RunID = cmp.Or(in.ThreadID, a.req.ThreadID), in.RunID
	a.req.Messages, a.req.Tools, a.req.Context = in.Messages, in.Tools, in.Context
	a.req.State, a.req.Props = in.State, in.ForwardedProps
	for _, r := range in.Resume {
		a.req.Answers = append(a.req.Answers, approval.Answer{
			QuestionID: r.InterruptID, Cancelled: r.Status == agui.ResumeCancelled, Payload: r.Payload,
		})
	}
	if command := commandOf(in.ForwardedProps); command != nil {
		a.req.Answers = append(a.req.Answers, *command)
	}
	// A page of TDesign that builds a RunAgentInput by hand puts its answer into forwardedProps.
	if page, err := tdesign.DecodeBody(body); err == nil && page.Answer != nil {
		a.req.Answers = append(a.req.Answers, pageAnswer(page.Answer))
	}
	a.answers = len(a.req.Answers) > 0 || endsWithToolMessage(in.Messages)
	a.req.ParentRunID = in.ParentRunID
	// A TDesign page that builds its input by hand makes up an id for each request, also where it repeats one.
	a.req.Unnamed = a.req.Dialect == bridge.DialectTDesign && len(in.Messages) == 1
	return a.checkIDs(in.ParentRunID)
}

// checkIDs: ids get into frames, headers and log lines. One of them stands for another thread in a path. @browser is
// refused as a thread id: GET /api/threads/@browser would never find that thread.
func (a *chatInput) checkIDs(more ...string) error {
	for _, id := range append(more, a.req.ThreadID, a.req.RunID) {
		if id != "" && !ids.Valid(id) || id == browserThread {
			return problem.Refuse(bridge.RefusedInvalidID, ids.Form)
		}
	}
	return nil
}

// readTDesign reads what a TDesign page posts. Its messages have no ids. The message gets a random id, and Unnamed
// lets the engine recognize a repeated prompt by its text instead. regenerate=false switches that off: such a page
// means the same text again.
func (a *chatInput) readTDesign(body []byte) error {
	page, err := tdesign.DecodeBody(body)
	if err != nil {
		return err
	}
	a.req.ThreadID, a.req.RunID = cmp.Or(page.ThreadID, a.req.ThreadID), page.RunID
	// A prompt of spaces is no prompt; the engine then finds nothing to do and the page gets a hint.
	if strings.TrimSpace(page.Prompt) != "" || len(page.Files) > 0 {
		a.req.Unnamed = true
		if page.Regenerate != nil && !*page.Regenerate {
			a.req.Repeat = bridge.RepeatNever
		}
		content := agui.Text(page.Prompt)
		if len(page.Files) > 0 {
			content = agui.Content{Parts: page.Files}
			if page.Prompt != "" {
				content.Parts = append([]agui.ContentPart{{Type: agui.PartText, Text: page.Prompt}}, page.Files...)
			}
		}
		a.req.Messages = []agui.Message{{ID: uuid.NewString(), Role: agui.RoleUser, Content: content}}
	}
	a.req.Tools = page.Tools
	if page.Answer != nil {
		a.req.Answers, a.answers = []approval.Answer{pageAnswer(page.Answer)}, true
	}
	return a.checkIDs()
}

// pageAnswer reads an answered card. The answer is for the card that it names, whatever its result says: the result may come
// from a card that an agent made.
func pageAnswer(from *tdesign.Answer) approval.Answer {
	return approval.Answer{QuestionID: approval.QuestionOf(from.ToolCallID), CardID: from.ToolCallID, Payload: from.Result}
}

// acts reports whether the body may be a button of a page. The client made the button's call itself and put it last into its
// history, with its result. From the body alone this is a guess; it only decides how the request is counted.
func (a *chatInput) acts() bool {
	return len(a.req.Answers) == 0 && len(a.req.Props) > len(`{}`) && endsWithToolMessage(a.req.Messages)
}

// A history that ends with a tool's result is an answer: the client ran the tool and waits for the agent to go on. A
// result further up was answered before.
func endsWithToolMessage(messages []agui.Message) bool {
	return len(messages) > 0 && messages[len(messages)-1].Role == agui.RoleTool
}
