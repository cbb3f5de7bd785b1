package bridge

import (
	"context"
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

// amend shows that a message has changed: one of this Run, or of an earlier Run of the Turn. Their transcripts are written;
// the row keeps its place.
func (w *runWriter) amend(ctx context.Context, a agui.Amendment) error {
	r := w.run
	if err := w.restoreMessage(ctx, a.MessageID); err != nil {
		return err
	}
	if _, ok := r.fold.Message(a.MessageID); !ok && a.Role == "" {
		return nil
	}
	return r.emit(&agui.Custom{Name: messageAmended, Value: mustJSON(a)})
}

// restoreMessage makes a message of an earlier Run known to the open one, which changes it. Without that the open Run's
// transcript would have the change alone, in the place of the whole message. In a Turn's first Run only messages of earlier
// Turns can be meant, which are in memory since the Agent was called.
func (w *runWriter) restoreMessage(ctx context.Context, id string) error {
	r := w.run
	if _, known := r.fold.Message(id); known || id == "" || r.row.ID == w.row.ID && w.pasts.lacks(w.log.id, id) {
		return nil
	}
	past, err := w.pasts.of(ctx, w.log.id, w.cfg.Limits.Transcript)
	if err != nil {
		return err
	}
	for i := len(past) - 1; i >= 0; i-- {
		if p := &past[i]; p.row.ExternalID == id && p.row.Output {
			m := p.message
			m.Kept(nil)
			r.fold.Restore(m)
			return nil
		}
	}
	return nil
}

// apply folds an event that the log has, or is about to have.
func (r *run) apply(ev agui.Event) {
	r.fold.Apply(ev)
	if c, ok := ev.(*agui.Custom); ok {
		if a, ok := amendmentOf(c); ok && r.fold.Amend(a) {
			r.amended = r.amended || a.Shows()
		}
	}
}

// amendmentOf reads what messageAmended says.
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
