// The transcript of a Session for its agent and for its user (platform contract §7.4): read in pages, and written to one
// message at a time. What a message means for the log is the engine's (bridge/appending.go).

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/agui/openai"
	"aqueduct/bridge"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// sessionMessages is /v1/sessions/{id}/messages. The same path serves agents and users: a run token has a form that no
// user's token has. {id} is the Session's id or the thread's.
type sessionMessages struct {
	threads *threads
	agents  agentCallers
	in      *decode.Decoder
}

// Mount adds the routes as open ones, because a run token is no credential of a caller; each handler checks it first.
func (h *sessionMessages) Mount(to *route.Routes) {
	const path = "/v1/sessions/:id/messages"
	h.mount(to, http.MethodGet, path, h.agentReads, h.userReads)
	h.mount(to, http.MethodPost, path, h.agentAppends, h.userAppends)
}

func (h *sessionMessages) mount(to *route.Routes, method, path string, agents func(echo.Context, string) error, users echo.HandlerFunc) {
	own := to.Beside(method, path, users)
	to.Open(method, path, func(c echo.Context) error {
		if token, err := runToken(c); err == nil {
			return agents(c, token)
		}
		return own(c)
	})
}

// transcriptPage is how many messages a page has when the caller names no limit: about what a prompt uses. The longest page
// is in the query's rule.
const transcriptPage = 50

// transcriptQuery is one page of a transcript, and its form. before is a page's own before, or the position of a message.
type transcriptQuery struct {
	Limit  int    `query:"limit" validate:"gte=0,lte=200"`
	Before string `query:"before" validate:"omitempty,uuid"`
	Format string `query:"format" validate:"omitempty,oneof=agui openai"`
}

// transcriptJSON is a page, the newest message last. before is there as long as there are older messages.
type transcriptJSON struct {
	Messages []any  `json:"messages"`
	HasMore  bool   `json:"has_more"`
	Before   string `json:"before,omitempty"`
}

// userReads gives a page to the user of the thread, or to one with whom it is shared.
func (h *sessionMessages) userReads(c echo.Context) error {
	s, err := h.threads.find(c)
	if err != nil {
		return err
	}
	_, in := scoped(c)
	return h.read(c, c.Request().Context(), in, s, "", nil)
}

// agentReads gives a page to the agent: the text that its calls have too, with the bytes of the files. It ends with the agent's own
// Turn: a message that waits for a later one may be for another agent.
func (h *sessionMessages) agentReads(c echo.Context, token string) error {
	turn, err := h.agents.turn(c, token)
	if err != nil {
		return err
	}
	s, _, err := h.named(c, token)
	if err != nil {
		return err
	}
	return h.read(c, store.WithOriginals(c.Request().Context()), store.System(), s, turn.ID, h.threads.sessions.Transcript().WithParts)
}

// named is the Session that an agent's token and the path name together.
func (h *sessionMessages) named(c echo.Context, token string) (s store.Session, author string, err error) {
	id, err := decode.PathID(c, "id")
	if err != nil {
		return s, "", err
	}
	s, author, err = h.threads.sessions.AgentRequests().Named(c.Request().Context(), token, id)
	return s, author, agentProblem(err)
}

// read writes one page, of the current branch or of the one that ends with a Turn. One message more than asked for is read, which
// tells whether there are older ones. fill, when it is set, adds what messages name by URLs.
func (h *sessionMessages) read(c echo.Context, ctx context.Context, in store.Scope, s store.Session, turnID string, fill func(context.Context, string, []agui.Message) ([]agui.Message, error)) error {
	var q transcriptQuery
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	if q.Limit == 0 {
		q.Limit = transcriptPage
	}
	page := store.Page{Limit: q.Limit + 1, Before: q.Before, MaxBytes: messagesBytes}
	rows, whole, err := h.threads.sessions.Transcript().History(ctx, in, s.ID, turnID, page, bridge.InlinePart)
	if err != nil {
		return err
	}
	if len(rows) > q.Limit {
		rows = rows[1:]
	}
	broken, err := h.threads.brokenRuns(ctx, in, s.ID, rows)
	if err != nil {
		return err
	}
	messages := make([]agui.Message, len(rows))
	for i, row := range markPlain(rows, broken) {
		if err := json.Unmarshal(row.Data, &messages[i]); err != nil {
			return err
		}
	}
	if fill != nil {
		if messages, err = fill(ctx, s.ID, messages); err != nil {
			return err
		}
	}
	// Results stand behind their calls, as agents get them with a call: models refuse anything in between.
	out := transcriptJSON{Messages: messagesOut(agui.OrderResults(messages), q.Format), HasMore: !whole}
	if !whole {
		out.Before = rows[0].ID
	}
	return c.JSON(http.StatusOK, out)
}

