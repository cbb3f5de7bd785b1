package bridge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

const (
	// traceBytes is about how much of a log one Read takes.
	traceBytes = 1 << 20
	// bytesPerEntry is about how much of it is read for each entry that is asked for, and leastTraceBytes the least: a
	// page costs about what it shows.
	bytesPerEntry   = 1 << 10
	leastTraceBytes = 16 << 10
	// SourceAGUI is the source of entries that are events of the log.
	SourceAGUI store.RecordSource = "agui"
)

// TraceCursor is how far a reader of a Session's trace is, in each of its two series.
type TraceCursor struct {
	Seq  int64 // of the log
	Part int   // entries given of those that belong to the next event
	Pos  int64 // of the Records
}

// TraceEntry is one thing that is on record of a Session.
type TraceEntry struct {
	ID      string
	TurnID  string // "" when it belongs to no Turn
	Source  store.RecordSource
	Type    string
	TS      time.Time
	Payload []byte
	At      TraceCursor // behind it

	seq int64 // of the event that it is, or stands beside
}

// Trace reads everything that is on record of one Session, or of one Turn of it: the events of its Runs, and its Records;
// of a Session those of no Turn too. Nothing that is committed later can appear before what was read.
type Trace struct {
	s       *Sessions
	in      store.Scope
	session string
	turn    *store.Turn // nil: all of the Session
}

// SessionTrace is the trace of a Session that the Scope sees.
func (s *Sessions) SessionTrace(in store.Scope, sessionID string) *Trace {
	return &Trace{s: s, in: in, session: sessionID}
}

// TurnTrace is the trace of a Turn that the Scope sees.
func (s *Sessions) TurnTrace(in store.Scope, turn store.Turn) *Trace {
	return &Trace{s: s, in: in, session: turn.SessionID, turn: &turn}
}

// Read gives up to n entries behind a cursor, oldest first; none when there is nothing more
// now. Both series keep their own order and are joined by their positions and times.
func (t *Trace) Read(ctx context.Context, at TraceCursor, n int) ([]TraceEntry, error) {
	if err := t.sequence(ctx); err != nil {
		return nil, err
	}
	for {
		log, moreLog, err := t.log(ctx, at, n)
		if err != nil {
			return nil, err
		}
		records, err := t.records(ctx, at.Pos, n)
		if err != nil || len(log)+len(records) == 0 {
			return nil, err
		}
		entries, next := joinTrace(log, moreLog, records, at, n)
		if len(entries) > 0 {
			return entries, nil
		}
		at = next // all of it was bookkeeping
	}
}

func (t *Trace) turnID() string {
	if t.turn == nil {
		return ""
	}
	return t.turn.ID
}

// sequence gives positions to Records that have none: for a Turn, as far as it goes.
func (t *Trace) sequence(ctx context.Context) error {
	st := t.s.cfg.Store
	for {
		some, err := st.RecordsUnsequenced(ctx, t.in, t.session, t.turnID())
		if err != nil || !some {
			return err
		}
		err = st.InTx(ctx, func(tx store.Tx) error {
			if _, err := tx.LockSession(ctx, t.in, t.session); err != nil {
				return err
			}
			_, err := tx.SequenceRecords(ctx, t.session, store.MaxPageLimit)
			return err
		})
		if err != nil {
			return err
		}
	}
}

// records are the Records behind a position.
func (t *Trace) records(ctx context.Context, after int64, n int) ([]store.PlacedRecord, error) {
	switch {
	case t.turn == nil:
		return t.s.cfg.Store.RecordsOfSession(ctx, t.in, t.session, after, n)
	case t.turn.Traced:
		return t.s.cfg.Store.PlacedRecordsOfTurn(ctx, t.in, t.turn.ID, after, n)
	}
	all, err := oldTrace(ctx, t.s.cfg.Store, t.in, *t.turn)
	all = all[min(int(after), len(all)):]
	return all[:min(n, len(all))], err
}

// joinTrace joins the two series until there are n entries or one of a full series is used up,
// behind which more may come that is older than the rest of the other.
func joinTrace(log []TraceEntry, moreLog bool, records []store.PlacedRecord, at TraceCursor, n int) ([]TraceEntry, TraceCursor) {
	moreRecords := len(records) >= n
	var entries []TraceEntry
	for len(entries) < n && len(log)+len(records) > 0 {
		if len(log) == 0 && moreLog || len(records) == 0 && moreRecords {
			break
		}
		if len(log) == 0 || len(records) > 0 && standsBefore(records[0].Record, log[0]) {
			r := records[0]
			records, at.Pos = records[1:], r.Pos
			entries = append(entries, TraceEntry{ID: r.ID, TurnID: r.TurnID, Source: r.Source, Type: r.Type, TS: r.TS, Payload: r.Payload, At: at})
			continue
		}
		e := log[0]
		log, at.Seq, at.Part = log[1:], e.At.Seq, e.At.Part
		e.At = at
		entries = append(entries, e)
	}
	return entries, at
}

