package bridge

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// Types of the Records, beside those of events, that hold what a parked Turn's upstream said.
const (
	backMark = "mark" // how far into the upstream's words the Records until here reach
	backEnd  = "end"  // the upstream's last word, as the event that would end a Run
)

// keepBack keeps what a parked Turn's upstream says: as Records at once, and for the next
// Run in memory. A Question among it is an Approval at once.
func (t *turn) keepBack(ctx context.Context, b batch) error {
	t.marker = b.marker
	for _, o := range b.outputs {
		err := t.keepOne(ctx, o)
		if f, ok := err.(*Failure); ok {
			t.brokenParked(f)
			break
		}
		if err != nil {
			return err
		}
	}
	if b.err != nil {
		t.s.m.cfg.Logger.Warn("upstream of a parked turn ended", slog.String("turn_id", t.row.ID), slog.Any("error", b.err))
		t.release()
	}
	switch {
	case t.pump == nil: // the Turn leaves memory: from here on the Records are all there is
		_, err := t.s.log.Keep(ctx, t.parkedEntry(eventlog.Entry{}))
		return err
	case len(t.parked) == 0 && t.mark == "":
		return nil
	}
	return t.s.log.Put(ctx, t.parkedEntry(eventlog.Entry{}))
}

func (t *turn) keepOne(ctx context.Context, o Output) error {
	if o.Question != nil {
		defer t.holdBack(Output{Mark: o.Mark})
		return t.ask(ctx, o)
	}
	t.reached(o)
	switch {
	case o.Withdrawn != "":
		t.holdBack(Output{Mark: o.Mark})
		return t.unasked(ctx, o.Withdrawn)
	case o.End != nil:
		return t.endedParked(ctx, o)
	case o.Event != nil:
		for _, ev := range t.carry.on(o.Event) {
			record := t.upstreamRecord(string(ev.EventType()), ev.AppendJSON(nil))
			if t.backBytes += len(record.Payload); t.backBytes > t.s.m.cfg.Limits.RunBytes {
				return &Failure{Code: CodeRunTooLarge, Message: "The agent said more than one answer may hold."}
			}
			t.parked = append(t.parked, record)
			t.holdBack(Output{Event: ev})
		}
		o.Event = nil // its mark is left
	}
	t.holdBack(o)
	return nil
}

// holdBack keeps an Output for the next Run. Of Marks alone only the newest counts.
func (t *turn) holdBack(o Output) {
	bare := o.Event == nil && o.End == nil
	if bare && o.Mark == "" {
		return
	}
	if n := len(t.back); bare && n > 0 {
		t.back[n-1].Mark = o.Mark
		return
	}
	t.back = append(t.back, o)
}

// parkedEntry completes an Entry with the Records that wait and the Mark they reach to.
// The Mark is not the log's: the events it counts are not in it yet.
func (t *turn) parkedEntry(e eventlog.Entry) eventlog.Entry {
	e.Records = append(t.parked, e.Records...)
	t.parked = nil
	if t.mark != "" {
		e.Records = append(e.Records, t.upstreamRecord(backMark, mustJSON(map[string]string{"mark": t.mark})))
	}
	e = t.marked(e)
	e.Mark = ""
	return e
}

// brokenParked gives up the upstream of a parked Turn; its next Run ends with the failure.
func (t *turn) brokenParked(f *Failure) {
	t.release()
	t.holdEnd(Output{End: &End{Failure: f}})
}

// endedParked is the upstream's last word while its Questions are open. One that ended to
// wait is called again with the answers. A failure, or an end that waits for nothing, be it
// because all it asked was taken back, is how the next Run ends.
func (t *turn) endedParked(ctx context.Context, o Output) error {
	t.release()
	if err := t.waitsForNothing(ctx, o.End); err != nil {
		return err
	}
	all, err := t.questions(ctx)
	if err != nil {
		return err
	}
	open := slices.DeleteFunc(slices.Clone(all), func(q inbox.Question) bool { return !q.Open() })
	unheard := slices.ContainsFunc(all, func(q inbox.Question) bool { return q.Call.DeliveredAt.IsZero() })
	if o.End.Failure != nil || o.End.Pending != nil && len(o.End.Pending) == 0 || !unheard {
		t.holdEnd(o)
	}
	if o.End.Pending == nil {
		return nil
	}
	if err := t.withdrawAllBut(ctx, open, o.End.Pending); err != nil || len(o.End.Pending) > 0 {
		return err
	}
	t.s.more = true
	return t.s.m.reserveAfter(ctx, t.row)
}

func (t *turn) holdEnd(o Output) {
	var ev agui.Event = &agui.RunFinished{ThreadID: t.s.id, RunID: t.row.ID, Result: o.End.Result, Usage: o.End.Usage}
	if f := o.End.Failure; f != nil {
		ev = &agui.RunError{Message: f.Message, Code: f.Code, Usage: o.End.Usage}
	}
	t.parked = append(t.parked, t.upstreamRecord(backEnd, ev.AppendJSON(nil)))
	t.holdBack(o)
}

func (t *turn) upstreamRecord(kind string, payload []byte) store.Record {
	r := t.record(kind, payload)
	r.Source = store.SourceUpstream
	return r
}

// recall reads back what a parked Turn's upstream said before this process held the Turn.
func (t *turn) recall(ctx context.Context) error {
	var records []store.Record
	err := patiently(ctx, func() (err error) {
		records, err = t.s.m.cfg.Store.ParkedRecords(ctx, store.System(), t.row.ID)
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range records {
		o, err := recalled(r)
		if err != nil {
			return err
		}
		t.holdBack(o)
		t.backBytes += len(r.Payload)
	}
	return nil
}

// recalled is the Output a Record was made of.
func recalled(r store.Record) (o Output, err error) {
	if r.Type == backMark {
		var kept struct{ Mark string }
		err = json.Unmarshal(r.Payload, &kept)
		return Output{Mark: kept.Mark}, err
	}
	o.Event, err = agui.Decode(r.Payload)
	if r.Type != backEnd {
		return o, err
	}
	switch e := o.Event.(type) {
	case *agui.RunError:
		return Output{End: &End{Usage: e.Usage, Failure: &Failure{Code: e.Code, Message: e.Message}}}, err
	case *agui.RunFinished:
		return Output{End: &End{Usage: e.Usage, Result: e.Result, Pending: []string{}}}, err
	}
	return o, err
}

// emitBack writes what was held back into the open Run, but for an End, and gives the
// Record that says so: it must be kept in the same commit.
func (t *turn) emitBack() ([]store.Record, error) {
	back := t.back
	if len(back) == 0 {
		return nil, nil
	}
	t.back, t.backBytes, t.marker = nil, 0, nil // the upstream knows that it is kept
	if ended(back) {
		t.back = back[len(back)-1:]
	}
	for _, o := range back {
		t.reached(o)
		if o.Event == nil {
			continue
		}
		if err := t.run.emit(o.Event); err != nil {
			return nil, err
		}
	}
	return []store.Record{t.upstreamRecord(store.RecordTaken, nil)}, nil
}
