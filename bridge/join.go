package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/eventlog"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// historyLimit bounds the messages of one snapshot, beside snapshotBytes: what a client can sensibly hold.
const historyLimit = store.MaxPageLimit

// atRest are the frames for a client that joins a thread where nothing runs: the history,
// the state, and an end that lists what is still asked, or is how the last Run ended. None of
// them is kept.
//
// They look like a Run that is over at once, because a client's connect is a run to it: RUN_STARTED, the messages, the
// state, RUN_FINISHED with what is open as its outcome.
func (s *Feeds) atRest(ctx context.Context, in store.Scope, r Reply) ([]Item, error) {
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
		history, older, err := s.transcript.newest(ctx, in, r.Session.ID, until{})
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
		return transientItems(append(events, brokenEnd(r, broken))), nil
	}
	end := &agui.RunFinished{ThreadID: r.Session.ExternalID, RunID: r.RunID, Outcome: restOutcome(open, r.Dialect)}
	return transientItems(append(append(events, toldAgain(open, r.Dialect, end)...), end)), nil
}

// stateOf tells the Session's state, if there is any.
// A state that is empty is left out: a page that has none yet must not be given one for nothing, since some show it.
func stateOf(session store.Session) []agui.Event {
	if isEmptyObject(session.State) {
		return nil
	}
	return []agui.Event{&agui.StateSnapshot{Snapshot: session.State}}
}

// joinRun are the frames for a client that joins a Run that is open: its RUN_STARTED, the
// history before it, and what must be known for the rest of its log to apply.
// The history before the Run comes as one snapshot, then the Run's own events from its first: so a client that comes
// in the middle has the same messages as one that was there.
func (s *Feeds) joinRun(ctx context.Context, in store.Scope, r Reply, run store.Run, started Item) ([]Item, error) {
	if r.Dialect == DialectTDesign {
		return append([]Item{started}, transientItems(append(stateOf(r.Session), sentences(r.Notes)...))...), nil
	}
	history, older, err := s.transcript.newest(ctx, in, r.Session.ID, until{run: run.ID})
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool, len(history))
	for i := range history {
		known[history[i].ID] = true
	}
	begun, err := s.begunUntilReasoning(ctx, in, r.Session.ID, run.FirstSeq, known)
	if err != nil {
		return nil, err
	}
	first, err := startWithout(started.Event, known)
	if err != nil {
		return nil, err
	}
	events := append([]agui.Event{&agui.MessagesSnapshot{Messages: append(history, begun...)}}, older...)
	events = append(events, stateOf(r.Session)...)
	items := []Item{{Event: first}}
	return append(items, transientItems(append(events, r.Notes...))...), nil
}

// startWithout returns a RUN_STARTED without those messages of its input that the snapshot has. Clients append the input's
// messages before the snapshot comes, and the snapshot does not move them. So the newest message would be the first.
func startWithout(started []byte, known map[string]bool) ([]byte, error) {
	ev, err := agui.Decode(started)
	if err != nil {
		return nil, err
	}
	run, ok := ev.(*agui.RunStarted)
	if !ok || run.Input == nil {
		return started, nil
	}
	run.Input.Messages = slices.DeleteFunc(run.Input.Messages, func(m agui.Message) bool { return known[m.ID] })
	return run.AppendJSON(nil), nil
}

// begunActivities bounds the activities that are named in a snapshot with their contents: the frame must stay below 10 MiB, at
// which client 1.0 gives up. Further ones come after the Run's reasoning.
const begunActivities = 1 << 20

// begunUntilReasoning returns the messages that the Run has begun, up to its last reasoning message, without their texts.
// Official clients keep reasoning that they have when a snapshot has none, and would append the replay to it. Messages that
// began before the reasoning are named too, in the order of the log, because a message keeps the place that it had in the
// snapshot.
func (s *Feeds) begunUntilReasoning(ctx context.Context, in store.Scope, sessionID string, first int64, known map[string]bool) ([]agui.Message, error) {
	tail := s.log.Tail(in, sessionID, first-1)
	defer tail.Close()
	var begun []agui.Message
	reasoned, activities := 0, 0
	named := make(map[string]bool)
	for {
		rows, err := tail.Ready(ctx)
		if err != nil || len(rows) == 0 {
			return begun[:reasoned], err
		}
		eventlog.Each(rows, func(_ int64, event []byte) bool {
			m, begins := messageBegun(event)
			activities += len(m.Activity)
			if begins && !known[m.ID] && !named[m.ID] && (m.Role != agui.RoleActivity || activities <= begunActivities) {
				named[m.ID] = true
				begun = append(begun, m)
				if m.Role == agui.RoleReasoning {
					reasoned = len(begun)
				}
			}
			return true
		})
	}
}

