package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/agui/tdesign"
	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/internal/strictjson"
	"aqueduct/server/auth"
)

// chatQuery is what a chat's URL may say.
type chatQuery struct {
	Agent   string `query:"agent" validate:"max=128"`
	Follow  bool   `query:"follow"`
	OnLeave string `query:"on_leave" validate:"omitempty,oneof=cancel"`
	OnBusy  string `query:"on_busy" validate:"omitempty,oneof=refuse queue"`
	Dialect string `query:"dialect" validate:"omitempty,oneof=agui-1.0 agui-0.x tdesign"`
}

// ask is one POST to the chat, read.
type ask struct {
	req   bridge.ChatRequest
	query chatQuery
	// named says that the client itself named the thread.
	named bool
	// answers says that the body answers something; such a body never gets an HTTP error.
	answers bool
}

// shape is what tells the bodies apart: the members that only one of them has.
type shape struct {
	Messages        json.RawMessage `json:"messages"`
	ProtocolVersion json.RawMessage `json:"protocolVersion"`
	Resume          json.RawMessage `json:"resume"`
	Prompt          json.RawMessage `json:"prompt"`
	ToolCallMessage json.RawMessage `json:"toolCallMessage"`
	AgentID         *string         `json:"agent_id"` // whom the message is for; ?agent= goes before it
}

// maxAgentID bounds the name of an agent.
const maxAgentID = 128

