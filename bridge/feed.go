package bridge

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/redact"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

// Item is one event as a response gives it. Seq 0 means that it is not kept: a frame of a
// join. TS is when it was appended.
type Item struct {
	Seq   int64
	TS    time.Time
	Event []byte
}

// Feed is what one response streams. It reads the log and nothing else.
//
// One goroutine, that of the response, calls it. What it gives comes from the log by the tail, with what a join needs
// before it; whether it is served by the replica that writes makes no difference.
type Feed struct {
	from    *Feeds
	in      store.Scope
	session store.Session
	tail    *eventlog.Tail

	want    *store.Run   // the Run whose RUN_STARTED is waited for; nil gives all there is
	then    *store.Run   // waited for next
	join    *Reply       // the wanted Run begins with the frames of a join
	notes   []agui.Event // sent behind its RUN_STARTED when it does not
	whole   bool         // a Run that has changed messages ends with a snapshot of them
	follow  string       // go on with further Runs of this Turn
	endless bool         // across Runs, without end
	ended   bool
	looked  time.Time // whether the thread is there

	tailed []string   // Runs that this response counts as a tail of
	at     string     // the Run it is in, "" between two and for a thread's tail
	spoke  bool       // a message of that Run has been given
	giving []delivery // among the items

	items []Item
	given bool // items were returned

	closing context.Context // when it ends, Next does not wait any more
}

// errClosing ends a Feed that would have to wait, when its replica goes away.
var errClosing = errors.New("bridge: the replica goes away")

// EndWith makes Next return an error instead of waiting once closing has ended. Next returns the events that the log has by
// then first. So a client does not miss the end of a Run that it could have been sent.
func (f *Feed) EndWith(closing context.Context) { f.closing = closing }

// readyOnly returns the rows that the log has, or errClosing if it has none.
func (f *Feed) readyOnly(ctx context.Context) ([]store.EventRow, error) {
	rows, err := f.tail.Ready(ctx)
	if err == nil && len(rows) == 0 {
		err = errClosing
	}
	return rows, err
}

// Feeds makes the streams of responses. It reads the store and the log, and counts the tails of Runs.
type Feeds struct {
	store      store.Store
	log        *eventlog.Log
	bell       *eventlog.Bell
	filter     *redact.Filter
	tails      *tails
	transcript *Transcript
	replica    string
	ownerWait  time.Duration // for a Run that another replica has to begin
}

// Watch subscribes to a Session's rings without counting as a listener.
func (s *Feeds) Watch(sessionID string) (bell <-chan struct{}, stop func()) {
	return s.bell.Watch(sessionID)
}

// Chat is what a chat response streams.
// The tail is opened before anything else is read: events that come in between are then behind its position and are
// not missed.
func (s *Feeds) Chat(ctx context.Context, in store.Scope, r Reply, follow bool) (*Feed, error) {
	f := &Feed{from: s, in: in, session: r.Session, then: r.Then, whole: r.Dialect != DialectTDesign, closing: context.Background()}
	f.tail = s.log.Tail(in, r.Session.ID, r.After)
	if r.Run.ID == "" {
		items, err := s.atRest(ctx, in, r)
		if err != nil {
			f.Close()
			return nil, err
		}
		f.items, f.ended = items, true
		if follow && r.turnID != "" {
			f.ended, f.follow = false, r.turnID
		}
		return f, nil
	}
	begun := r.Run.FirstSeq > 0 && r.After >= r.Run.FirstSeq // the client has its beginning
	if !begun {
		f.want = &r.Run
	}
	f.joinTails(r.Run)
	if r.Then != nil {
		f.joinTails(*r.Then)
	}
	if r.Join {
		f.join = &r
	} else {
		f.notes = r.Notes
	}
	if follow {
		f.follow = r.Run.TurnID
	}
	if !begun {
		return f, nil
	}
	if r.Run.LastSeq > 0 && r.After >= r.Run.LastSeq {
		return f, f.afterRun(ctx, Item{Seq: r.After})
	}
	f.at = r.Run.ID
	return f, nil
}

// Run tails one Run's slice after a position, until its terminal event.
// A position before the Run begins at its first event, and one behind its end gives nothing: a client that comes back
// with the id of the terminal event has all of it.
func (s *Feeds) Run(_ context.Context, in store.Scope, run store.Run, after int64) (*Feed, error) {
	f := &Feed{from: s, in: in, session: store.Session{ID: run.SessionID}, closing: context.Background()}
	switch {
	case run.FirstSeq == 0:
		f.want = &run
	case after < run.FirstSeq:
		after = run.FirstSeq - 1
	case run.LastSeq > 0 && after >= run.LastSeq:
		f.ended = true
	}
	f.tail = s.log.Tail(in, run.SessionID, after)
	if !f.ended {
		f.at = run.ID
		f.joinTails(run)
	}
	return f, nil
}

