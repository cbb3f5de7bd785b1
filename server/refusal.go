package server

import (
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
)

// needsPrompt is for the person who builds a TDesign page: without an onRequest the page
// posts an empty body.
const needsPrompt = "This page sent no prompt. Its chatServiceConfig needs an onRequest that returns a body, " +
	`for example: onRequest: (params) => ({ body: JSON.stringify({ prompt: params.prompt }) }).`

// sendRefusal says in a stream why a request was not taken. Nothing of it is kept. TDesign
// treats every later answer of a page as failed once it saw a RUN_ERROR, so what is only
// the wrong moment is said as a sentence.
func sendRefusal(c echo.Context, a *ask, p *problem) error {
	var events []agui.Event
	switch page := a.req.Dialect == bridge.DialectTDesign; {
	case page && a.req.JoinOnly && p.Code == bridge.RefusedNothingToDo:
		events = wholeRun(a, "")
	case page && p.Code == bridge.RefusedRunInProgress:
		events = wholeRun(a, p.Detail)
	case page && p.Code == bridge.RefusedNothingToDo:
		events = []agui.Event{&agui.RunError{Message: needsPrompt, Code: p.Code}}
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

// wholeRun is a Run that says one sentence.
func wholeRun(a *ask, sentence string) []agui.Event {
	runID := firstOf(a.req.RunID, uuid.NewString())
	threadID := firstOf(a.req.ThreadID, runID)
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
