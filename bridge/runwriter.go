package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// runWriter writes the Runs of a Turn into the log of its Session, one open at a time. Every commit of the Turn goes
// through it. Moves that belong to events that were emitted wait in due, so that one commit has both: a crash between two
// commits would leave a row marked as shown for what no reader ever gets, or the other way round.
//
// It is the only part of a Turn that writes. The others name what is to be shown (ask, result, showCall) or moved
// (due, keep), and it decides which commit has it.
type runWriter struct {
	cfg      *Config
	log      *sessionLog
	pasts    *transcripts
	quota    *quota
	row      *store.Turn
	upstream *upstream // whose cursor the commits acknowledge
	quiet    *quietTimer
	runs     turnRuns

	run     *run    // the open Run; nil when none is
	earlier earlier // items of earlier Runs, for the open Run
	profile Profile // of the newest Run
	// due are moves that are made with the next commit, whichever that is: they belong to events that wait in the Run.
	due    []store.Move
	calls  shownCalls
	speech speech
	trace  turnTrace
	// children end with the Turn.
	children *children
}

// open makes a row the open Run. firstSeq is 0 for one that begins now.
// The state document is made anew from the Session's row for each Run, because a Run that fails must leave the state
// as its last commit had it.
func (w *runWriter) open(row store.Run, firstSeq int64) error {
	state, err := agui.NewStateDoc(w.log.row.State)
	if err != nil {
		return err
	}
	if firstSeq == 0 {
		firstSeq = w.log.last() + 1
	}
	r, err := newRun(row, firstSeq, state)
	if err != nil {
		return err
	}
	r.threadID, r.filter, r.calls = w.log.row.ExternalID, w.cfg.Filter, &w.calls
	r.eventBytes, r.firstToken = w.cfg.Limits.EventBytes, w.cfg.Meter.FirstToken
	r.session = w.log.row
	r.state.warn = func(keys []string) {
		w.cfg.Logger.Warn("an agent's state is too large to keep", slog.String("session_id", w.log.id), slog.String("agent", w.row.AgentID), slog.Any("keys", keys))
	}
	r.spilled = func(e store.ContextEntry) { // it counts for the thread like the log
		w.due = append(w.due, store.InsertContext{Entry: e})
		w.log.count(len(e.Data))
	}
	w.run, w.profile, w.quiet.asking = r, r.profile, false
	w.earlier = earlier{pasts: w.pasts, sessionID: w.log.id, turnID: w.row.ID, limit: w.cfg.Limits.Transcript, run: r}
	return nil
}

// begin opens a reserved Run and writes its first event.
func (w *runWriter) begin(row store.Run, input *agui.RunAgentInput) error {
	if err := w.open(row, 0); err != nil {
		return err
	}
	return w.start(input)
}

// start writes the first event of the Run that was opened.
func (w *runWriter) start(input *agui.RunAgentInput) error {
	begun, err := w.run.start(input)
	w.due = append(w.due, begun)
	return err
}

// A Question stops only the Agent that asked it. What the Agent sends while Questions are open, and what becomes of
// them, goes into further Runs of the same Turn, at once: such a Run begins when there is something to log and none is
// open, and ends when nothing came for QuietPaused or the Agent has ended. Its client is the one of the Run before.

// beginFurther begins a Run that no client reserved. It is false when another Run is due first: one that a client
// reserved by an answer.
// A client that has answered tails the Run it has reserved. A further Run in front of it would show the results to no
// response, and shift the positions that the client waits at.
func (w *runWriter) beginFurther(ctx context.Context) (bool, error) {
	reserved, err := w.runs.reserved(ctx)
	if err != nil {
		return false, err
	}
	if reserved {
		w.log.again = true
		return false, nil
	}
	return true, w.beginUnreserved(ctx)
}

// beginUnreserved is beginFurther whatever is reserved.
func (w *runWriter) beginUnreserved(ctx context.Context) error {
	last, err := w.runs.last(ctx)
	if err != nil {
		return err
	}
	row := nextRun(last, "", nil)
	w.due = append(w.due, store.InsertRun{Run: row})
	return w.begin(row, nil)
}

// emitUpstream puts an event of the upstream's into the open Run.
func (w *runWriter) emitUpstream(ctx context.Context, ev agui.Event) error {
	if w.calls.repeats(ev) {
		return nil
	}
	if err := w.earlier.restore(ctx, ev); err != nil {
		return err
	}
	return w.speech.each(ev, w.run.emitUpstream)
}

