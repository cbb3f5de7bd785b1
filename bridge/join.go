package bridge

import (
	"context"
	"encoding/json"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// historyLimit bounds the messages of one snapshot, beside snapshotBytes: what a client can sensibly hold.
const historyLimit = store.MaxPageLimit

// atRest are the frames for somebody who joins a thread where nothing runs: the history,
// the state, and an end that lists what is still asked, or is how the last Run ended. None of
// them is kept.
func (s *Sessions) atRest(ctx context.Context, in store.Scope, r Reply) ([]Item, error) {
	open, err := s.openShown(ctx, in, r.Session.ID)
	if err != nil {
		return nil, err
	}
	var broken *store.BrokenRun
	if len(open) == 0 {
		if broken, err = s.lastBroken(ctx, in, r.Session.ID); err != nil {
			return nil, err
		}
	}
	events := []agui.Event{&agui.RunStarted{ThreadID: r.Session.ExternalID, RunID: r.RunID, ProtocolVersion: protocolVersion}}
	if r.Dialect == DialectTDesign {
		events = append(events, stateOf(r.Session)...)
		events = append(events, cardAgain(open, r.Notes)...)
		if broken != nil && len(r.Notes) == 0 {
			events = append(events, endedSentence(broken)...)
		}
	} else {
		history, older, err := s.history(ctx, in, r.Session.ID, "")
		if err != nil {
			return nil, err
		}
		events = append(events, &agui.MessagesSnapshot{Messages: history}, &agui.StateSnapshot{Snapshot: orEmpty(r.Session.State)})
		events = append(append(events, older...), r.Notes...)
		if broken != nil {
			events = append(events, endedNote(broken))
		}
	}
	if broken != nil {
		return unkept(append(events, brokenEnd(r, broken))), nil
	}
	end := &agui.RunFinished{ThreadID: r.Session.ExternalID, RunID: r.RunID, Outcome: restOutcome(open, r.Dialect)}
	return unkept(append(events, end)), nil
}

// stateOf tells the Session's state, if there is any.
func stateOf(session store.Session) []agui.Event {
	if isEmptyObject(session.State) {
		return nil
	}
	return []agui.Event{&agui.StateSnapshot{Snapshot: session.State}}
}

// joinRun are the frames for somebody who joins a Run that is open: its RUN_STARTED, the
// history before it, and what must be known for the rest of its log to apply.
func (s *Sessions) joinRun(ctx context.Context, in store.Scope, r Reply, run store.Run, started Item) ([]Item, error) {
	if r.Dialect == DialectTDesign {
		return append([]Item{started}, unkept(append(stateOf(r.Session), sentences(r.Notes)...))...), nil
	}
	history, older, err := s.history(ctx, in, r.Session.ID, run.ID)
	if err != nil {
		return nil, err
	}
	begun, err := s.reasoningOf(ctx, in, r.Session.ID, run.FirstSeq)
	if err != nil {
		return nil, err
	}
	events := append([]agui.Event{&agui.MessagesSnapshot{Messages: append(history, begun...)}}, older...)
	events = append(events, stateOf(r.Session)...)
	items := []Item{{Event: started.Event}}
	return append(items, unkept(append(events, r.Notes...))...), nil
}

// reasoningOf are the reasoning messages the Run has begun, empty. Official clients keep
// reasoning they have already when a snapshot has none, and would append the replay to it.
func (s *Sessions) reasoningOf(ctx context.Context, in store.Scope, sessionID string, first int64) ([]agui.Message, error) {
	tail := s.cfg.Log.Tail(in, sessionID, first-1)
	defer tail.Close()
	var begun []agui.Message
	for {
		rows, err := tail.Ready(ctx)
		if err != nil || len(rows) == 0 {
			return begun, err
		}
		eventlog.Each(rows, func(_ int64, event []byte) bool {
			if agui.TypeOf(event) == agui.TypeReasoningMessageStart {
				if ev, err := agui.Decode(event); err == nil {
					id := ev.(*agui.ReasoningMessageStart).MessageID
					begun = append(begun, agui.Message{ID: id, Role: "reasoning", Content: agui.Text("")})
				}
			}
			return true
		})
	}
}

// openShown are the open Questions of a Session that some Run has shown.
func (s *Sessions) openShown(ctx context.Context, in store.Scope, sessionID string) ([]inbox.Question, error) {
	calls, err := s.cfg.Store.OpenToolCalls(ctx, in, sessionID)
	if err != nil {
		return nil, err
	}
	var open []inbox.Question
	for _, call := range calls {
		if call.RunID == "" {
			continue
		}
		q, err := inbox.Load(ctx, s.cfg.Store, in, call.ID)
		if err != nil {
			return nil, err
		}
		if q.Open() {
			open = append(open, q)
		}
	}
	return open, nil
}

// restOutcome ends a join at rest as the Run before ended: with what is open.
func restOutcome(open []inbox.Question, dialect string) *agui.Outcome {
	var asks, calls []inbox.Question
	for _, q := range open {
		if q.ClientTool() {
			calls = append(calls, q)
		} else {
			asks = append(asks, q)
		}
	}
	switch {
	case len(asks) > 0 && dialect == DialectTDesign:
		return interruptFor(asks[:1])
	case len(asks) > 0:
		return interruptFor(asks)
	case len(calls) > 0 && dialect != DialectTDesign:
		return pendingFor(calls)
	}
	return &agui.Outcome{Type: agui.OutcomeSuccess}
}

// cardAgain is what a TDesign page gets instead of a snapshot: a sentence, and the card
// of the oldest open Question once more.
func cardAgain(open []inbox.Question, notes []agui.Event) []agui.Event {
	events := sentences(notes)
	if len(open) == 0 {
		return events
	}
	if len(notes) == 0 {
		events = say("This conversation is waiting for your answer.")
	}
	return append(events, callEvents(open[0], "")...)
}

// sentences say notes in words, for pages that draw no CUSTOM events. A note that is not for
// a person has none.
func sentences(notes []agui.Event) []agui.Event {
	var events []agui.Event
	for _, n := range notes {
		c, ok := n.(*agui.Custom)
		if !ok {
			continue
		}
		if sentence := noteSentence(c); sentence != "" {
			events = append(events, say(sentence)...)
		}
	}
	return events
}

func noteSentence(note *agui.Custom) string {
	switch note.Name {
	case "question_settled":
		return "This question has been answered already."
	case "message_not_taken":
		return "Please answer the question first; then go on."
	case "question_open":
		return openSentence(note.Value)
	case "question_unknown":
		return "There is no such question in this conversation."
	}
	return ""
}

// openSentence says why an answer left its Question open. Only of who may decide what does
// the note's own message speak to a person: the others tell whoever wrote the page.
func openSentence(note json.RawMessage) string {
	var why inbox.Unclear
	_ = json.Unmarshal(note, &why) // of our own writing
	switch why.Code {
	case inbox.UnknownOption:
		return "That answer was not one of the options, so the question is still open."
	case inbox.NotApprover, inbox.FourEyes, inbox.EditRefused, inbox.PolicyBlocks:
		return why.Message + " The question is still open."
	}
	return "That is no answer to this question, so it is still open."
}

func say(text string) []agui.Event {
	id := newID()
	return []agui.Event{
		&agui.TextMessageStart{MessageID: id, Role: "assistant"},
		&agui.TextMessageContent{MessageID: id, Delta: text},
		&agui.TextMessageEnd{MessageID: id},
	}
}

func unkept(events []agui.Event) []Item {
	items := make([]Item, 0, len(events))
	for _, ev := range events {
		items = append(items, Item{Event: ev.AppendJSON(nil)})
	}
	return items
}

func orEmpty(state []byte) []byte {
	if len(state) == 0 {
		return []byte("{}")
	}
	return state
}
