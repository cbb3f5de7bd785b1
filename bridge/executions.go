package bridge

import (
	"context"
	"runtime"
	"slices"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/tools"
	"aqueduct/store"
)

// A ToolCall that we execute is shown in its Turn's chat: TOOL_CALL_START, ARGS and END when it begins, TOOL_CALL_RESULT
// when it has ended. Where the Turn is driven on the replica that executes the call, the events are in the commits that
// keep the call's row, so they cost no commit and neither can be without the other. A call that is executed elsewhere, or
// in a moment in which its Session's goroutine is busy, is shown from its row by the deliverer.

const (
	// shortTick is the unit of the three waits below. They are counted in ticks and not by the clock: where the machine is busy
	// and the program stands still for longer than all of them, one has passed, and the goroutine that is waited for runs
	// before the next.
	shortTick = 5 * time.Millisecond
	// handOverTicks is how long a call's commit waits for its Session's goroutine to add the events. That goroutine may be
	// waiting for the upstream, and this for the call: so the wait is short, and the row is then kept alone.
	handOverTicks = 10
	// showTicks is how long an Agent waits for its answer so that the chat shows first what the answer is about: longer than a
	// look at the rows takes on a busy machine. After that the order is given up, and not the answer.
	showTicks = 40
	// firstWordsTicks is how long the first call of an upstream waits for the words before it. An Agent that begins with a call
	// pays for it, so it is shorter than what a second call waits meanwhile.
	firstWordsTicks = 4
	// readerYields is how often the reader of an upstream is given way to.
	readerYields = 3
)

// toolKeeping is a Keeping on its way to the Session's goroutine, which answers at once. Without a Move nothing is to be kept:
// what the rows have of the Turn is to be shown.
type toolKeeping struct {
	tools.Keeping
	answer chan toolAnswer // capacity 1
}

// toolAnswer is where the Keeping went: into the log's next commit, at a place among the moves; or nowhere (ok is false).
// The runner waits for the entry's commit itself, so that the Session's goroutine does not wait for a store on a
// runner's behalf.
type toolAnswer struct {
	entry eventlog.Submitted
	place int
	ok    bool
}

// handOver hands what becomes of ToolCalls to the goroutines that drive their Sessions.
type handOver struct{ s *Sessions }

// keep keeps a call with its events if its Turn is driven here, and else its row alone (tools.Keeper).
// Both ways commit the same move, and of the two exactly one is taken: give's answer is final.
func (h handOver) keep(ctx context.Context, k tools.Keeping) (tools.Kept, error) {
	if answer := h.give(ctx, k); answer.ok {
		lost, err := answer.entry.Wait(ctx)
		return tools.Kept{Lost: slices.Contains(lost, answer.place), Shown: true}, err
	}
	lost, err := h.s.cfg.Log.Keep(ctx, k.Call.SessionID, append([]store.Move{k.Move}, k.Trace...), nil)
	return tools.Kept{Lost: slices.Contains(lost, 0)}, err
}

// show puts into the chat what only rows have, before the Agent of the Turn learns of it, where the Turn is driven here: what the
// Agent sends then stands behind it. It is for a ToolCall whose row was kept alone and, by a call with no id, for the end of an
// Agent that the Turn's Agent called.
func (h handOver) show(ctx context.Context, call store.ToolCall) {
	h.give(ctx, tools.Keeping{Call: call})
}

// give gives a Keeping to the goroutine that drives the Session, if one does, and returns its answer.
//
// The channel has no buffer: a hand-over that succeeded is in the hands of a goroutine that will answer. One in a
// buffer could be left behind when that goroutine retires, and the runner would wait for ever. The answer about a Move
// is waited for in any case; who only wants something shown waits no longer than showTicks, because that goroutine may come to wait
// for the Agent which waits for this.
func (h handOver) give(ctx context.Context, k tools.Keeping) toolAnswer {
	a := h.s.driver(k.Call.SessionID)
	if a == nil {
		return toolAnswer{}
	}
	req := &toolKeeping{Keeping: k, answer: make(chan toolAnswer, 1)}
	ticks := time.NewTicker(shortTick)
	defer ticks.Stop()
	for left := handOverTicks; left > 0; {
		select {
		case a.calls <- req:
			if k.Move != nil {
				return <-req.answer
			}
			awaitShown(ctx, req.answer, ticks.C)
			return toolAnswer{}
		case <-ticks.C:
			left--
		case <-a.gone:
			return toolAnswer{}
		case <-ctx.Done():
			return toolAnswer{}
		}
	}
	return toolAnswer{}
}

