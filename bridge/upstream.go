package bridge

import (
	"context"
	"slices"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/internal/failpoint"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// upstream is what a Turn holds of its Agent's output: the reader, the look-ahead of one batch, and how far the log has
// got. The goroutine of the Session alone uses it; the reader has a goroutine of its own, which release ends.
type upstream struct {
	store   store.Store
	agents  *Directory
	agent   Agent  // nil when there was none of that name here
	tenant  string // the Session's, and
	agentID string // the name by which the Agent is found
	turnID  string
	task    bool // the Turn was a Task
	unsent  bool // the Task has it that its Agent was not called yet
	callers *callers
	// resumable is set where the row has it, or will with the next commit, that the Agent can be called again (Resumable).
	resumable bool

	reader   *upstreamReader // nil when nothing is being read
	buffered *batch          // read, but it needs a Run and another one is due first
	cursor   string          // that of the newest Output taken that the log has not been handed yet
	acks     Acknowledger    // is called once the cursor is committed; nil when the Agent repeats nothing
}

// idle reports whether nothing is being read and nothing that was read waits.
func (u *upstream) idle() bool { return u.reader == nil && u.buffered == nil }

// frames is where the reader's batches arrive; nil, which blocks for ever, without a reader.
func (u *upstream) frames() <-chan batch {
	if u.reader == nil {
		return nil
	}
	return u.reader.frames
}

// takeBuffered takes the buffered batch; nil without one.
func (u *upstream) takeBuffered() *batch {
	b := u.buffered
	u.buffered = nil
	return b
}

// errNoAgent ends a Turn whose Agent is not in the Directory, or not any more.
func errNoAgent() error {
	return fault.New(CodeAgentUnknown, "There is no agent of that name here.")
}

// find looks once more for an Agent that was not in the Directory when the Turn was made. A Turn that another replica took may
// be for an Agent that registered there a moment ago; this replica then reads its row, instead of failing a prompt that
// would be answered two seconds later.
func (u *upstream) find(ctx context.Context) (err error) {
	if u.agent == nil {
		u.agent, err = u.agents.find(ctx, u.tenant, u.agentID)
	}
	if err == nil && u.agent == nil {
		err = errNoAgent()
	}
	return err
}

// start calls the Agent with a new prompt and reads it.
// The callers are set before the call: an Agent's first request may come before Start returns.
func (u *upstream) start(ctx context.Context, call Call, from caller) error {
	if err := u.find(ctx); err != nil {
		return err
	}
	u.callers.add(u.turnID, from)
	failpoint.Here("before_dispatch")
	task, unsent := u.task, u.unsent
	u.reader = startReader(ctx, false, func(ctx context.Context) (Turn, error) {
		defer failpoint.Here("after_dispatch")
		if task {
			return u.startTask(ctx, call, unsent)
		}
		return u.agent.Start(ctx, call)
	})
	return nil
}

// resume calls the Agent for a Turn that this process does not hold, and reads it. The call carries the newest committed
// cursor. It runs on the reader's goroutine, so that the Session goes on taking requests however long it takes. A call
// without a run token of its own leaves the Agent the one it has.
//
// The cursor is read as late as here, on the reader's goroutine, because everything that was handed to the log must be
// committed by then.
func (u *upstream) resume(ctx context.Context, call Call, from caller, answers []approval.Delivery) error {
	if call.RunToken != "" {
		u.callers.add(u.turnID, from)
	}
	if err := u.find(ctx); err != nil {
		return err
	}
	u.reader = startReader(ctx, true, func(ctx context.Context) (_ Turn, err error) {
		if call.Cursor == "" {
			call.Cursor, err = u.store.LastCursor(ctx, store.System(), call.SessionID)
		}
		if err != nil {
			return nil, err
		}
		if len(answers) > 0 {
			defer failpoint.Here("after_delivery")
		}
		return u.agent.Resume(ctx, call, answers)
	})
	return nil
}

// release ends the reading and gives the upstream up; the Agent's run token is read from the store from then on. What is
// buffered stays.
func (u *upstream) release() {
	u.callers.remove(u.turnID)
	if u.reader != nil {
		u.reader.stop()
		u.reader = nil
	}
}

// takesAnswers reports whether an upstream is open that takes answers while it is being read.
func (u *upstream) takesAnswers() bool { return u.reader != nil && u.reader.takesAnswers() }

// pause notifies the upstream whether a Question is open.
func (u *upstream) pause(paused bool) {
	if u.reader != nil {
		u.reader.pause(paused)
	}
}

const (
	// cancelWait bounds how long an upstream may take to learn that it is cancelled.
	cancelWait = time.Second
	// lastWordsWait is how long a cancelled upstream may go on about what it has begun.
	lastWordsWait = 250 * time.Millisecond
)

// cancel asks the upstream to stop and gives it a moment for its last words: it knows best what becomes of what it has
// begun. take gets each batch and reports whether that was all.
// What it still sends within the moment is shown and on record, so that a cancelled tool is shown as cancelled and not
// as running for ever.
func (u *upstream) cancel(ctx context.Context, take func(batch) bool) error {
	if u.reader == nil {
		return nil
	}
	patience, stop := context.WithTimeout(ctx, cancelWait)
	u.reader.cancelUpstream(patience)
	stop()
	patience, stop = context.WithTimeout(ctx, lastWordsWait)
	defer stop()
	for {
		var b batch
		if buffered := u.takeBuffered(); buffered != nil {
			b = *buffered
		} else {
			select {
			case b = <-u.reader.frames:
			// nil where the moment is over; an error only where the Session itself stops.
			case <-patience.Done():
				return ctx.Err()
			}
		}
		u.acks = b.acks
		if take(b) {
			return nil
		}
	}
}

// poll returns a batch that has arrived. Before the first batch of a reader it waits up to firstWordsTicks, once.
//
// An Agent's output and its tool calls come by two connections. A call can therefore arrive before the output that
// precedes it has been read; without the wait the log would have the two in the wrong order.
func (u *upstream) poll(ctx context.Context) (batch, bool) {
	select {
	case b := <-u.frames():
		return b, true
	default:
	}
	if u.reader == nil || u.reader.spoke {
		return batch{}, false
	}
	u.reader.spoke = true
	ticks := time.NewTicker(shortTick)
	defer ticks.Stop()
	for left := firstWordsTicks; left > 0; {
		select {
		case b := <-u.reader.frames:
			return b, true
		case <-ticks.C:
			left--
		case <-ctx.Done():
			return batch{}, false
		}
	}
	return batch{}, false
}

// noteBatch notes from which upstream a batch is that is being written.
func (u *upstream) noteBatch(b batch) {
	u.acks = b.acks
	if u.reader != nil && len(b.outputs) > 0 {
		u.reader.spoke = true
	}
}

// advance moves the cursor to an Output. It comes before the Output is written, so that one commit has both: a crash
// between two commits would make the Agent repeat, or lose, what lies between them.
func (u *upstream) advance(o Output) {
	if o.Cursor != "" {
		u.cursor = o.Cursor
	}
}

// stamp adds the cursor to an Entry, and the Agent's resumability once it is known. After the commit the committer acknowledges
// the cursor to the Agent, even if the Entry is otherwise empty. The Agent may then forget everything up to it.
//
// The next commit gets the cursor, even an entry without events, because an Agent that numbers its frames keeps each until it
// is acknowledged.
func (u *upstream) stamp(e eventlog.Entry) eventlog.Entry {
	// The next commit, whichever it is, records that the Agent can be called again. A kill before that commit leaves an Agent
	// that cannot be; only the registration and the flag are known from the start.
	if !u.resumable && u.reader != nil && isResumable(u.reader.upstream()) {
		u.resumable = true
		e.Moves = append(slices.Clip(e.Moves), store.TurnMove{ID: u.turnID, Resumable: true})
	}
	if u.cursor == "" {
		return e
	}
	e.Cursor = u.cursor
	if acks, cursor := u.acks, u.cursor; acks != nil {
		e.Kept = func() { acks.Acked(cursor) }
	}
	u.cursor = ""
	return e
}
