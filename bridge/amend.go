package bridge

import (
	"encoding/json"

	"aqueduct/agui"
)

const (
	// messageAmended is the CUSTOM that tells clients that a message has changed since it was streamed, and how. AG-UI has no
	// event for it that a log could keep: MESSAGES_SNAPSHOT replaces everything that a client holds. The transcript has the
	// message as it is then, and so has every client that joins after the Run.
	messageAmended = agui.MessageChanged
	// messagesAmended is the CUSTOM at the end of a Run that has shown such changes. Before it, the response of a chat has a
	// MESSAGES_SNAPSHOT that is not kept, since official clients know no other event that changes what was streamed.
	messagesAmended = "messages_changed"
)

// apply folds an event that the log has, or is about to have.
func (r *run) apply(ev agui.Event) {
	r.fold.Apply(ev)
	if c, ok := ev.(*agui.Custom); ok {
		if a, ok := amendmentOf(c); ok && r.fold.Amend(a) {
			r.amended = r.amended || a.Shows()
		}
	}
}

// amendmentOf is the amendment that an event has; not ok for any other event.
func amendmentOf(c *agui.Custom) (a agui.Amendment, ok bool) {
	return a, c.Name == messageAmended && json.Unmarshal(c.Value, &a) == nil
}

// notices are the names of the CUSTOM events by which the server itself speaks to clients (docs/protocol.md).
var notices = map[string]bool{
	HistoryCut: true, "question_settled": true, "question_open": true, "question_unknown": true, "message_not_taken": true, stateNotApplied: true, runEnded: true,
	"messages_dropped": true, "answers_ignored": true, messageAmended: true, messagesAmended: true, "activity_not_applied": true, "event_too_large": true, "policy_decision": true,
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
