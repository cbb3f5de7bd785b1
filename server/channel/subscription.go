// This file follows one session for one connection: it reads the log as it grows and sends the
// messages that the client does not have.

package channel

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/bridge"
	"aqueduct/bridge/eventlog"
	"aqueduct/internal/retry"
	"aqueduct/server/problem"
	"aqueduct/store"
)

// subscription sends one connection what happens in one session, from a seq on. Its own goroutine
// runs it; run's end closes done. at is also read by the connection's reader, when it answers a
// message about this session; both hold the connection's write lock then, which SendMade takes.
// forQuestion belongs to the set of subscriptions and its lock.
type subscription struct {
	socket      *connection
	session     store.Session
	reader      *logReader
	from        int64 // the client may have missed messages up to this seq
	cancel      context.CancelFunc
	done        chan struct{} // closed when run has returned
	forQuestion bool          // an open question is the reason for it, and no message of the client

	at int64 // the seq of the last message from the log that was sent; under the write lock of Conn

	open   map[string]bool // questions that were open when this began
	looked time.Time       // whether the session is there
}

// SessionCheckEvery is how often a session in which nothing happens is looked for. Other streams that follow a
// session use it as well; it is one indexed read.
const SessionCheckEvery = 2 * time.Second

// run sends until the connection ends or the session is deleted. When the log cannot be read, the connection ends: a client
// that stayed connected would wait for the end of a Run that never comes.
// An unavailable store is retried below this function; an error that arrives here will not go away
// by itself.
func (f *subscription) run(ctx context.Context) {
	defer close(f.done)
	err := f.stream(ctx)
	if err != nil && ctx.Err() == nil && !f.deleted(ctx, err) {
		f.socket.fail(Envelope{SessionID: f.session.ExternalID}, err)
		f.socket.End(websocket.CloseTryAgainLater, problem.Unavailable)
	}
	f.socket.subscriptions.remove(f)
}

// deleted reports whether an error is the session's being deleted, and not some other row's being
// missed. ErrNotFound alone does not identify the row that was missed.
func (f *subscription) deleted(ctx context.Context, err error) bool {
	if !errors.Is(err, store.ErrNotFound) {
		return false
	}
	_, err = f.socket.h.Store.Session(ctx, f.socket.in, f.session.ID)
	return errors.Is(err, store.ErrNotFound)
}

