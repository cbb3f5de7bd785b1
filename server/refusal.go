// Refusals of the chat as streams, for clients that understand nothing else. The events are made up here for one
// response and are never in a log.

package server

import (
	"cmp"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/server/problem"
)

// needsPrompt is for the person who builds a TDesign page: without an onRequest the page posts an empty body. It is
// shown in the page's own chat, where its author looks first.
const needsPrompt = "This page sent no prompt. Its chatServiceConfig needs an onRequest that returns a body, " +
	`for example: onRequest: (params) => ({ body: JSON.stringify({ prompt: params.prompt }) }).`

// sendRefusal answers in a stream why a request was not taken. It is not logged. TDesign treats every later answer of
// a page as failed once it saw a RUN_ERROR, so a refusal that only concerns the moment is sent as a sentence of text.
// Joining a thread that does not exist is an empty Run for a page: it asks for its history at every load.
func sendRefusal(c echo.Context, a *chatInput, p *problem.Problem) error {
	var events []agui.Event
	switch page := a.req.Dialect == bridge.DialectTDesign; {
	case page && a.req.JoinOnly && p.Code == bridge.RefusedNothingToDo:
		events = wholeRun(a, "")
	// The thread is fine and the next prompt will be taken, so the page must not see an error.
	case page && p.Code == bridge.RefusedRunInProgress:
		events = wholeRun(a, p.Detail)
	case page && p.Code == bridge.RefusedNothingToDo:
		events = []agui.Event{&agui.RunError{Message: needsPrompt, Code: p.Code}}
	// A fault has an id by which its log line is found.
	case p.ErrorID != "":
		events = []agui.Event{&agui.RunError{Message: p.Detail + " (" + p.ErrorID + ")", Code: p.Code}}
	default:
		events = []agui.Event{&agui.RunError{Message: p.Detail, Code: p.Code}}
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "no-cache, no-transform")
	var frames []byte
	for _, ev := range events {
		frames = agui.AppendFrame(frames, 0, ev.AppendJSON(nil))
	}
	return c.Blob(http.StatusOK, eventStream, frames)
}

// wholeRun is a Run with one sentence of text. Ids that the request did not name are made up; a client needs them to
// be there, and never sends them again.
func wholeRun(a *chatInput, sentence string) []agui.Event {
	runID := cmp.Or(a.req.RunID, uuid.NewString())
	threadID := cmp.Or(a.req.ThreadID, runID)
	events := []agui.Event{&agui.RunStarted{ThreadID: threadID, RunID: runID, ProtocolVersion: agui.Version}}
	if sentence != "" {
		id := uuid.NewString()
		events = append(events,
			&agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant},
			&agui.TextMessageContent{MessageID: id, Delta: sentence},
			&agui.TextMessageEnd{MessageID: id})
	}
	return append(events, &agui.RunFinished{ThreadID: threadID, RunID: runID})
}
