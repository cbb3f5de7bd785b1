package bridge

import (
	"context"

	"aqueduct/agui"
)

// earlier makes messages and activities of earlier Runs known to the open one, which changes them. The transcript of a Run is
// what its fold has: of a message that it does not know it would write the change alone, in the place of the whole.
type earlier struct {
	pasts             *transcripts
	sessionID, turnID string
	limit             int // of the transcript
	run               *run
}

// restore makes known what an event changes: an activity, the message that a call belongs to, or the one that is amended.
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

// message makes a message known. In a Turn's first Run only one of an earlier Turn can be meant, and these are in memory since
// the Agent was called; so a message that begins costs no read there.
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

// activity makes the activity known that a delta changes.
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