// amend shows a change of a message of this Run, or of an earlier Run of the Turn whose transcript is already written. The
// row keeps its place. A client that does not know message_changed gets all messages at the Run's end (Feed.amended).
func (w *runWriter) amend(ctx context.Context, a agui.Amendment) error {
	if err := w.earlier.message(ctx, a.MessageID); err != nil {
		return err
	}
	if _, ok := w.run.fold.Message(a.MessageID); !ok && a.Role == "" {
		return nil
	}
	return w.run.emit(&agui.Custom{Name: messageAmended, Value: mustJSON(a)})
}

// flush hands what was emitted to the log, without waiting for the commit. Without anything to log it lets the upstream
// forget output that meant nothing for the log.
//
// It is the path of deltas: the events are handed to the committer, which merges the flushes of many Sessions into one
// transaction, and the reader of the upstream goes on at once. A failed commit is found by the next call, as the
// writer's error.
func (w *runWriter) flush(ctx context.Context) error {
	if (w.run == nil || w.run.n == 0) && w.upstream.cursor == "" {
		return nil
	}
	// The batch is forgotten also where Put fails: the Writer is then of no use any more, and the Session begins anew
	// from the rows.
	err := w.log.writer.Put(ctx, w.entry(nil, nil))
	w.clearBatch()
	return err
}

// keep commits moves behind all that was emitted, whether a Run is open or not.
// It waits for the commit. Whatever acts on the outside (calling an Agent, handing over an answer) comes after it.
func (w *runWriter) keep(ctx context.Context, records []store.Record, moves ...store.Move) error {
	_, err := w.tryKeep(ctx, records, moves...)
	return err
}

// tryKeep is keep, and gives the places of those moves that were lost.
// The places are those of the caller's moves: what waited in due stands before them in the entry.
func (w *runWriter) tryKeep(ctx context.Context, records []store.Record, moves ...store.Move) (lost []int, err error) {
	before := len(w.due)
	lost, err = w.log.writer.Keep(ctx, w.entry(moves, records))
	w.clearBatch()
	for i := range lost {
		lost[i] -= before
	}
	return lost, err
}

// submit hands over moves and what was emitted, for a caller that waits elsewhere. place is that of the first move.
func (w *runWriter) submit(ctx context.Context, moves ...store.Move) (entry eventlog.Submitted, place int, err error) {
	place = len(w.due)
	entry, err = w.log.writer.Submit(ctx, w.entry(moves, nil))
	w.clearBatch()
	return entry, place, err
}

// entry is what the next commit gets: the events of the open Run, the moves that belong to them, and the cursor.
func (w *runWriter) entry(moves []store.Move, records []store.Record) eventlog.Entry {
	e := eventlog.Entry{Moves: moves, Records: records}
	if len(w.due) > 0 {
		e.Moves = slices.Concat(w.due, moves)
	}
	if w.run != nil {
		e.Events, e.N = w.run.events, w.run.n
	}
	return w.upstream.stamp(e)
}

// clearBatch forgets what the log has taken.
func (w *runWriter) clearBatch() {
	w.due = nil
	if w.run != nil {
		w.log.count(len(w.run.events))
		w.run.clearBatch()
	}
}

// lastSeq is the position of the newest event once what was emitted is kept.
// Positions are counted from the end of the log, which counts what was handed over even while its commit is under way.
func (w *runWriter) lastSeq() int64 {
	if w.run == nil {
		return w.log.last()
	}
	return w.log.last() + int64(w.run.n)
}

// tooMuch is why the Turn must end for what it holds: more than a Run or a thread may.
// It is looked at after each batch and not within, so that the end can be written in order.
func (w *runWriter) tooMuch(ctx context.Context) error {
	if w.run.bytes > w.cfg.Limits.RunBytes {
		w.quota.count("bytes")
		return fault.New(CodeRunTooLarge, "The agent said more than one answer may hold.")
	}
	full, err := w.log.full(ctx, w.cfg.Store, w.cfg.Limits)
	if err != nil || !full {
		return err
	}
	w.quota.count("bytes")
	return fault.New(CodeThreadTooLarge, "This thread holds as much as one may. Please go on in a new one.")
}

