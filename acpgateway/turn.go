package acpgateway

import (
	"context"
	"time"

	"aqueduct/acpgateway/translate"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// phase is how far a Turn is.
type phase int

const (
	waiting   phase = iota // the agent is still to end a prompt that was cancelled
	opening                // acp_open is on its way
	prompting              // the agent has the prompt
	adopting               // it may have it, from before
	ended
)

// quietEnd is how long an agent must be silent until its output that belongs to no prompt ends as a Run.
const quietEnd = 2 * time.Second

// argumentsQuiet is how long no update of a tool call must come until its arguments are taken as complete: some agents
// send them in parts.
const argumentsQuiet = 250 * time.Millisecond

// stateEnd is the same where all that came is of the session's state.
const stateEnd = 200 * time.Millisecond

// What a turn can do beyond bridge.Turn the bridge finds out by type assertion.
var (
	_ bridge.Acknowledger = (*turn)(nil)
	_ bridge.Answerer     = (*turn)(nil)
	_ bridge.Pauser       = (*turn)(nil)
)

// turn is a Turn of the bridge: it reads one channel. The goroutine that calls Next alone uses its fields, but for course
// and clock, which have locks of their own: a decision, a cancel and a pause come from other goroutines while Next waits.
//
// What it does stands in three files: turn.go is what the engine calls, process.go goes from frames to Outputs, endings.go
// ends the Turn where no result of its prompt does. What it decides from are parts: activity (when the agent last sent
// what), clock (the time that the prompt has used), course (what was decided about the Turn from outside), ending (how the
// agent's process ended) and timeouts, which are computed from a copy of all of them.
type turn struct {
	channel *channel
	call    bridge.Call
	phase   phase

	first   []translate.Out // emitted before anything else
	began   time.Time
	opensAt time.Time // acp_open was sent
	from    int64     // frames up to this one came before its prompt; 0 when it was taken up again
	ending  processEnd
	last    mark // of the newest frame that was read; of the log, before one was
	skip    mark // what the log has of this upstream already
	// inherited: the prompt is from before this process, so that only the proxy and the log show whether its
	// agent still lives.
	inherited bool

	activity activity
	clock    promptClock
	course   course
}

func newTurn(c *channel, call bridge.Call) *turn {
	now := time.Now()
	return &turn{channel: c, call: call, began: now, activity: activity{lastFrame: now, lastProof: now}}
}

// Next implements bridge.Turn.
func (t *turn) Next(ctx context.Context) ([]bridge.Output, error) {
	for {
		if out := t.process(); len(out) > 0 {
			return out, nil
		}
		if hasMoved(t.channel.p) {
			return nil, bridge.ErrMoved
		}
		due := t.timeouts()
		timer := time.NewTimer(due.wait(time.Now()))
		select {
		case <-t.channel.bell:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

// Answer implements bridge.Turn.
func (t *turn) Answer(_ context.Context, a approval.Delivery) error {
	if a.Kind != approval.AskPermission && a.Kind != approval.AskInput {
		return bridge.ErrCannotResume
	}
	t.resumeClock()
	key, ok := parseKey(a.UpstreamID)
	if !ok {
		return bridge.ErrCannotResume
	}
	if t.channel.permissions.answered(a) {
		t.channel.p.send(t.channel.id, key.answer(t.channel.id, a))
	}
	return nil
}

// Cancel implements bridge.Turn: the agent is sent the cancel, and Next ends at once with what was open emitted as
// cancelled. The agent's later output goes on record only.
func (t *turn) Cancel(context.Context) error {
	if follow := t.course.stop(); follow != "" { // words that belong to no prompt leave nothing to cancel
		t.channel.cancel(follow)
	}
	t.channel.bell.Ring()
	return nil
}

// Pause implements bridge.Pauser: with a Question open, the Run that was open has ended.
func (t *turn) Pause(paused bool) {
	if paused {
		t.course.endRun()
	}
}

// Release implements bridge.Turn.
func (t *turn) Release() { t.channel.detach(t) }

// Acked implements bridge.Acknowledger: the proxy may forget what is kept here.
func (t *turn) Acked(text string) {
	m, c := parseMark(text), t.channel
	hints := c.queue.ack(m, m.epoch == c.p.offered().Epoch)
	c.p.ack(c.id, m.epoch, m.seq)
	c.hints.publish(hints)
}

// resumeClock lets the prompt's time run again, unless another question is open.
func (t *turn) resumeClock() {
	if !t.channel.permissions.any() {
		t.clock.resume()
	}
}

// timeouts copies what the Turn's timeouts depend on.
func (t *turn) timeouts() timeouts {
	c, p := t.channel, t.channel.p
	follow := t.course.following()
	v := timeouts{
		limits: c.g.cfg.Limits, open: c.g.cfg.Limits.Open, phase: t.phase, began: t.began, opensAt: t.opensAt,
		counts: p.offered().Seq, asking: c.permissions.any(), own: t.call.Unprompted && follow == "", exitAt: t.ending.at, activity: t.activity,
	}
	if v.phase == opening {
		if cfg := c.config(); cfg.InitScript != "" {
			v.open = max(v.open, cfg.initTimeout()+10*time.Second)
		}
	}
	if c.tr != nil {
		v.working, v.unsaid = c.tr.Working(), c.tr.ArgumentsPending()
	}
	v.online, v.lost = p.status()
	v.listed = v.phase == adopting && p.has(c.id, follow)
	_, v.linkAt = c.times()
	v.used, v.running = t.clock.elapsed()
	v.resumed, v.unprompted = t.clock.resumedAt(), t.call.Unprompted
	return v
}
