package bridge

import (
	"context"
	"encoding/json"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/store"
)

// protocolVersion is AG-UI's, told on every RUN_STARTED: our own, never an echo.
const protocolVersion = "1.0"

// run is one open slice of the log: what has been said, what is open, and what waits to
// be handed to the log.
type run struct {
	t       *turn
	row     store.Run
	profile Profile

	grammar agui.Grammar
	fold    *agui.Fold
	state   *agui.StateDoc

	stateShown   bool         // a state event of this Run is out
	stateRefused bool         // the last change was not taken, and the state was told since
	changes      stateChanges // of this Run

	events          []byte // encoded, joined by "\n", not yet put
	n               int
	bytes           int // of all events so far
	admitted        []agui.Event
	assistant       string                 // id of the newest assistant message of this Run
	text            *agui.TextMessageStart // of the text message that is open; nil when none is
	spoke           bool                   // a text delta was seen
	usage           []agui.TokenUsage
	recalled        map[string]bool // activities that were looked for in earlier Runs
	activityRefused map[string]bool // activities whose last change was not applied
}

// openRun makes the reserved row the open Run of the Turn.
func (t *turn) openRun(ctx context.Context, row store.Run) error {
	state, err := agui.NewStateDoc(t.s.row.State)
	if err != nil {
		return err
	}
	r := &run{t: t, row: row, fold: agui.NewFold(nil), state: state}
	if err := json.Unmarshal(row.Profile, &r.profile); err != nil && len(row.Profile) > 0 {
		return err
	}
	r.row.FirstSeq = t.s.log.Last() + 1
	t.run, t.profile, t.asked = r, r.profile, false
	return nil
}

// started is the Run's first event and the moves that go with it.
func (r *run) started(input *agui.RunAgentInput) (store.Move, error) {
	err := r.emit(&agui.RunStarted{
		ThreadID: r.t.s.row.ExternalID, RunID: r.row.ExternalID, ParentRunID: r.row.ParentRunID, ProtocolVersion: protocolVersion, Input: input,
	})
	return store.RunMove{
		ID: r.row.ID, From: store.RunReserved, To: store.RunRunning, FirstSeq: r.row.FirstSeq, StartedAt: time.Now(),
	}, err
}

// emit passes one event through state, grammar and redaction, encodes it, once, and
// keeps the bytes for the next flush. A *Failure means that it broke the protocol.
func (r *run) emit(ev agui.Event) error {
	switch ev.(type) {
	case *agui.StateSnapshot, *agui.StateDelta:
		return r.emitState(ev)
	}
	return r.admit(ev)
}

// admit is emit for what has been through the state.
func (r *run) admit(ev agui.Event) (err error) {
	r.admitted, err = r.grammar.Admit(r.admitted[:0], ev)
	if err != nil {
		return &Failure{Code: CodeUpstreamProtocol, Message: "The agent sent events in an order that AG-UI does not allow.", Cause: err}
	}
	for _, e := range r.admitted {
		r.write(e)
	}
	return nil
}

// write encodes one admitted event, in pieces when it is too large. What is left of one
// that was cut is not cut again, whatever its size: it would be for ever.
func (r *run) write(ev agui.Event) {
	limit, mark := r.t.s.m.cfg.Limits.EventBytes, len(r.events)
	begin := r.encode(ev)
	if len(r.events)-begin <= limit {
		r.add(ev, begin)
		return
	}
	r.events = r.events[:mark]
	if _, ok := ev.(*agui.StateDelta); ok { // the state has its own bound
		ev = &agui.StateSnapshot{Snapshot: r.stateJSON()}
	}
	for _, piece := range pieces(ev, limit) {
		r.add(piece, r.encode(piece))
	}
}

// encode appends an event to what waits, and tells where it begins.
func (r *run) encode(ev agui.Event) (begin int) {
	if r.n > 0 {
		r.events = append(r.events, '\n')
	}
	begin = len(r.events)
	r.events = ev.AppendJSON(r.events)
	return begin
}

// add counts an encoded event in, as redaction leaves it.
func (r *run) add(ev agui.Event, begin int) {
	kept := r.t.s.m.cfg.Filter.JSON(r.events[begin:])
	if &kept[0] != &r.events[begin] {
		r.events = append(r.events[:begin], kept...)
		if hidden, err := agui.Decode(kept); err == nil {
			ev = hidden
		}
	}
	r.n++
	r.fold.Apply(ev)
	r.note(ev)
}

// note remembers what later events of the Run refer to.
func (r *run) note(ev agui.Event) {
	switch e := ev.(type) {
	case *agui.ToolCallStart, *agui.ToolCallResult:
		r.t.noteCall(ev)
	case *agui.TextMessageStart:
		r.assistant, r.text = e.MessageID, e
	case *agui.TextMessageEnd:
		if r.text != nil && r.text.MessageID == e.MessageID {
			r.text = nil
		}
	case *agui.TextMessageContent:
		if !r.spoke {
			r.spoke = true
			if f := r.t.s.m.cfg.Meter.FirstToken; f != nil {
				f(time.Since(r.row.CreatedAt))
			}
		}
	}
}