// stream reads and sends until an error or the end of ctx. The bell rings when the log has grown; a
// ring that is lost is made up for by the feed's own polling.
func (f *subscription) stream(ctx context.Context) error {
	var after int64
	err := retry.While(ctx, isAway, func() (err error) {
		after, err = f.start(ctx)
		return err
	})
	if err != nil {
		return err
	}
	feed, err := f.socket.h.Sessions.Feeds().Thread(ctx, f.socket.in, f.session, after)
	if err != nil {
		return err
	}
	defer feed.Close()
	for {
		if err := f.sendReady(ctx, feed); err != nil {
			return err
		}
		select {
		case <-feed.Bell():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sendReady sends everything that is in the log. It returns when the log has no more events, and the caller then
// waits for the bell.
func (f *subscription) sendReady(ctx context.Context, feed *bridge.Feed) error {
	for {
		items, err := feed.Ready(ctx)
		switch {
		case errors.Is(err, store.ErrUnavailable): // the bell rings again
			return nil
		case err != nil:
			return err
		case len(items) == 0:
			return f.checkSession(ctx)
		}
		messages, err := f.reader.read(ctx, items)
		if err == nil {
			err = f.sendAll(messages)
		}
		if err != nil {
			return err
		}
	}
}

// start finds the event to read from, so that everything after the seq and every open question can
// be sent: the beginning of a Run. The reader must begin at a Run's first event, and a question may
// be open in a Run before the one that the client has reached; so it starts at the earlier of the
// two and skips what was sent.
func (f *subscription) start(ctx context.Context) (int64, error) {
	h, in := f.socket.h, f.socket.in
	after, err := h.runAt(ctx, in, f.session.ID, f.at)
	if err != nil {
		return 0, err
	}
	calls, err := h.Store.OpenToolCalls(ctx, in, f.session.ID)
	if err != nil {
		return 0, err
	}
	f.open = make(map[string]bool)
	for _, call := range calls {
		if call.RunID == "" {
			continue // shown when its Run ends
		}
		run, err := h.Store.Run(ctx, in, call.RunID)
		if err != nil {
			return 0, err
		}
		f.open[call.ID] = true
		if run.FirstSeq > 0 {
			after = min(after, run.FirstSeq-1)
		}
	}
	return after, nil
}

// runAt is the position before the Run that the seq lies in, or the seq's own when it is the last of
// its Run. The usual position lies in the last Run. For an older one the messages are paged back
// from the newest, and each Run is read once: there is no index of Runs by seq, and a client that is
// far behind is rare.
func (h *Handler) runAt(ctx context.Context, in store.Scope, sessionID string, seq int64) (int64, error) {
	if seq < seqOf(1, 0) {
		return 0, nil
	}
	last, err := h.Store.LastRun(ctx, in, sessionID)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if at, ok := before(last, seq); ok || err != nil {
		return at, err
	}
	page := store.Page{}
	for tried := ""; ; {
		rows, err := h.Store.Messages(ctx, in, sessionID, page)
		if err != nil || len(rows) == 0 {
			return 0, err
		}
		for _, m := range slices.Backward(rows) {
			if m.RunID == tried || m.RunID == "" { // or of no Run
				continue
			}
			tried = m.RunID
			run, err := h.Store.Run(ctx, in, m.RunID)
			if err != nil {
				return 0, err
			}
			if at, ok := before(run, seq); ok {
				return at, nil
			}
		}
		page.Before = rows[0].ID
	}
}

// before is the position to read a Run from for a client that has come to seq; false when the Run begins later.
// A Run that is still going on is read from its first event, even if the client has most of it: the
// reader's state depends on all of it.
func before(run store.Run, seq int64) (int64, bool) {
	switch {
	case run.FirstSeq == 0 || seqOf(run.FirstSeq, 0) > seq:
		return 0, false
	case run.LastSeq > 0 && seqOf(run.LastSeq, lastOfRun) <= seq:
		return run.LastSeq, true
	}
	return run.FirstSeq - 1, true
}

// sendAll sends the messages that the client does not have, and the open questions again.
// at moves inside SendMade, together with the write. An answer of the connection's reader may be
// written between two messages of this loop, and must get the seq of the one before it.
func (f *subscription) sendAll(messages []Message) error {
	for i := range messages {
		m := &messages[i]
		err := f.socket.SendMade(func() (any, error) {
			if m.Seq > f.at {
				f.at = m.Seq
				return m, nil
			}
			if m.Again = f.open[m.question()]; !m.Again {
				return nil, nil
			}
			return m, nil
		})
		if err != nil {
			return err
		}
		delete(f.open, m.question())
	}
	return nil
}

// checkSession looks, while nothing new is in the log, at what else may have changed.
// A deleted session rings no bell: without this check a subscription of one would wait for ever.
func (f *subscription) checkSession(ctx context.Context) error {
	if time.Since(f.looked) <= SessionCheckEvery {
		return nil
	}
	f.looked = time.Now()
	_, err := f.socket.h.Store.Session(ctx, f.socket.in, f.session.ID)
	if errors.Is(err, store.ErrUnavailable) {
		return nil // the bell rings again
	}
	return err
}

// send sends a message that is not from the log.
// The time and seq are set under the write lock, so that they rise in the order in which messages
// are sent.
func (f *subscription) send(m Message) error {
	return f.socket.SendMade(func() (any, error) {
		m.TS, m.Seq = millis(time.Now()), f.at
		return m, nil
	})
}

// sendAgain repeats an event's nth message from the log, for a client that repeats its request. It skips a message that was not
// sent yet, because the subscription will send it. A message without a seq gets the seq of the one before it.
func (f *subscription) sendAgain(event, nth int64, m Message) error {
	return f.socket.SendMade(func() (any, error) {
		if seqOf(event, nth) > f.at {
			return nil, nil
		}
		m.Seq = cmp.Or(m.Seq, f.at)
		return m, nil
	})
}

// slice reads some of the events after a position up to another.
// Rows of the log hold several events; the first and the last row may reach beyond the bounds.
func (h *Handler) slice(ctx context.Context, in store.Scope, sessionID string, after, end int64) ([]bridge.Item, error) {
	rows, err := h.Store.Events(ctx, in, sessionID, after, replayBytes)
	var items []bridge.Item
	for _, row := range rows {
		eventlog.Each([]store.EventRow{row}, func(seq int64, event []byte) bool {
			if seq > after && seq <= end {
				items = append(items, bridge.Item{Seq: seq, TS: row.TS, Event: event})
			}
			return seq < end
		})
	}
	return items, err
}

// replayBytes is about how much of a log a replay holds at a time. Rows are read whole, so a slice may exceed it by
// one row.
const replayBytes = 256 << 10
