package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/bridge"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// ingressFollow tells a connection what happens in one session, from a seq on.
type ingressFollow struct {
	socket  *ingressSocket
	session store.Session
	reader  *ingressReader
	from    int64 // the client may not have what was told up to this seq
	cancel  context.CancelFunc
	done    chan struct{} // closed when run has returned
	asked   bool          // it is followed for a question in it, not for anything the client said

	at int64 // the seq of the last message from the log that was sent; guarded by line.writing

	open   map[string]bool // questions that were open when this began
	looked time.Time       // whether the session is there
}

// lookForSession is how often a session in which nothing happens is looked for.
const lookForSession = 2 * time.Second

// run follows until the connection ends or the session is deleted. When the log cannot be
// read, the connection ends: a client that stayed would wait for an end that nobody tells it.
func (f *ingressFollow) run(ctx context.Context) {
	defer close(f.done)
	err := f.follow(ctx)
	if err != nil && ctx.Err() == nil && !f.deleted(ctx, err) {
		f.socket.fail(ingressFrame{SessionID: f.session.ExternalID}, err)
		f.socket.end(websocket.CloseTryAgainLater, codeUnavailable)
	}
	f.socket.forget(f)
}

// deleted reports whether an error is the session's being deleted, and not some other row's
// being missed.
func (f *ingressFollow) deleted(ctx context.Context, err error) bool {
	if !errors.Is(err, store.ErrNotFound) {
		return false
	}
	_, err = f.socket.h.store.Session(ctx, f.socket.in, f.session.ID)
	return errors.Is(err, store.ErrNotFound)
}

func (f *ingressFollow) follow(ctx context.Context) error {
	var after int64
	err := untilThere(ctx, func() (err error) {
		after, err = f.start(ctx)
		return err
	})
	if err != nil {
		return err
	}
	feed, err := f.socket.h.sessions.ThreadFeed(ctx, f.socket.in, f.session, after)
	if err != nil {
		return err
	}
	defer feed.Close()
	for {
		if err := f.step(ctx, feed); err != nil {
			return err
		}
		select {
		case <-feed.Bell():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// step tells all that there is.
func (f *ingressFollow) step(ctx context.Context, feed *bridge.Feed) error {
	for {
		items, err := feed.Ready(ctx)
		switch {
		case errors.Is(err, store.ErrUnavailable): // the bell rings again
			return nil
		case err != nil:
			return err
		case len(items) == 0:
			return f.rest(ctx)
		}
		messages, err := f.reader.take(ctx, items)
		if err == nil {
			err = f.tell(messages)
		}
		if err != nil {
			return err
		}
	}
}

// start finds the first event to read so that everything after the seq, and every open
// question, can be told: the beginning of a Run.
func (f *ingressFollow) start(ctx context.Context) (int64, error) {
	h, in := f.socket.h, f.socket.in
	after, err := h.runAt(ctx, in, f.session.ID, f.at)
	if err != nil {
		return 0, err
	}
	calls, err := h.store.OpenToolCalls(ctx, in, f.session.ID)
	if err != nil {
		return 0, err
	}
	f.open = make(map[string]bool)
	for _, call := range calls {
		if call.RunID == "" {
			continue // shown when its Run ends
		}
		run, err := h.store.Run(ctx, in, call.RunID)
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

// runAt is the position before the Run that the seq lies in, or the seq's own when it is the
// last of its Run.
func (h *ingress) runAt(ctx context.Context, in store.Scope, sessionID string, seq int64) (int64, error) {
	if seq < seqOf(1, 0) {
		return 0, nil
	}
	last, err := h.store.LastRun(ctx, in, sessionID)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if at, ok := before(last, seq); ok || err != nil {
		return at, err
	}
	page := store.Page{}
	for tried := ""; ; {
		rows, err := h.store.Messages(ctx, in, sessionID, page)
		if err != nil || len(rows) == 0 {
			return 0, err
		}
		for _, m := range slices.Backward(rows) {
			if m.RunID == tried || m.RunID == "" { // or of no Run
				continue
			}
			tried = m.RunID
			run, err := h.store.Run(ctx, in, m.RunID)
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

// before is where to begin with a Run for somebody who has come to the seq; false when the
// Run begins later.
func before(run store.Run, seq int64) (int64, bool) {
	switch {
	case run.FirstSeq == 0 || seqOf(run.FirstSeq, 0) > seq:
		return 0, false
	case run.LastSeq > 0 && seqOf(run.LastSeq, lastOfRun) <= seq:
		return run.LastSeq, true
	}
	return run.FirstSeq - 1, true
}

// tell sends what the client has not heard, and again what is still asked.
func (f *ingressFollow) tell(messages []ingressMessage) error {
	for i := range messages {
		m := &messages[i]
		err := f.socket.locked(func() (any, error) {
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

// rest looks, while nothing new is in the log, at what else may have changed.
func (f *ingressFollow) rest(ctx context.Context) error {
	if time.Since(f.looked) <= lookForSession {
		return nil
	}
	f.looked = time.Now()
	_, err := f.socket.h.store.Session(ctx, f.socket.in, f.session.ID)
	if errors.Is(err, store.ErrUnavailable) {
		return nil // the bell rings again
	}
	return err
}

// say sends a message that is not from the log.
func (f *ingressFollow) say(m ingressMessage) error {
	return f.socket.locked(func() (any, error) {
		m.TS, m.Seq = millis(time.Now()), f.at
		return m, nil
	})
}

// sayAgain repeats that a Run has started, to a client that repeats its request. One that
// has not been told yet will be.
func (f *ingressFollow) sayAgain(m ingressMessage) error {
	return f.socket.locked(func() (any, error) {
		if m.Seq > f.at {
			return nil, nil
		}
		return m, nil
	})
}

// settledOf tells what became of a question.
func settledOf(q inbox.Question) ingressSettled {
	s := ingressSettled{ID: q.Call.ID, Status: string(q.Call.Status)}
	if !q.ClientTool() {
		a := q.Approval
		s.Status, s.OptionID = string(a.Status), inbox.ChosenOption(q)
		s.DecidedBy, s.DecidedVia, s.Reason = a.DecidedBy, a.DecidedVia, a.Reason
	}
	return s
}

// slice reads some of the events after a position up to another.
func (h *ingress) slice(ctx context.Context, in store.Scope, sessionID string, after, end int64) ([]bridge.Item, error) {
	rows, err := h.store.Events(ctx, in, sessionID, after, replayBytes)
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

// replayBytes is about how much of a log a replay holds at a time.
const replayBytes = 256 << 10