// Thread tails a thread across its Runs, without end.
// A thread's tail has no end of its own. It ends when its client leaves or the thread is deleted.
func (s *Feeds) Thread(_ context.Context, in store.Scope, session store.Session, after int64) (*Feed, error) {
	return &Feed{from: s, in: in, session: session, endless: true, tail: s.log.Tail(in, session.ID, after), closing: context.Background()}, nil
}

// Close releases the Feed.
// What was given and not confirmed by a further Next counts as not sent: the write of it may have failed. That decides
// later whether a client that comes back has seen anything of a Turn.
func (f *Feed) Close() {
	f.tail.Close()
	if f.given {
		f.from.tails.endDelivery(f.giving, false)
	}
	f.leaveTails("", false)
}

// Next waits for events and gives all that are ready; io.EOF after the last. The Items
// are valid until the next call.
func (f *Feed) Next(ctx context.Context) ([]Item, error) {
	for {
		if f.given {
			f.items, f.given = f.items[:0], false
			f.from.tails.endDelivery(f.giving, true) // what was returned has been written
			f.giving = f.giving[:0]
		}
		if len(f.items) > 0 {
			f.given = true
			f.from.tails.beginDelivery(f.giving)
			return f.items, nil
		}
		if f.ended {
			return nil, io.EOF
		}
		var rows []store.EventRow
		err := retry.While(ctx, isAway, func() (err error) {
			rows, err = f.rows(ctx)
			return err
		})
		// The thread was deleted. That ends a tail of it; a Run's has not come to its end.
		if errors.Is(err, store.ErrNotFound) && f.endless {
			f.ended = true
			continue
		}
		if err == nil {
			err = f.takeRows(ctx, rows)
		}
		if err != nil {
			return nil, err
		}
	}
}

// How often a tail that is rung and finds nothing looks whether its thread is still there. Bells ring every now and then
// whatever happened.
const (
	// lookAgain is of a thread's tail, which has no other end.
	lookAgain = 5 * time.Second
	// lookForRun is of a Run's. Its own event ends it nearly always, but when its thread is deleted in the moment in which the
	// Run ends, that event is purged before it was read.
	lookForRun = 10 * time.Second
)