// awaitShown waits for the answer to show, for showTicks.
func awaitShown(ctx context.Context, answer <-chan toolAnswer, ticks <-chan time.Time) {
	for left := showTicks; left > 0; {
		select {
		case <-answer:
			return
		case <-ticks:
			left--
		case <-ctx.Done():
			return
		}
	}
}

// showRows shows what the rows have: of a ToolCall, or of the Agents that were called. It carries out no Commands: one that ends the
// Turn would wait for the Agent, which waits for this.
func showRows(ctx context.Context, t *turn, of store.ToolCall) error {
	if of.ID != "" {
		return t.deliverer.deliver(ctx)
	}
	if t.writer.run == nil {
		return nil
	}
	if err := t.children.catchUp(ctx); err != nil {
		return err
	}
	return t.writer.flush(ctx)
}

// keepExecution puts what a call's runner has kept into the log's next commit, with the events that show it. When the
// answer is not ok the runner keeps the row alone. What is kept already is shown from the rows.
//
// It gives the answer in every case, by the deferred send; a panic would give it too.
func (t *turn) keepExecution(ctx context.Context, k *toolKeeping) (err error) {
	answer := toolAnswer{}
	defer func() { k.answer <- answer }()
	if k.Call.TurnID != t.row.ID || t.row.Status.Terminal() {
		return nil
	}
	if err := t.readAhead(ctx); err != nil || t.row.Status.Terminal() || t.upstream.buffered != nil {
		return err
	}
	if k.Move == nil {
		return showRows(ctx, t, k.Call)
	}
	w := &t.writer
	if k.Asked && !w.calls.has(k.Call) { // settled before it was shown: the deliverer shows it as what was asked
		return nil
	}
	if w.run == nil {
		if ok, err := w.beginFurther(ctx); err != nil || !ok {
			return err
		}
	}
	started := w.calls.has(k.Call)
	err = w.showCall(k.Call)
	if err == nil && k.Call.Status.Terminal() && !w.calls.resulted(k.Call.ID) {
		err = w.run.result(approval.Question{Call: k.Call})
	}
	if err != nil {
		return err
	}
	move := k.Move
	// The Run stands on the row in the commit of its events: a call whose row names no Run counts as not shown, and
	// the deliverer would show it a second time.
	switch m := move.(type) {
	case store.TakeToolCall:
		m.ToolCall.RunID = w.run.row.ID
		move = m
	case store.ToolCallMove:
		if m.InTranscript = true; !started {
			m.RunID = w.run.row.ID
		}
		move = m
	}
	answer.entry, answer.place, err = w.submit(ctx, append([]store.Move{move}, k.Trace...)...)
	if answer.ok = err == nil; !answer.ok {
		return err
	}
	if err := w.tooMuch(ctx); err != nil {
		return err
	}
	t.quiet.putOff(t.upstream.idle(), t.row.Status.Paused())
	return nil
}

// readAhead takes what the upstream has sent by now: the words of an Agent before it calls a tool stand before the call. The
// words and the call come by two connections. The reader of the words has been woken first, but it may have to run yet;
// and the first words come with the answer's headers, which take longer to read than a call does.
// Gosched gives the reader of the words the processor, which on one core it would not get before this goroutine
// blocks.
func (t *turn) readAhead(ctx context.Context) error {
	for range readerYields {
		b, ok := t.upstream.poll(ctx)
		// No more than what fits into the queue: an upstream that sends without a pause would keep the runner
		// waiting.
		for n := 0; ok && n < readerDepth; n++ {
			if err := t.failFor(ctx, t.take(ctx, b)); err != nil || t.row.Status.Terminal() || t.upstream.buffered != nil {
				return err
			}
			b, ok = t.upstream.poll(ctx)
		}
		if ok {
			return t.take(ctx, b)
		}
		runtime.Gosched()
	}
	return nil
}
