package acpgateway

import (
	"slices"
	"sync"
	"time"
)

// promptState is what becomes of output that the agent still sends for a prompt.
type promptState int

const (
	// An open prompt is active or detached by its Turn's coming and going; abandoned and cancelled are left only by
	// its end.
	active    promptState = iota // a Turn reads it
	detached                     // its Turn was released, and may be resumed
	abandoned                    // its Turn failed over a cut link; the output opens the next Run
	cancelled                    // it was cancelled, or took too long
)

// prompt is one that the agent has and has not ended.
type prompt struct {
	state promptState
	since time.Time // it is in this state
	named time.Time // the last update that named it; zero when none did
}

// prompts are those that one agent was given: which it still has, in which state, and the newest that ended or were
// dropped. Its lock is taken last; nothing is called with it held.
//
// ACP ends a prompt by its result alone. So a prompt that was cancelled, or whose Turn is gone, is still the agent's
// until then: it holds the slot, and the next prompt of the Session would wait behind it.
type prompts struct {
	mu      sync.Mutex
	open    map[string]*prompt // the agent has them and has not ended them
	given   recent             // the last that it was given
	ended   recent             // those of them that have ended
	dropped recent             // those of them whose output goes on record only
}

// add notes a prompt that is on its way to the agent.
func (ps *prompts) add(id string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.addLocked(id)
}

func (ps *prompts) addLocked(id string) {
	ps.open[id] = &prompt{state: active, since: time.Now()}
	ps.given.add(id)
}

// set moves an open prompt to a state; false when the agent does not have it.
func (ps *prompts) set(id string, to promptState) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.open[id]
	if p == nil {
		return false
	}
	p.state, p.since = to, time.Now()
	return true
}

// detach notes that a prompt's Turn was released. Its output waits for the Turn that resumes it; one that was abandoned
// or cancelled stays so.
func (ps *prompts) detach(id string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.open[id]; p != nil && p.state == active {
		p.state, p.since = detached, time.Now()
	}
}

// resume makes a prompt active again; later frames show whether the agent still has it. It is inherited when this
// process did not send it, or has no memory of it any more.
func (ps *prompts) resume(id string) (inherited bool) {
	if ps.set(id, active) {
		return false
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.ended.has(id) {
		return false // the result waits in the queue
	}
	ps.addLocked(id)
	return true
}

// noteUpdate notes that the agent works on a prompt. A run's prompts are worked on one after the other, so those that
// were abandoned before it have ended, whether or not their results arrived.
func (ps *prompts) noteUpdate(id string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.open[id]
	if p == nil {
		return
	}
	p.named = time.Now()
	if p.state == active {
		ps.dropAbandoned(id)
	}
}

// dropAbandoned removes the abandoned prompts, except one. The lock is held.
func (ps *prompts) dropAbandoned(except string) {
	for id, p := range ps.open {
		if id != except && p.state == abandoned {
			delete(ps.open, id)
		}
	}
}

// end notes a result; false when the prompt has ended before.
func (ps *prompts) end(id string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.ended.has(id) {
		return false
	}
	// A result may come twice, from a proxy that sends again or from an agent that answers a cancel and the prompt.
	ps.ended.add(id)
	if p := ps.open[id]; p != nil && p.state == active {
		ps.dropAbandoned(id)
	}
	delete(ps.open, id)
	return true
}

// remove forgets a prompt that the agent does not have.
func (ps *prompts) remove(id string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.open, id)
}

// removeLost forgets an abandoned prompt whose result was lost. It is alone when the agent has no other.
// When it is the only one, what the agent still sends belongs to it and is dropped; with another under way it may be
// that one's.
func (ps *prompts) removeLost(id string) (alone bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.open, id)
	if alone = len(ps.open) == 0; alone {
		ps.dropped.add(id)
	}
	return alone
}

// cancel drops a prompt's further output; false when the agent does not have the prompt, so that there is nothing to
// stop.
// It is marked as dropped before it is known whether it is open: its frames may be in the queue already.
func (ps *prompts) cancel(id string) bool {
	ps.mu.Lock()
	ps.dropped.add(id)
	ps.mu.Unlock()
	return ps.set(id, cancelled)
}

// clear forgets all open prompts: the agent's process has ended, and they with it.
func (ps *prompts) clear() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	clear(ps.open)
}

// any reports whether the agent has a prompt.
func (ps *prompts) any() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.open) > 0
}

// in lists the open prompts of a state; unless before is zero, only those that were in it before that time.
func (ps *prompts) in(state promptState, before time.Time) (ids []string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for id, p := range ps.open {
		if p.state == state && (before.IsZero() || p.since.Before(before)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// unnamedSince lists the prompts that were abandoned before a time and that no update has named since the link came
// back, which was before that time too.
// All three must be old: the failure, the link, and the last update since. A prompt that streams is at work.
func (ps *prompts) unnamedSince(linked, before time.Time) (ids []string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for id, p := range ps.open {
		if p.state == abandoned && p.since.Before(before) && linked.Before(before) && p.named.Before(linked) {
			ids = append(ids, id)
		}
	}
	return ids
}

// isDropped reports whether a prompt's output goes on record only.
func (ps *prompts) isDropped(id string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.dropped.has(id)
}

// hasEnded reports whether a prompt's result has arrived.
func (ps *prompts) hasEnded(id string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.ended.has(id)
}

// isKnown reports whether the agent was given a prompt by a Turn.
func (ps *prompts) isKnown(id string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.open[id] != nil || ps.given.has(id)
}

// recent remembers the last few ids.
// A slice that is searched, because it is short and is asked once for a frame.
type recent struct{ ids []string }

// maxRecent is how many; a late update names a prompt that has just ended.
const maxRecent = 32

func (ids *recent) add(id string) {
	if ids.has(id) {
		return
	}
	if ids.ids = append(ids.ids, id); len(ids.ids) > maxRecent {
		ids.ids = slices.Clone(ids.ids[1:])
	}
}

func (ids *recent) has(id string) bool { return slices.Contains(ids.ids, id) }