// rows waits for what comes next.
func (f *Feed) rows(ctx context.Context) ([]store.EventRow, error) {
	if f.want != nil && f.want.FirstSeq == 0 {
		return f.untilBegun(ctx)
	}
	every := lookForRun
	if f.endless {
		every = lookAgain
	} else if f.looked.IsZero() {
		f.looked = time.Now() // it has just been read
	}
	for {
		if f.closing.Err() != nil {
			return f.readyOnly(ctx)
		}
		rows, err := f.tail.Ready(ctx)
		if err != nil || len(rows) > 0 {
			return rows, err
		}
		if time.Since(f.looked) > every {
			f.looked = time.Now()
			if _, err := f.from.store.Session(ctx, f.in, f.session.ID); err != nil {
				return nil, err
			}
		}
		select {
		case <-f.tail.Bell():
		case <-f.closing.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// isAway reports whether a read failed because the database cannot be reached. Such a read is tried again: a stream stays
// open, with heartbeats, because an absent database has lost nothing.
func isAway(err error) bool { return errors.Is(err, store.ErrUnavailable) }

// takeRows gives the events of rows one by one, because a row holds a batch and a Run may end in the midst of one.
func (f *Feed) takeRows(ctx context.Context, rows []store.EventRow) (err error) {
	for _, row := range rows {
		eventlog.Each([]store.EventRow{row}, func(seq int64, event []byte) bool {
			err = f.take(ctx, Item{Seq: seq, TS: row.TS, Event: event})
			return err == nil && !f.ended
		})
		if err != nil || f.ended {
			return err
		}
	}
	return nil
}

// take puts one event where it belongs: behind the RUN_STARTED that is waited for nothing is dropped, before it
// everything is. The end of a Run is looked at last, when its event is among the items.
func (f *Feed) take(ctx context.Context, i Item) error {
	if f.want != nil {
		if !startsRun(i.Event, f.from.filter.Text(f.want.ExternalID)) { // as the event was masked
			return nil
		}
		return f.begin(ctx, i)
	}
	if f.whole && changesMessages(i.Event) {
		if err := f.amended(ctx); err != nil {
			return err
		}
	}
	f.items = append(f.items, i)
	if f.endless {
		return nil
	}
	if f.at == "" && f.follow != "" && agui.TypeOf(i.Event) == agui.TypeRunStarted {
		if err := f.joinTailsOfNext(ctx, i.Event); err != nil {
			return err
		}
	}
	f.observe(i.Event)
	if agui.IsTerminal(i.Event) {
		f.leaveRun()
		return f.afterRun(ctx, i)
	}
	return nil
}

// amended runs for the event before the end of a Run. So a Run has one such snapshot however often its agent changes
// messages, and a client that comes back in the middle of the Run gets it too.
//
// It sends the current messages in a snapshot that is not kept: no other event of AG-UI changes a message that a client has.
// The rows are in the same commit as the event. The snapshot has every message that a client may have, like that of a join,
// because clients drop the messages that it omits.
func (f *Feed) amended(ctx context.Context) error {
	return retry.While(ctx, isAway, func() error {
		history, older, err := f.from.transcript.newest(ctx, f.in, f.session.ID, until{run: f.at, output: true})
		if err != nil {
			return err
		}
		f.items = append(f.items, transientItems(append([]agui.Event{&agui.MessagesSnapshot{Messages: history}}, older...))...)
		return nil
	})
}

// begin gives the first event of the Run that was waited for.
// A response that joined gets the frames of a join in place of the event, with the history before the Run; all others
// get the event itself and the notes that are for this client alone.
func (f *Feed) begin(ctx context.Context, i Item) error {
	run, join := *f.want, f.join
	f.want, f.join = nil, nil
	f.at, f.spoke = run.ID, false
	if join == nil {
		f.items = append(append(f.items, i), transientItems(f.notes)...)
		f.notes = nil
		return nil
	}
	// The row may have been read before the Run began, and then does not have its position.
	run.FirstSeq = i.Seq
	return retry.While(ctx, isAway, func() error {
		items, err := f.from.joinRun(ctx, f.in, *join, run, i)
		f.items = append(f.items, items...)
		return err
	})
}

// afterRun decides what follows a Run's terminal event.
// The Turn's row is read rather than guessed from the event: a Run that ends with an interrupt may be followed by one
// that an answer has reserved meanwhile, and a client that follows wants that one too.
// A Turn that is over may still have further Runs in the log, for a client that comes late.
func (f *Feed) afterRun(ctx context.Context, terminal Item) error {
	if f.follow != "" {
		var goesOn bool
		err := retry.While(ctx, isAway, func() (err error) {
			goesOn, err = f.turnGoesOn(ctx, terminal.Seq)
			return err
		})
		if err != nil || goesOn {
			return err // the Turn's next Run is the next thing in the log
		}
	}
	// The second Run is that of a Turn which is queued behind this one. While this one waits for an answer the other
	// cannot begin, and the client needs the end of the response to give that answer.
	if f.then != nil && !stopsToAsk(terminal.Event) {
		f.want, f.then = f.then, nil
		if f.follow != "" {
			f.follow = f.want.TurnID
		}
		return nil
	}
	f.ended = true
	return nil
}

// turnGoesOn reports whether the Turn that is followed has, or will have, a Run after a position.
func (f *Feed) turnGoesOn(ctx context.Context, at int64) (bool, error) {
	turn, err := f.from.store.Turn(ctx, f.in, f.follow)
	if err != nil || !turn.Status.Terminal() {
		return err == nil, err
	}
	runs, err := f.from.store.RunsOfTurn(ctx, f.in, f.follow)
	return slices.ContainsFunc(runs, func(r store.Run) bool { return r.FirstSeq > at }), err
}

// startsRun reports whether the event is the RUN_STARTED of a runId.
// The type is looked at before the event is decoded, since almost all events are deltas.
func startsRun(event []byte, runID string) bool {
	if agui.TypeOf(event) != agui.TypeRunStarted {
		return false
	}
	ev, err := agui.Decode(event)
	started, ok := ev.(*agui.RunStarted)
	return err == nil && ok && started.RunID == runID
}

// stopsToAsk reports whether a Run ended to wait for answers.
func stopsToAsk(terminal []byte) bool {
	ev, err := agui.Decode(terminal)
	finished, ok := ev.(*agui.RunFinished)
	if err != nil || !ok || finished.Outcome == nil {
		return false
	}
	return finished.Outcome.Type == agui.OutcomeInterrupt || len(finished.Outcome.PendingToolCallIDs) > 0
}
