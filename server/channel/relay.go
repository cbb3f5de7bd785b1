// This file reads logs for channels with a callback. The relay of package channelfeed keeps a cursor
// for each Turn and asks here for what comes after it.

package channel

import (
	"context"

	"aqueduct/bridge/channelfeed"
	"aqueduct/server/wsconn"
	"aqueduct/store"
)

// position is how far a log was read for the cursor of a channel with a callback. The relay's goroutine owns it.
// It is made anew when the cursor is moved to another replica; the store has all that it needs.
type position struct {
	h      *Handler
	in     store.Scope
	reader *logReader
	at     int64
}

// maxDelivery is about how many bytes one delivery holds.
// It bounds memory and the body of a callback; a Turn with more output takes several deliveries.
const maxDelivery = 256 << 10

// openPosition starts reading where the cursor is. A replay starts with the Turn's first event.
// The scope is that of the user whom the channel spoke for, so a session that the user has lost is
// not found and its cursor ends.
func (h *Handler) openPosition(ctx context.Context, cur channelfeed.Cursor) (channelfeed.Position, error) {
	in := store.As(store.Principal{Tenant: cur.Tenant, User: cur.User})
	session, err := h.Store.Session(ctx, in, cur.SessionID)
	if err != nil {
		return nil, err
	}
	p := &position{h: h, in: in, reader: &logReader{store: h.Store, in: in, session: session}}
	if !cur.Replay || cur.Seq > 0 {
		p.at, err = h.runAt(ctx, in, cur.SessionID, cur.Seq)
		return p, err
	}
	run, err := h.Store.Run(ctx, in, cur.TurnID)
	p.at = max(run.FirstSeq-1, 0)
	return p, err
}

// Read implements channelfeed.Position: the messages of the Turn after the cursor, up to about maxDelivery. Only
// messages of the cursor's Turn are delivered; the reader still reads the others, since its state depends on them. A
// batch ends with the Turn: what the user does next has a cursor of its own. A log that is shorter than the store's
// last seq was deleted meanwhile. An error leaves the cursor where it was; the relay reads the same range again.
func (p *position) Read(ctx context.Context, cur channelfeed.Cursor) (channelfeed.Batch, error) {
	var batch channelfeed.Batch
	last, err := p.h.Store.LastSeq(ctx, p.in, cur.SessionID)
	if err != nil {
		return batch, err
	}
	var messages []Message
	for size := 0; p.at < last && size < maxDelivery && !batch.Over; {
		items, err := p.h.slice(ctx, p.in, cur.SessionID, p.at, last)
		if err != nil {
			return batch, err
		}
		if len(items) == 0 {
			return batch, store.ErrNotFound
		}
		read, err := p.reader.read(ctx, items)
		if err != nil {
			return batch, err
		}
		p.at = items[len(items)-1].Seq
		for _, m := range read {
			if m.RunID != cur.TurnID || m.Seq <= cur.Seq {
				continue
			}
			m.Replay = cur.Replay
			messages = append(messages, m)
			size += len(m.Text) + len(m.Args) + 256
			batch.Over = batch.Over || m.Type == typeDone || m.Type == typeError
		}
	}
	batch.Over = batch.Over || cur.Replay && p.at >= last
	if len(messages) == 0 {
		return batch, nil
	}
	batch.Seq = messages[len(messages)-1].Seq
	batch.Payload, err = deliveryOf(cur.Channel, cur.User, messages)
	return batch, err
}

// deliveryOf is the body of a POST to a channel's callback.
func deliveryOf(channel, user string, messages []Message) ([]byte, error) {
	return wsconn.Marshal(struct {
		Channel  string    `json:"channel"`
		UserID   string    `json:"user_id"`
		Messages []Message `json:"messages"`
	}{channel, user, messages})
}
