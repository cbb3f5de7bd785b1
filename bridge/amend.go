package bridge

import (
	"encoding/json"

	"aqueduct/agui"
)

// messageAmended is the CUSTOM that tells clients that a message has changed since it was streamed, and how. AG-UI has no event
// for it that a log could keep: MESSAGES_SNAPSHOT replaces everything that a client holds. The transcript has the message as
// it is then, and so has every client that joins after the Run.
const messageAmended = "message_changed"

// amend shows that a message of this Run has changed. One of an earlier Run is as it is: its transcript is written.
func (r *run) amend(a agui.Amendment) error {
	if _, ok := r.fold.Message(a.MessageID); !ok {
		return nil
	}
	return r.emit(&agui.Custom{Name: messageAmended, Value: mustJSON(a)})
}

// apply folds an event that the log has, or is about to have.
func (r *run) apply(ev agui.Event) {
	r.fold.Apply(ev)
	c, ok := ev.(*agui.Custom)
	if !ok || c.Name != messageAmended {
		return
	}
	var a agui.Amendment
	if json.Unmarshal(c.Value, &a) == nil {
		r.fold.Amend(a)
	}
}

// notices are the names of the CUSTOM events by which the server itself speaks to clients (docs/protocol.md).
var notices = map[string]bool{
	HistoryCut: true, "question_settled": true, "question_open": true, "question_unknown": true, "message_not_taken": true, stateNotApplied: true, runEnded: true,
	"messages_dropped": true, "answers_ignored": true, messageAmended: true, "activity_not_applied": true, "event_too_large": true, "policy_decision": true,
}

// notOurs is an event of an Agent under a name that is none of ours: what it calls as we do might else rewrite the result of a tool
// that it did not run, or show a decision that no person took.
func notOurs(ev agui.Event) agui.Event {
	c, ok := ev.(*agui.Custom)
	if !ok || !notices[c.Name] {
		return ev
	}
	renamed := *c
	renamed.Name = "agent." + c.Name
	return &renamed
}