// standsBefore reports whether a Record stands before what the log has at a place. The owner of the Session kept a Turn's
// life at a position of the log; anything else is joined by time.
func standsBefore(r store.Record, log TraceEntry) bool {
	switch r.Type {
	case trace.RunStarted, trace.AgentInvokeStarted, trace.AgentInvokeDone, trace.RunDone, trace.RunFailed:
		if r.AtSeq >= 0 {
			return r.AtSeq < log.seq
		}
		return !r.TS.After(log.TS) && (r.Type == trace.RunStarted || r.Type == trace.AgentInvokeStarted) || r.TS.Before(log.TS)
	case trace.UserInput:
		return !r.TS.After(log.TS)
	}
	return r.TS.Before(log.TS)
}

// log gives up to n entries of the log behind the cursor: each event and, in the trace of a Session, around the Runs of a
// Turn that is not traced how those began and ended. more says that the log may go on.
func (t *Trace) log(ctx context.Context, at TraceCursor, n int) (entries []TraceEntry, more bool, err error) {
	slices := []stretch{{after: at.Seq}}
	if t.turn != nil {
		if slices, err = t.stretches(ctx, at.Seq); err != nil {
			return nil, false, err
		}
	}
	left := min(max(n*bytesPerEntry, leastTraceBytes), traceBytes)
	life := &turnLives{t: t, turns: make(map[string]store.Turn)}
	for _, s := range slices {
		for {
			rows, err := t.s.cfg.Store.Events(ctx, t.in, t.session, s.after, left)
			if err != nil {
				return nil, false, err
			}
			if len(rows) == 0 {
				break
			}
			over, err := t.read(ctx, life, rows, s, at, n, &entries)
			if err != nil {
				return nil, false, err
			}
			for _, row := range rows {
				left -= len(row.Data)
			}
			if len(entries) >= n || left <= 0 {
				return entries[:min(n, len(entries))], true, nil
			}
			if s.after = rows[len(rows)-1].LastSeq; over || t.turn == nil {
				break
			}
		}
	}
	return entries, false, nil
}

// stretch is a part of the log: behind a position, up to another one (0: to the end of its Run, or of the log).
type stretch struct {
	after, last int64
	run         *store.Run // whose slice it is; nil in the trace of a Session
}

// stretches are the slices of the Turn's Runs behind a position.
func (t *Trace) stretches(ctx context.Context, after int64) (all []stretch, err error) {
	runs, err := t.s.cfg.Store.RunsOfTurn(ctx, t.in, t.turn.ID)
	for i, run := range runs {
		if run.FirstSeq > 0 && (run.LastSeq == 0 || run.LastSeq > after) {
			all = append(all, stretch{after: max(after, run.FirstSeq-1), last: run.LastSeq, run: &runs[i]})
		}
	}
	return all, err
}

// read adds the events of rows that lie in a stretch. over says that the stretch ends in them.
func (t *Trace) read(ctx context.Context, life *turnLives, rows []store.EventRow, s stretch, at TraceCursor, n int, entries *[]TraceEntry) (over bool, err error) {
	var runs []store.Run
	if s.run == nil {
		if runs, err = t.s.cfg.Store.RunsWithin(ctx, t.in, t.session, s.after+1, rows[len(rows)-1].LastSeq); err != nil {
			return false, err
		}
	}
	for _, row := range rows {
		eventlog.Each([]store.EventRow{row}, func(seq int64, event []byte) bool {
			if seq <= s.after {
				return true
			}
			if over = s.last > 0 && seq > s.last; over {
				return false
			}
			run := s.run
			if run == nil {
				run = runOf(runs, seq)
			}
			var around []TraceEntry
			if around, err = life.around(ctx, run, row, seq, event); err != nil {
				return false
			}
			for i := range around {
				around[i].seq = seq
				if around[i].At = (TraceCursor{Seq: seq - 1, Part: i + 1}); i == len(around)-1 {
					around[i].At = TraceCursor{Seq: seq}
				}
			}
			if seq == at.Seq+1 {
				around = around[min(at.Part, len(around)-1):]
			}
			*entries = append(*entries, around...)
			over = s.run != nil && agui.IsTerminal(event) // the last of a slice
			return !over && len(*entries) < n
		})
		if over || err != nil || len(*entries) >= n {
			break
		}
	}
	return over, err
}

// runOf is the Run whose slice holds a position.
func runOf(runs []store.Run, seq int64) *store.Run {
	for i := range runs {
		if runs[i].FirstSeq <= seq && (runs[i].LastSeq == 0 || seq <= runs[i].LastSeq) {
			return &runs[i]
		}
	}
	return nil
}