// end writes the terminal event, and with it, in one commit, everything that follows from the Run being over. It reports
// whether a move was lost.
//
// One commit holds the terminal event, the Run's and perhaps the Turn's move, the transcript's messages, the state,
// and what the caller adds. Were they several, a crash between them could leave a finished Run whose answer is not in
// the transcript, and the next prompt would be sent without it.
func (w *runWriter) end(ctx context.Context, e ending) (lost bool, err error) {
	r := w.run
	w.speech.endRun(r.emit)
	if e.turn != "" {
		w.speech.endTurn(r.emit)
		if r.usage, err = w.children.usage(ctx, r.usage); err != nil {
			return false, err
		}
	}
	if r.amended {
		if err := r.emit(&agui.Custom{Name: messagesAmended, Value: json.RawMessage("{}")}); err != nil {
			return false, err
		}
	}
	if err := r.emit(r.terminal(e)); err != nil {
		return false, err
	}
	now := time.Now()
	moves := append(e.moves, store.RunMove{
		ID: r.row.ID, From: store.RunRunning, To: e.runStatus(), LastSeq: w.lastSeq(), ErrorCode: e.code(), EndedAt: now,
	})
	var records []store.Record
	var rings []string
	if e.turn != "" {
		move := e.turnMove(w.row, r.usage, now)
		moves, records = append(moves, move), w.trace.ended(w.lastSeq(), e, move.Usage, now)
		var related []store.Move
		if related, rings, err = w.children.atEnd(ctx); err != nil {
			return false, err
		}
		moves = append(moves, related...)
	}
	moves = append(moves, r.transcript(now)...)
	added := w.log.unmoved + int64(len(r.events))
	moves = append(moves, store.SessionMove{ID: w.log.id, State: r.state.doc.JSON(), Bytes: added, UpdatedAt: now})
	if changed := r.state.changes.encode(); changed != nil {
		moves = append(moves, store.RunStateChanges{ID: r.row.ID, Changes: changed})
	}
	w.quota.tenants.added(w.log.row.Tenant, added) // before a client that saw the end can prompt again
	places, err := w.log.writer.Keep(ctx, w.entry(moves, records))
	w.clearBatch()
	if err != nil {
		return false, err
	}
	w.log.unmoved = 0
	w.closed(e)
	if len(rings) > 0 {
		w.cfg.Bell.Ring(rings...)
	}
	return len(places) > 0, nil
}

// closed updates memory after the commit of a Run's end.
// Only after the commit: a reader of these fields must never know more than the rows do.
func (w *runWriter) closed(e ending) {
	w.log.row.State = append([]byte(nil), w.run.state.doc.JSON()...)
	if e.turn != "" {
		w.row.Status = e.turn
	}
	w.speech.continuations.remember(w.run.grammar.Unfinished())
	w.run, w.earlier, w.quiet.asking = nil, earlier{}, false // an idle Turn holds nothing of the Run
	if f := w.cfg.Meter.RunEnded; f != nil {
		f(string(e.runStatus()))
	}
	if f := w.cfg.Meter.TurnEnded; f != nil && e.turn != "" {
		total, paused := w.trace.times(time.Now())
		f(string(e.turn), total, total-paused)
	}
	if f := w.cfg.TurnEnded; f != nil && e.turn != "" {
		f(w.row.ID)
	}
}

// state is the shared state: of the open Run, or as the last one left it.
func (w *runWriter) state() json.RawMessage {
	if w.run != nil {
		return w.run.state.json()
	}
	return w.log.row.State
}

// replay rebuilds the open Run from its slice of the log.
// Grammar, fold, state and activities are functions of the events alone, so that reading the slice again leaves them
// as they were.
func (w *runWriter) replay(ctx context.Context) error {
	tail := w.cfg.Log.Tail(store.System(), w.log.id, w.run.row.FirstSeq-1)
	defer tail.Close()
	for tail.Pos() < w.log.last() {
		rows, err := tail.Ready(ctx)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return errors.New("bridge: the log is shorter than its end")
		}
		var bad error
		eventlog.Each(rows, func(_ int64, event []byte) bool {
			var ev agui.Event
			if ev, bad = agui.Decode(event); bad == nil {
				// As when it was written: an activity of an earlier Run has to be known before a delta of it applies.
				bad = w.earlier.restore(ctx, ev)
			}
			if bad == nil {
				bad = w.run.replayed(ev)
				w.speech.continuations.adoptUnseen(ev)
			}
			return bad == nil
		})
		if bad != nil {
			return bad
		}
	}
	return nil
}
