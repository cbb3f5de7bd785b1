package acpgateway

import (
	"context"
	"sync"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/bridge"
	"aqueduct/bridge/fromacp"
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

// quietEnd is how long an agent that spoke by itself must say nothing until that is a Run.
const quietEnd = 2 * time.Second

// argumentsQuiet is how long an agent must say nothing of its tool calls until what it said of
// their arguments is taken for all of them: some send them in parts.
const argumentsQuiet = 250 * time.Millisecond

// stateEnd is the same where all that came is of the session's state.
const stateEnd = 200 * time.Millisecond

// turn is a Turn of the bridge's: it reads one tunnel. Next's goroutine alone uses what is
// not behind mu.
type turn struct {
	t     *tunnel
	call  bridge.Call
	phase phase

	first   []fromacp.Out // to be told before anything else
	began   time.Time
	opensAt time.Time // acp_open was sent
	heard   time.Time // of the agent or its proxy, last
	lived   time.Time // the agent showed that it has the prompt, last
	from    int64     // frames up to this one came before its prompt; 0 when it was taken up again
	sentAt  time.Time // the prompt was sent
	spoke   time.Time // the agent said something, last
	noticed bool      // the chat has heard of its silence
	console string    // the newest line of its console
	worded  bool      // more was said than the session's state
	calling time.Time // something was said of a tool call, last
	exit    *acp.Exit
	exitAt  time.Time
	last    mark // of the newest frame that was read; of the log, before one was
	skip    mark // what the log has of this upstream already
	// inherited: the prompt is from before this process, so that only what the proxy and the log say tells whether its
	// agent still lives.
	inherited bool
	silent    time.Time // since the link is back, or the Turn was taken up again, nothing has come

	mu      sync.Mutex
	follow  string        // the prompt whose result ends this Turn; "" while that is not known
	clock   time.Time     // the prompt's time runs since
	spent   time.Duration // and ran before
	resumed time.Time     // a question was answered, last
	stopped bool          // Cancel was called
	parted  bool          // since the last step: a Run has ended
}

func newTurn(t *tunnel, call bridge.Call) *turn {
	now := time.Now()
	return &turn{t: t, call: call, began: now, heard: now, lived: now}
}

// Next implements bridge.Turn.
func (r *turn) Next(ctx context.Context) ([]bridge.Output, error) {
	for {
		if out := r.step(); len(out) > 0 {
			return out, nil
		}
		timer := time.NewTimer(r.wait(time.Now()))
		select {
		case <-r.t.bell:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

// Answer implements bridge.Turn.
func (r *turn) Answer(_ context.Context, a bridge.Answer) error {
	if a.Kind != bridge.AskPermission && a.Kind != bridge.AskInput {
		return bridge.ErrCannotResume
	}
	r.resumeClock()
	return r.t.answer(a)
}

// Cancel implements bridge.Turn: the agent is told, and Next ends at once with what was open
// told as cancelled. What the agent still says goes on record only.
func (r *turn) Cancel(context.Context) error {
	r.mu.Lock()
	r.stopped = true
	follow := r.follow
	r.mu.Unlock()
	if follow != "" { // words that belong to no prompt leave nothing to cancel
		r.t.cancel(follow)
	}
	r.t.ring()
	return nil
}

// Pause implements bridge.Pauser: with a Question open, the Run that was open has ended.
func (r *turn) Pause(paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parted = r.parted || paused
}

// hasParted says, once, that a Run has ended.
func (r *turn) hasParted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	parted := r.parted
	r.parted = false
	return parted
}

// Release implements bridge.Turn.
func (r *turn) Release() { r.t.detach(r) }

// Kept implements bridge.Marker: the proxy may forget what is kept here.
func (r *turn) Kept(text string) {
	m := parseMark(text)
	current := m.epoch == r.t.p.epoch()
	r.t.mu.Lock()
	if current { // the numbers of a proxy begin anew with it
		r.t.kept = max(r.t.kept, m.seq)
	}
	hints := r.t.takeHints(m.at)
	r.t.mu.Unlock()
	r.t.p.ack(r.t.id, m.epoch, m.seq)
	r.t.g.tell(r.t.owner, hints)
}

// startClock and pauseClock are of the prompt's time, which stands still while a person is
// asked.
func (r *turn) startClock() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = time.Now()
}

func (r *turn) pauseClock() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.clock.IsZero() {
		r.spent += time.Since(r.clock)
		r.clock = time.Time{}
	}
}

func (r *turn) resumeClock() {
	if r.t.asking() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumed = time.Now()
	if r.clock.IsZero() {
		r.clock = r.resumed
	}
}

// remaining is what is left of the prompt's time; false while it stands still.
func (r *turn) remaining() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clock.IsZero() {
		return 0, false
	}
	return r.t.g.cfg.Limits.Prompt - r.spent - time.Since(r.clock), true
}

func (r *turn) wasStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

func (r *turn) following() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.follow
}

// followed names the prompt to follow, if none is named yet.
func (r *turn) followed(prompt string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.follow == "" {
		r.follow = prompt
	}
}
