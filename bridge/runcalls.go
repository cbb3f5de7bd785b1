package bridge

import (
	"context"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// showCall puts the start of a call that we execute into the open Run, unless the log has it. A text that the Agent is
// still writing ends before it, so that what it goes on with stands behind the call.
// The message's end before it is for clients: official ones put a call behind the text it follows, and a text that
// goes on afterwards would be shown above it.
func (w *runWriter) showCall(call store.ToolCall) error {
	if !w.calls.has(call) {
		if err := w.closeText(); err != nil {
			return err
		}
		w.calls.named(call.ID).byUs = true
		if err := w.run.emitAll([]agui.Event{
			&agui.ToolCallStart{ToolCallID: call.ID, ToolCallName: shownTool(call.Name), ParentMessageID: w.run.assistant},
			&agui.ToolCallArgs{ToolCallID: call.ID, Delta: string(approval.Compact(call.Args))},
			&agui.ToolCallEnd{ToolCallID: call.ID},
		}); err != nil {
			return err
		}
	}
	w.calls.named(call.ID).ours = true
	w.calls.answeredAs(call.ID)
	return nil
}

// closeText ends the text message that is open. What its Agent adds to it goes on under an id of its own (continuations).
func (w *runWriter) closeText() error {
	open := w.run.text
	if open == nil {
		return nil
	}
	if err := w.run.emit(&agui.TextMessageEnd{Sub: open.Sub, MessageID: open.MessageID}); err != nil {
		return err
	}
	w.speech.continuations.remember([]agui.Event{open})
	return nil
}

// shown has the next commit keep in which Run a call stands. Without anyway that is lost for one that is settled.
func (w *runWriter) shown(call store.ToolCall, anyway bool) {
	w.due = append(w.due, store.ToolCallShown{ID: call.ID, RunID: w.run.row.ID, Anyway: anyway, Carded: call.Carded})
}

// news shows calls that began to be executed without a question, and approvals of calls that are about to be: their
// results may take long.
func (w *runWriter) news(begun, approved []approval.Question) error {
	for _, q := range begun {
		if err := w.showCall(q.Call); err != nil {
			return err
		}
		w.shown(q.Call, true)
	}
	for _, q := range approved {
		if !w.calls.has(q.Call) { // approved before it was shown
			if err := w.ask(q); err != nil {
				return err
			}
			w.shown(q.Call, true)
		}
		if err := w.run.emit(&agui.Custom{Name: "question_settled", Value: mustJSON(settledNote(q))}); err != nil {
			return err
		}
		if err := w.run.closeCard(q); err != nil {
			return err
		}
	}
	return nil
}

// ask shows a Question as a card.
func (w *runWriter) ask(q approval.Question) error {
	w.calls.asked(q)
	return w.run.ask(q)
}

// results shows what was settled. A Question that was settled before it was shown is shown with it.
// The mark InTranscript is in the same commit as the event, and only a result that has not got it is shown: after a
// crash it is shown exactly once.
func (w *runWriter) results(settled []approval.Question) error {
	for _, q := range settled {
		switch {
		case w.calls.has(q.Call):
		case q.NeverAsked():
			if err := w.showCall(q.Call); err != nil {
				return err
			}
			w.shown(q.Call, true)
		default:
			if err := w.ask(q); err != nil {
				return err
			}
		}
		if !q.RunsHere() { // of one that runs here the card was closed when it was approved (news)
			if err := w.run.closeCard(q); err != nil {
				return err
			}
		}
		if !w.calls.resulted(q.Call.ID) {
			if err := w.run.result(q); err != nil {
				return err
			}
		}
		w.due = append(w.due, store.ToolCallInTranscript{ID: q.Call.ID})
	}
	return nil
}

// endAsking ends the open Run with what is open of the Questions that its client can be shown at once: permissions and
// inputs as interrupts, or calls of tools it declared. The others wait for a later Run. With none it ends plainly. Where a
// client has reserved the next Run, what no Run has shown yet waits for that: its client does not read this one.
func (w *runWriter) endAsking(ctx context.Context, open []approval.Question) error {
	w.quiet.stop()
	if len(open) == 0 {
		_, err := w.end(ctx, ending{})
		return err
	}
	reserved, err := w.runs.reserved(ctx)
	if err != nil {
		return err
	}
	if reserved {
		w.log.again = true
		open = slices.DeleteFunc(open, func(q approval.Question) bool { return q.Call.RunID == "" })
	}
	for i, q := range open {
		open[i].Call.Carded = q.Call.Carded || q.Call.RunID == "" && !q.ClientTool() && w.calls.shownByAgent(q.Call.ID)
	}
	chosen, outcome := choose(open, w.profile)
	for _, q := range chosen {
		if q.Call.RunID != "" {
			continue // stands in an earlier Run
		}
		if !q.ClientTool() || !w.calls.has(q.Call) { // the Agent may have sent the call of a client's tool itself
			if err := w.ask(q); err != nil {
				return err
			}
		}
		// Two moves. The first is a compare-and-set that is lost when the Question was settled a moment ago, which
		// reports that a look is due; the second notes the Run in either case, because the events are in it.
		w.shown(q.Call, false)
		w.shown(q.Call, true)
	}
	w.upstream.pause(true)
	lost, err := w.end(ctx, ending{outcome: outcome, asAsked: asAsked(chosen, w.profile.Dialect)})
	if lost { // settled while it was being shown: the next look passes it on
		w.log.again = true
	}
	return err
}