// flush hands what was emitted to the log, without waiting for the commit.
func (r *run) flush(ctx context.Context) error {
	if r.n == 0 && r.t.mark == "" {
		return nil
	}
	err := r.t.s.log.Put(ctx, r.t.marked(eventlog.Entry{Events: r.events, N: r.n}))
	r.handed()
	return err
}

// handed forgets what the log has taken.
func (r *run) handed() {
	r.t.s.logged.bytes += int64(len(r.events))
	r.t.s.logged.fresh += int64(len(r.events))
	r.bytes += len(r.events)
	r.events, r.n = r.events[:0], 0
}

// keep hands what was emitted to the log together with the moves, and waits for the
// commit. It tells which moves were lost.
func (r *run) keep(ctx context.Context, records []store.Record, moves ...store.Move) ([]int, error) {
	lost, err := r.t.s.log.Keep(ctx, r.t.marked(eventlog.Entry{Events: r.events, N: r.n, Moves: moves, Records: records}))
	r.handed()
	return lost, err
}

// ending says how a Run ends. The zero value is a plain success that moves only the Run.
type ending struct {
	turn    store.TurnStatus // "" leaves the Turn where it is
	outcome *agui.Outcome
	result  json.RawMessage
	failure *Failure
	moves   []store.Move
}

// end writes the terminal event, and with it, in one commit, everything that follows from
// the Run being over.
func (r *run) end(ctx context.Context, e ending) error {
	_, err := r.endWith(ctx, e)
	return err
}

func (r *run) endWith(ctx context.Context, e ending) (lost []int, err error) {
	r.t.emitHalves()
	if e.turn != "" {
		r.t.emitMasked()
	}
	if err := r.emit(r.terminal(e)); err != nil {
		return nil, err
	}
	now, status := time.Now(), runStatus(e)
	moves := append(e.moves, store.RunMove{
		ID: r.row.ID, From: store.RunRunning, To: status, LastSeq: r.t.s.log.Last() + int64(r.n),
		ErrorCode: e.code(), EndedAt: now,
	})
	var records []store.Record
	if e.turn != "" {
		move := r.turnMove(e, now)
		moves, records = append(moves, move), r.endRecords(e, move.Usage, now)
	}
	moves = append(moves, r.transcript(now)...)
	added := r.t.s.logged.fresh + int64(len(r.events))
	moves = append(moves, store.SessionMove{ID: r.t.s.id, State: r.state.JSON(), Bytes: added, UpdatedAt: now})
	if changed := r.changes.encode(); changed != nil {
		moves = append(moves, store.RunStateChanges{ID: r.row.ID, Changes: changed})
	}
	r.t.s.m.tenants.added(r.t.s.row.Tenant, added) // before a client that saw the end can prompt again
	lost, err = r.keep(ctx, records, moves...)
	if err != nil {
		return nil, err
	}
	r.t.s.logged.fresh = 0
	r.closed(e, status)
	return lost, nil
}

// closed is what memory learns after the commit.
func (r *run) closed(e ending, status store.RunStatus) {
	t := r.t
	t.s.row.State = append([]byte(nil), r.state.JSON()...)
	if e.turn != "" {
		t.row.Status = e.turn
	}
	t.carry.over(r.grammar.Unfinished())
	t.run, t.asked = nil, false
	if f := t.s.m.cfg.Meter.RunEnded; f != nil {
		f(string(status))
	}
	if f := t.s.m.cfg.Meter.TurnEnded; f != nil && e.turn != "" {
		total, paused := t.times(time.Now())
		f(string(e.turn), total, total-paused)
	}
}

func (r *run) terminal(e ending) agui.Event {
	if e.failure != nil {
		return &agui.RunError{Message: e.failure.Message, Code: e.failure.Code, Usage: r.usage}
	}
	return &agui.RunFinished{
		ThreadID: r.t.s.row.ExternalID, RunID: r.row.ExternalID, Result: e.result, Outcome: e.outcome, Usage: r.usage,
	}
}

func (r *run) turnMove(e ending, now time.Time) store.TurnMove {
	m := store.TurnMove{
		ID: r.t.row.ID, From: []store.TurnStatus{r.t.row.Status}, To: e.turn, EndedAt: now,
		TokenHash: []byte{}, Upstream: store.UpstreamNone, Usage: usageJSON(r.usage), ErrorCode: e.code(),
	}
	if e.failure != nil {
		m.ErrorMessage = e.failure.Message
	}
	return m
}

// transcript is what the Run's events fold to, as rows.
func (r *run) transcript(now time.Time) []store.Move {
	messages := r.fold.New()
	moves := make([]store.Move, 0, len(messages))
	for _, m := range messages {
		if m.Role == "user" {
			continue // told by RUN_STARTED; the row was written when it was sent
		}
		moves = append(moves, r.messageMoves(m, now)...)
	}
	return moves
}

func (e ending) code() string {
	if e.failure == nil {
		return ""
	}
	return e.failure.Code
}

func runStatus(e ending) store.RunStatus {
	switch {
	case e.failure != nil:
		return store.RunFailed
	case e.outcome == nil:
		return store.RunFinished
	case e.outcome.Type == agui.OutcomeCancelled:
		return store.RunCancelled
	case e.outcome.Type == agui.OutcomeInterrupt, len(e.outcome.PendingToolCallIDs) > 0:
		return store.RunInterrupted
	}
	return store.RunFinished
}