// there reports whether a member is given; null is as good as absent.
func there(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// readAsk reads a body of whichever client posted it. sum is the hash of all of it; messages that are known may have been
// left out of body.
func readAsk(c echo.Context, body, sum []byte, q chatQuery) (*ask, error) {
	a := &ask{query: q, req: bridge.ChatRequest{
		Principal: auth.From(c.Request().Context()).Principal, AgentID: q.Agent, OnBusy: q.OnBusy,
		ThreadID: headerID(c.Request().Header), Traceparent: c.Request().Header.Get("Traceparent"), Tracestate: strings.Join(c.Request().Header.Values("Tracestate"), ","),
	}}
	a.req.BodyHash = sum
	if len(bytes.TrimSpace(body)) == 0 {
		a.req.Dialect = firstOf(q.Dialect, bridge.DialectTDesign)
		a.named = a.req.ThreadID != ""
		return a, nil
	}
	if err := agui.CheckJSON(body, agui.MaxJSONDepth); err != nil {
		return nil, err
	}
	var s shape
	if err := json.Unmarshal(body, &s); err != nil { // which body it is; those who read it take names exactly
		return nil, refuse(codeInvalidBody, "The body must be an object, and an agent_id in it text.")
	}
	if s.AgentID != nil && a.req.AgentID == "" {
		if a.req.AgentID = *s.AgentID; len(a.req.AgentID) > maxAgentID {
			return nil, refuse(codeInvalidBody, "agent_id: too long.")
		}
	}
	a.req.Dialect = firstOf(q.Dialect, s.dialect(c.Request()))
	read := a.readTDesign
	if s.isInput() || !s.isTDesign() && a.req.Dialect != bridge.DialectTDesign {
		read = a.readInput
	}
	if err := read(body); err != nil {
		return a, err
	}
	a.named = a.req.ThreadID != ""
	return a, nil
}

func (s shape) isInput() bool {
	return there(s.Messages) || there(s.ProtocolVersion) || there(s.Resume)
}

// isTDesign: a member counts that is given, null too; no other client has it.
func (s shape) isTDesign() bool { return len(s.Prompt) > 0 || len(s.ToolCallMessage) > 0 }

// dialect is what the body's client understands. A TDesign page may build a RunAgentInput by hand, or a body that says
// nothing; then its headers tell.
func (s shape) dialect(r *http.Request) string {
	switch {
	case there(s.ProtocolVersion):
		return bridge.DialectV1
	case !s.isInput() && s.isTDesign(), sentByTDesign(r.Header):
		return bridge.DialectTDesign
	}
	return bridge.DialectV0
}

// sentByTDesign reports whether the headers are those of TDesign's fetch, which always sets Cache-Control: no-cache.
// Clients of other makers set it too, but outside browsers, which alone send Sec-Fetch-Mode; and a browser whose cache is
// disabled, or whose page was reloaded by force, sends it for every client, with Pragma beside it.
func sentByTDesign(h http.Header) bool {
	return strings.Contains(h.Get("Cache-Control"), "no-cache") && h.Get("Sec-Fetch-Mode") != "" && h.Get("Pragma") == ""
}

// readInput reads a RunAgentInput. Tool messages stay among the messages: bridge tells
// those it knows from answers.
func (a *ask) readInput(body []byte) error {
	in, err := agui.DecodeInput(body)
	if err != nil {
		return err
	}
	if in.ProtocolVersion != "" && !strings.HasPrefix(in.ProtocolVersion, "1.") {
		return refuse(codeInvalidVersion, "This server speaks "+agui.Version+".")
	}
	a.req.ThreadID, a.req.RunID = firstOf(in.ThreadID, a.req.ThreadID), in.RunID
	a.req.Messages, a.req.Tools, a.req.Context = in.Messages, in.Tools, in.Context
	a.req.State, a.req.Props = in.State, in.ForwardedProps
	for _, r := range in.Resume {
		a.req.Answers = append(a.req.Answers, inbox.Answer{
			QuestionID: r.InterruptID, Cancelled: r.Status == agui.ResumeCancelled, Payload: r.Payload,
		})
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

// checkIDs: ids get into frames, headers and log lines. One of them stands for another thread in a path.
func (a *ask) checkIDs(ids ...string) error {
	ids = append(ids, a.req.ThreadID, a.req.RunID)
	for _, id := range ids {
		if id != "" && !bridge.ValidExternalID(id) || id == browserThread {
			return refuse(bridge.RefusedInvalidID, bridge.InvalidIDs)
		}
	}
	return nil
}

// readTDesign reads what a TDesign page posts. It has no ids for what its user says.
func (a *ask) readTDesign(body []byte) error {
	page, err := tdesign.DecodeBody(body)
	if err != nil {
		return err
	}
	a.req.ThreadID, a.req.RunID = firstOf(page.ThreadID, a.req.ThreadID), page.RunID
	if strings.TrimSpace(page.Prompt) != "" {
		a.req.Unnamed = true
		if page.Regenerate != nil && !*page.Regenerate {
			a.req.Repeat = bridge.RepeatNever
		}
		a.req.Messages = []agui.Message{{ID: uuid.NewString(), Role: agui.RoleUser, Content: agui.Text(page.Prompt)}}
	}
	if page.Answer != nil {
		a.req.Answers, a.answers = []inbox.Answer{pageAnswer(page.Answer)}, true
	}
	return a.checkIDs()
}

// pageAnswer reads an answered card. Pages send the id of the wrong card when two are
// open, or none at all; the option that was clicked knows better whose it is.
func pageAnswer(from *tdesign.Answer) inbox.Answer {
	a := inbox.Answer{QuestionID: from.ToolCallID, Payload: from.Result}
	if id, _, ok := tdesign.ParseOptionID(optionOf(from.Result)); ok {
		a.QuestionID = id
	}
	return a
}

// optionOf finds the option in the spellings that pages use.
func optionOf(result json.RawMessage) string {
	var bare string
	if json.Unmarshal(result, &bare) == nil {
		return bare
	}
	var body struct {
		OptionID  string `json:"optionId"`
		OptionID2 string `json:"option_id"`
		Choice    string `json:"choice"`
		Outcome   struct {
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	}
	// A member of another type leaves the others readable: what is found counts.
	_ = strictjson.Unmarshal(result, &body)
	return firstOf(body.OptionID, body.OptionID2, body.Choice, body.Outcome.OptionID)
}

func endsWithToolMessage(messages []agui.Message) bool {
	return len(messages) > 0 && messages[len(messages)-1].Role == agui.RoleTool
}

func firstOf(ss ...string) string {
	for _, s := range ss {
		if s != "" {
			return s
		}
	}
	return ""
}
