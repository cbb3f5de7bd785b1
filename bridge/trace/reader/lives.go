// This file puts the life of old Turns into the trace of a Session, beside the events of their Runs. Only Turns from
// before Records were kept of everything (store.Turn.Traced) need it; of all others the Records have it.

package reader

import (
	"context"
	"slices"
	"strconv"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// lives reads the life of Turns that are not traced from their rows, to stand beside the events of their Runs. In the
// trace of a Session these entries have no position among its Records, so they are parts of the position of an event
// (Cursor.Part). One serves one page.
type lives struct {
	store     store.Store
	in        store.Scope
	ofSession bool                  // the trace is a whole Session's
	turns     map[string]store.Turn // those read for this page
}

// isOld reports whether an event begins or ends a Run of a Turn that is not traced. In the trace of such a Turn itself,
// what its rows hold is among the Records (oldTrace).
func (l *lives) isOld(ctx context.Context, run store.Run, seq int64) (bool, error) {
	if !l.ofSession || seq != run.FirstSeq && seq != run.LastSeq {
		return false, nil
	}
	turn, err := l.turn(ctx, run.TurnID)
	return err == nil && !turn.Traced, err
}

// around is an event with the entries that belong before and after it.
func (l *lives) around(ctx context.Context, run *store.Run, row store.EventRow, seq int64, event []byte) ([]Entry, error) {
	e := Entry{ID: row.SessionID + ":" + strconv.FormatInt(seq, 10), Source: SourceAGUI, Type: string(agui.TypeOf(event)), TS: row.TS, Payload: event}
	if run == nil {
		return []Entry{e}, nil
	}
	e.TurnID = run.TurnID
	if old, err := l.isOld(ctx, *run, seq); !old {
		return []Entry{e}, err
	}
	var before, after []store.Record
	var err error
	if seq == run.FirstSeq {
		before, err = l.beginning(ctx, *run)
	}
	if err == nil && seq == run.LastSeq {
		after, err = l.end(ctx, *run)
	}
	entries := make([]Entry, 0, len(before)+1+len(after))
	entries = append(entries, entriesOf(before)...)
	entries = append(entries, e)
	return append(entries, entriesOf(after)...), err
}

func (l *lives) turn(ctx context.Context, id string) (store.Turn, error) {
	if turn, ok := l.turns[id]; ok {
		return turn, nil
	}
	turn, err := l.store.Turn(ctx, l.in, id)
	l.turns[id] = turn
	return turn, err
}

// beginning is what comes before the first event of a Run; for a Turn's first Run also its prompt.
func (l *lives) beginning(ctx context.Context, run store.Run) ([]store.Record, error) {
	turn, err := l.turn(ctx, run.TurnID)
	if err != nil {
		return nil, err
	}
	var life []store.Record
	if run.ID == turn.ID {
		if life, err = oldInputs(ctx, l.store, l.in, turn); err != nil {
			return nil, err
		}
	}
	for _, r := range lifeOf(turn, []store.Run{run}) {
		if r.Type == trace.RunStarted && run.ID == turn.ID || r.Type == trace.AgentInvokeStarted {
			life = append(life, r)
		}
	}
	return life, nil
}

// end is what comes after the last event of a Run: the calls of tools since the Run before ended, and for a Turn's last Run
// how the Turn ended.
func (l *lives) end(ctx context.Context, run store.Run) ([]store.Record, error) {
	turn, err := l.turn(ctx, run.TurnID)
	if err != nil {
		return nil, err
	}
	runs, err := l.store.RunsOfTurn(ctx, l.in, turn.ID)
	if err != nil {
		return nil, err
	}
	calls, err := l.store.ToolCallsOfTurn(ctx, l.in, turn.ID)
	if err != nil {
		return nil, err
	}
	kept, err := allRecords(ctx, l.store, l.in, turn.ID)
	if err != nil {
		return nil, err
	}
	// A call belongs to the Run in whose time each of its entries falls: behind the end of the Run before, up to the end
	// of this one. What came behind the last Run's end stands beside that.
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
		if r.Type == trace.AgentInvokeDone || last && (r.Type == trace.RunDone || r.Type == trace.RunFailed) {
			life = append(life, r)
		}
	}
	return life, nil
}

func entriesOf(records []store.Record) []Entry {
	entries := make([]Entry, 0, len(records))
	for _, r := range records {
		entries = append(entries, Entry{ID: r.ID, TurnID: r.TurnID, Source: r.Source, Type: r.Type, TS: r.TS, Payload: r.Payload})
	}
	return entries
}