// messageBegun returns the message that an event begins, without its later content; false for any other event. It leaves out a
// tool's result, because clients put that after its call.
func messageBegun(event []byte) (m agui.Message, begins bool) {
	switch agui.TypeOf(event) {
	case agui.TypeReasoningMessageStart, agui.TypeTextMessageStart, agui.TypeToolCallStart, agui.TypeActivitySnapshot:
	default:
		return m, false
	}
	ev, err := agui.Decode(event)
	if err != nil {
		return m, false
	}
	switch e := ev.(type) {
	case *agui.ReasoningMessageStart:
		m = agui.Message{ID: e.MessageID, Role: agui.RoleReasoning, SubagentRunID: e.SubagentRunID, Content: agui.Text("")}
	case *agui.TextMessageStart:
		m = agui.Message{ID: e.MessageID, Role: cmp.Or(e.Role, agui.RoleAssistant), Name: e.Name, SubagentRunID: e.SubagentRunID, Content: agui.Text("")}
	case *agui.ToolCallStart:
		m = agui.Message{ID: cmp.Or(e.ParentMessageID, e.ToolCallID), Role: agui.RoleAssistant, SubagentRunID: e.SubagentRunID, Content: agui.Content{Absent: true}}
		if e.ParentMessageID == "" { // clients make a message for it, unless they know the call
			m.ToolCalls = []agui.ToolCall{{ID: e.ToolCallID, Function: agui.FunctionCall{Name: e.ToolCallName}}}
		}
	case *agui.ActivitySnapshot:
		m = agui.Message{ID: e.MessageID, Role: agui.RoleActivity, SubagentRunID: e.SubagentRunID, ActivityType: e.ActivityType, Activity: e.Content}
	}
	return m, true
}

// openShown are the open Questions of a Session that some Run has shown.
func (s *Feeds) openShown(ctx context.Context, in store.Scope, sessionID string) ([]approval.Question, error) {
	calls, err := s.store.OpenToolCalls(ctx, in, sessionID)
	if err != nil {
		return nil, err
	}
	var open []approval.Question
	for _, call := range calls {
		// One that no Run has shown yet comes with the end of its own Run.
		if call.RunID == "" {
			continue
		}
		q, err := approval.Load(ctx, s.store, in, call.ID)
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
func restOutcome(open []approval.Question, dialect string) *agui.Outcome {
	var asks, calls []approval.Question
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

// toldAgain returns the CUSTOM on_interrupt of open Questions, for a client that missed them: no snapshot has them. A client
// of 1.0 also gets the outcome, which its library adopts. An older client, such as CopilotKit's, answers the event.
func toldAgain(open []approval.Question, dialect string, end *agui.RunFinished) (events []agui.Event) {
	if dialect == DialectTDesign {
		return nil
	}
	var asks []approval.Question
	for _, q := range open {
		if q.OnInterrupt() {
			told := &agui.Custom{Name: "on_interrupt", Value: q.Call.Event}
			told.Metadata = mustJSON(map[string]any{"aqueduct": map[string][]string{"questionIds": {q.Call.ID}}})
			events = append(events, told)
		}
		if !q.ClientTool() {
			asks = append(asks, q)
		}
	}
	if dialect == DialectV0 && asAsked(asks, dialect) {
		end.Outcome, end.Metadata = nil, asAskedMetadata(end.Outcome)
	}
	return events
}

// cardAgain is what a TDesign page gets instead of a snapshot: a sentence, and the card
// of the oldest open Question once more.
// TDesign appends whatever a response holds to the newest answer, so a snapshot would appear twice.
func cardAgain(open []approval.Question, notes []agui.Event) []agui.Event {
	events := sentences(notes)
	if len(open) == 0 {
		return events
	}
	if len(notes) == 0 {
		events = textMessage("This conversation is waiting for your answer.")
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
			events = append(events, textMessage(sentence)...)
		}
	}
	return events
}

func noteSentence(note *agui.Custom) string {
	switch note.Name {
	case "question_settled":
		return "This question has been answered already."
	case "message_not_taken":
		var why struct {
			Cancel string `json:"cancel"`
		}
		_ = json.Unmarshal(note.Value, &why) // of our own writing
		return "Please answer the question first; then go on. To stop it instead: POST " + why.Cancel + "."
	case "question_open":
		return openSentence(note.Value)
	case "question_unknown":
		return "There is no such question in this conversation."
	}
	return ""
}

// openSentence is why an answer left its Question open. Only of who may decide what does
// the note's own message speak to a person: the others are for the page's author.
func openSentence(note json.RawMessage) string {
	var why fault.Error
	_ = json.Unmarshal(note, &why) // of our own writing
	switch why.Code {
	case approval.UnknownOption:
		return "That answer was not one of the options, so the question is still open."
	case approval.NotApprover, approval.FourEyes, approval.EditRefused, approval.PolicyBlocks:
		return why.Message + " The question is still open."
	}
	return "That is no answer to this question, so it is still open."
}

func textMessage(text string) []agui.Event {
	id := newID()
	return []agui.Event{
		&agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant},
		&agui.TextMessageContent{MessageID: id, Delta: text},
		&agui.TextMessageEnd{MessageID: id},
	}
}

func transientItems(events []agui.Event) []Item {
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
