package bridge

import (
	"encoding/json"

	"aqueduct/agui"
)

const (
	// messageAmended is the CUSTOM that tells clients how a message has changed since it was streamed. AG-UI has no event for
	// that which a log could keep: MESSAGES_SNAPSHOT replaces all messages of a client. The transcript and every client that
	// joins after the Run have the changed message.
	messageAmended = agui.MessageChanged
	// messagesAmended is the CUSTOM at the end of a Run with such changes. Before it, a chat response has a MESSAGES_SNAPSHOT
	// that is not kept, because official clients know no other event that changes a streamed message.
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

// amendmentOf returns the amendment in an event. It reports false for any other event.
func amendmentOf(c *agui.Custom) (a agui.Amendment, ok bool) {
	return a, c.Name == messageAmended && json.Unmarshal(c.Value, &a) == nil
}