// isOld reports whether an event begins or ends a Run of a Turn that is not traced. In the trace of such a Turn itself what
// its rows say is among the Records (oldTrace).
func (l *turnLives) isOld(ctx context.Context, run store.Run, seq int64) (bool, error) {
	if l.t.turn != nil || seq != run.FirstSeq && seq != run.LastSeq {
		return false, nil
	}
	turn, err := l.turn(ctx, run.TurnID)
	return err == nil && !turn.Traced, err
}

// turnLives reads the life of Turns from their rows, to stand beside the events of their Runs.
type turnLives struct {
	t     *Trace
	turns map[string]store.Turn
}

// around is an event with what belongs to it.
func (l *turnLives) around(ctx context.Context, run *store.Run, row store.EventRow, seq int64, event []byte) ([]TraceEntry, error) {
	e := TraceEntry{ID: row.SessionID + ":" + strconv.FormatInt(seq, 10), Source: SourceAGUI, Type: string(agui.TypeOf(event)), TS: row.TS, Payload: event}
	if run == nil {
		return []TraceEntry{e}, nil
	}
	e.TurnID = run.TurnID
	if old, err := l.isOld(ctx, *run, seq); !old {
		return []TraceEntry{e}, err
	}
	var before, after []store.Record
	var err error
	if seq == run.FirstSeq {
		before, err = l.beginning(ctx, *run)
	}
	if err == nil && seq == run.LastSeq {
		after, err = l.end(ctx, *run)
	}
	entries := make([]TraceEntry, 0, len(before)+1+len(after))
	entries = append(entries, entriesOf(before)...)
	entries = append(entries, e)
	return append(entries, entriesOf(after)...), err
}

func (l *turnLives) turn(ctx context.Context, id string) (store.Turn, error) {
	if turn, ok := l.turns[id]; ok {
		return turn, nil
	}
	turn, err := l.t.s.cfg.Store.Turn(ctx, l.t.in, id)
	l.turns[id] = turn
	return turn, err
}

// beginning is what stands before the first event of a Run; before that of a Turn's first Run
// also who prompted it.
func (l *turnLives) beginning(ctx context.Context, run store.Run) ([]store.Record, error) {
	turn, err := l.turn(ctx, run.TurnID)
	if err != nil {
		return nil, err
	}
	var life []store.Record
	if run.ID == turn.ID {
		if life, err = oldInputs(ctx, l.t.s.cfg.Store, l.t.in, turn); err != nil {
			return nil, err
		}
	}
	for _, r := range lifeOf(turn, []store.Run{run}) {
		if r.Type == "run_started" && run.ID == turn.ID || r.Type == "agent_invoke_started" {
			life = append(life, r)
		}
	}
	return life, nil
}

// end is what stands behind the last event of a Run: the calls of tools since the Run before
// ended, and behind that of a Turn's last Run how the Turn ended.
func (l *turnLives) end(ctx context.Context, run store.Run) ([]store.Record, error) {
	turn, err := l.turn(ctx, run.TurnID)
	if err != nil {
		return nil, err
	}
	runs, err := l.t.s.cfg.Store.RunsOfTurn(ctx, l.t.in, turn.ID)
	if err != nil {
		return nil, err
	}
	calls, err := l.t.s.cfg.Store.ToolCallsOfTurn(ctx, l.t.in, turn.ID)
	if err != nil {
		return nil, err
	}
	kept, err := allRecords(ctx, l.t.s.cfg.Store, l.t.in, turn.ID)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(runs, func(r store.Run) bool { return r.ID == run.ID })
	last := at == len(runs)-1 && turn.Status.Terminal()
	var since time.Time
	if at > 0 {
		since = runs[at-1].EndedAt
	}
	var life []store.Record
	for _, call := range calls {
		for _, r := range notKept(lifeOfCall(turn, call), kept) {
			if r.TS.After(since) && (last || !r.TS.After(run.EndedAt)) {
				life = append(life, r)
			}
		}
	}
	slices.SortStableFunc(life, traceOrder)
	for _, r := range lifeOf(turn, []store.Run{run}) {
		if r.Type == "agent_invoke_done" || last && (r.Type == "run_done" || r.Type == "run_failed") {
			life = append(life, r)
		}
	}
	return life, nil
}

func entriesOf(records []store.Record) []TraceEntry {
	entries := make([]TraceEntry, 0, len(records))
	for _, r := range records {
		entries = append(entries, TraceEntry{ID: r.ID, TurnID: r.TurnID, Source: r.Source, Type: r.Type, TS: r.TS, Payload: r.Payload})
	}
	return entries
}

// idAt sorts before every id of ours that is made at or after a time.
func idAt(t time.Time) string {
	ms := max(t.UnixMilli(), 0)
	return fmt.Sprintf("%08x-%04x-7000-8000-000000000000", ms>>16, ms&0xffff)
}