// messagesOut is messages in a form.
func messagesOut(messages []agui.Message, format string) []any {
	if format == "openai" {
		return eachOut(openai.Page(messages), func(m openai.Message) any { return m })
	}
	return eachOut(messages, func(m agui.Message) any { return m })
}

// appendBody is a message for the end of the transcript.
type appendBody struct {
	Message appendedMessage `json:"message"`
}

// appendedMessage is text. Files come with a chat message, which an agent then gets.
type appendedMessage struct {
	ID      string          `json:"id" validate:"max=128"`
	Role    string          `json:"role" validate:"required,oneof=user assistant system developer tool"`
	Content json.RawMessage `json:"content" validate:"required"` // a text, or text parts
	Name    string          `json:"name" validate:"max=128"`
}

// appendedJSON is a message that was appended. A position names its place in the transcript; it is absent while the
// message waits for the thread's owner.
type appendedJSON struct {
	Message  json.RawMessage `json:"message"`
	Position string          `json:"position,omitempty"`
}

// userAppends takes what the user wrote elsewhere. It prompts no agent: a prompt is a chat message.
func (h *sessionMessages) userAppends(c echo.Context) error {
	s, err := h.threads.find(c)
	if err != nil {
		return err
	}
	if err := mayWrite(c, h.threads.store, s); err != nil {
		return err
	}
	_, caller := callerOf(c)
	if err := h.in.MayRun(c, caller.Principal); err != nil {
		return err
	}
	return h.append(c, bridge.Appending{Session: s, Scope: caller.Scope()}, agui.RoleUser)
}

// agentAppends takes a message of the agent. It counts like a tool call, against an agent in a loop.
func (h *sessionMessages) agentAppends(c echo.Context, token string) error {
	if _, _, err := h.agents.counted(c); err != nil {
		return err
	}
	s, author, err := h.named(c, token)
	if err != nil {
		return err
	}
	return h.append(c, bridge.Appending{Session: s, Scope: store.System(), Message: agui.Message{Name: author}}, agui.RoleAssistant)
}

// append writes the message of the body, in the one role that the caller has: an agent must not write in the name of its
// user, nor a user in that of the agent or of the operator, as in a chat.
func (h *sessionMessages) append(c echo.Context, to bridge.Appending, role string) error {
	var body appendBody
	if err := h.in.JSON(c, &body); err != nil {
		return err
	}
	given := body.Message
	if given.Role != role {
		return problem.Refuse(problem.MessageRole, "A message of this caller has the role "+role+".")
	}
	text, err := appendedText(given.Content)
	if err != nil {
		return err
	}
	m := agui.Message{ID: given.ID, Role: role, Name: to.Message.Name, Content: agui.Text(text)}
	if given.Name != "" {
		m.Name = given.Name
	}
	to.Message = m
	sessions := h.threads.sessions
	h.in.Awaits(c, sessions.Limits().OwnerWait)
	done, err := sessions.Appends().Append(c.Request().Context(), to)
	if err != nil {
		return err
	}
	status := http.StatusCreated
	switch {
	case done.Position == "":
		status = http.StatusAccepted
	case done.Repeated:
		status = http.StatusOK
	}
	return c.JSON(status, appendedJSON{Message: done.Message.AppendJSON(nil), Position: done.Position})
}

// appendedText is a content of text: a string, or parts that are all text.
func appendedText(raw json.RawMessage) (string, error) {
	var content agui.Content
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '"' && raw[0] != '[' || json.Unmarshal(raw, &content) != nil {
		return "", problem.Refuse(problem.InvalidBody, "At /message/content: must be a string or an array of text parts.")
	}
	for _, p := range content.Parts {
		if p.Type != agui.PartText {
			return "", problem.Refuse(problem.InvalidBody, "At /message/content: only text is appended. Files come with a chat message.")
		}
	}
	text := content.String()
	if text == "" {
		return "", problem.Refuse(problem.InvalidBody, "At /message/content: must not be empty.")
	}
	return text, nil
}
