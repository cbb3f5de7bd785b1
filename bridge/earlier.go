package bridge

import (
	"context"

	"aqueduct/agui"
)

// earlier loads messages and activities of earlier Runs into the open Run, which changes them. A Run writes its transcript
// from its fold. For a message that is not in the fold it would write only the change in place of the whole message.
//
// After an interrupt, which ended the Run, an Agent continues its message: it adds a call to it, or a snapshot contains more
// calls of it than were streamed. The row keeps its place and its Run, so a client that joins reads the message at its old
// place.
type earlier struct {
	pasts             *transcripts
	sessionID, turnID string
	limit             int // of the transcript
	run               *run
}

// restore loads the item that an event changes: an activity, the message that a call belongs to, or an amended message.
func (e earlier) restore(ctx context.Context, ev agui.Event) error {
	switch is := ev.(type) {
	case *agui.ToolCallStart:
		return e.message(ctx, is.ParentMessageID)
	case *agui.Custom:
		if a, ok := amendmentOf(is); ok {
			return e.message(ctx, a.MessageID)
		}
	}
	return e.activity(ctx, ev)
}

// message loads a message. In a Turn's first Run it can only be a message of an earlier Turn. These are in memory since the
// Agent was called, so a message that begins costs no read there.
func (e earlier) message(ctx context.Context, id string) error {
	r := e.run
	if _, known := r.fold.Message(id); known || id == "" || r.row.ID == e.turnID && e.pasts.lacks(e.sessionID, id) {
		return nil
	}
	past, err := e.pasts.of(ctx, e.sessionID, e.limit)
	if err != nil {
		return err
	}
	for i := len(past) - 1; i >= 0; i-- {
		if p := &past[i]; p.row.ExternalID == id && p.row.Output {
			m := p.message
			m.Kept(nil) // it is about to change
			r.fold.Restore(m)
			return nil
		}
	}
	return nil
}

// activity loads the activity that a delta changes.
func (e earlier) activity(ctx context.Context, ev agui.Event) error {
	id, lacks := e.run.activities.lacks(ev)
	if !lacks {
		return nil
	}
	past, err := e.pasts.of(ctx, e.sessionID, e.limit)
	if err != nil {
		return err
	}
	e.run.activities.restore(id, past)
	return nil
}
