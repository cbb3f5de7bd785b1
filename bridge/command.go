package bridge

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"aqueduct/bridge/approval"
	"aqueduct/internal/jsonequal"
	"aqueduct/store"
)

// noneNamed reports an answer that matches none of the open Questions: one by forwardedProps.command, or one to a card that
// is not the Question's. It is the value of question_unknown.
type noneNamed struct {
	ID   string   `json:"id"` // "": the answer has no id of ours
	Open []string `json:"open"`
}

// Error implements error.
func (*noneNamed) Error() string { return "bridge: the answer names no open question" }

// questionOfCommand returns the open Question that a client answers by forwardedProps.command.resume. The command names none
// by our id. It answers the only open Question, or the one whose event equals command.interruptEvent. An event of another
// Question answers none, because that card was for something else. The card of an event is the Agent's own making, so its
// answer decides no call that the server executes, and none of a called agent.
func (t *answerTaker) questionOfCommand(ctx context.Context, c approval.Command) (approval.Question, error) {
	open, err := t.tx.OpenToolCalls(ctx, store.System(), t.session.ID)
	if err != nil {
		return approval.Question{}, err
	}
	var asks, named []approval.Question
	unknown := &noneNamed{Open: []string{}}
	for _, call := range open {
		if call.Status != store.ToolWaitingApproval {
			continue // a client's tool is answered by a tool message
		}
		q, err := approval.Of(ctx, t.tx, store.System(), call)
		if err != nil {
			return q, err
		}
		if q.IsToolCall() {
			continue
		}
		asks, unknown.Open = append(asks, q), append(unknown.Open, call.ID)
		if isEventOf(c.Event, q) {
			named = append(named, q)
		}
	}
	// A client that names the event answers only that question. Otherwise two presses on one card, or a card of an earlier
	// turn that is still on the screen, would answer any other open question, even a permission.
	switch {
	case len(named) == 1:
		return named[0], nil
	case len(asks) == 1 && c.Event == nil:
		return asks[0], nil
	}
	return approval.Question{}, unknown
}

// questionOfAgent returns the open Question that the agent asked by CUSTOM on_interrupt under its own id. Its clients know
// only that id, from the event, and answer by an entry of resume (CrewAI).
func (t *answerTaker) questionOfAgent(ctx context.Context, id string) (approval.Question, error) {
	open, err := t.tx.OpenToolCalls(ctx, store.System(), t.session.ID)
	if err != nil {
		return approval.Question{}, err
	}
	var named []approval.Question
	for _, call := range open {
		if call.Status != store.ToolWaitingApproval {
			continue
		}
		q, err := approval.Of(ctx, t.tx, store.System(), call)
		if err != nil {
			return q, err
		}
		if q.OnInterrupt() && isEventOf(mustJSON(map[string]string{"id": id}), q) {
			named = append(named, q)
		}
	}
	if len(named) != 1 {
		return approval.Question{}, store.ErrNotFound
	}
	return named[0], nil
}

// shownMembers are the members of an event in which agents write what the person reads.
var shownMembers = []string{"message", "question", "prompt", "description", "title", "text"}

// showsTitle reports whether what an event shows is the title of a Question, and nothing else. An event in which the title stands
// beside another text may have been shown without it.
func showsTitle(event map[string]json.RawMessage, title string) (shows bool) {
	for _, key := range shownMembers {
		var text string
		if json.Unmarshal(event[key], &text) != nil || text == "" {
			continue
		}
		if text != title {
			return false
		}
		shows = true
	}
	return shows
}

// isEventOf reports whether an event is the one that asked a Question: its value, or one with an id of it. The client returns
// it as text or as JSON, and masked, so it is compared with the masked row. An agent that asks by an outcome may also have
// sent the event, whose value is not kept: it has the Question's text.
func isEventOf(event json.RawMessage, q approval.Question) bool {
	value := approval.Unwrapped(event)
	if len(value) == 0 {
		return false
	}
	if q.OnInterrupt() && jsonequal.Texts(value, approval.Unwrapped(q.Call.Event)) {
		return true
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text == q.Call.ID || text != "" && text == q.Approval.Title
	}
	var ids map[string]json.RawMessage
	_ = json.Unmarshal(value, &ids) // a value that is not an object has none
	_, asked, _ := strings.Cut(q.Call.UpstreamID, "/")
	parts := append(strings.FieldsFunc(asked, func(r rune) bool { return r == '/' || r == ':' }), q.Call.ID)
	if !q.OnInterrupt() && showsTitle(ids, q.Approval.Title) {
		return true
	}
	for _, key := range []string{"questionId", "interruptId", "interrupt_id", "id", "toolCallId"} {
		if json.Unmarshal(ids[key], &text) == nil && slices.Contains(parts, text) {
			return true
		}
	}
	return false
}
