package acpgateway

import (
	"time"

	"github.com/google/uuid"

	"aqueduct/acpgateway/acp"
)

// fate is what becomes of what an agent still says to a prompt.
type fate int

const (
	wanted   fate = iota // a Turn reads it
	orphaned             // its Turn let go of it, and may take it up again
	left                 // its Turn failed over a cut link; it opens the next Run
	unwanted             // it was cancelled, or took too long
)

// prompt is one that the agent has and has not ended.
type prompt struct {
	fate  fate
	since time.Time // it has this fate
	lived time.Time // the last update that named it; zero when none did
}

func (p *prompt) become(f fate) { p.fate, p.since = f, time.Now() }

// sent notes a prompt that is on its way to the agent.
func (t *tunnel) sent(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prompts[id] = &prompt{fate: wanted, since: time.Now()}
	t.turns.add(id)
}

// want takes up a prompt again. Whether the agent still has it will show. It is inherited when this process did not send
// it, or knows nothing of it any more.
func (t *tunnel) want(id string) (inherited bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.prompts[id]; p != nil {
		p.become(wanted)
		return false
	}
	if t.results.has(id) {
		return false // it has ended; the result waits in the queue
	}
	t.prompts[id] = &prompt{fate: wanted, since: time.Now()}
	t.turns.add(id)
	return true
}

// leave lets a prompt go on without its Turn.
func (t *tunnel) leave(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.prompts[id]; p != nil {
		p.become(left)
	}
}

// lives notes that the agent works on a prompt. A run's prompts are worked on one after the other, so those that were
// given up before it have ended, whether or not their results arrived.
func (t *tunnel) lives(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.prompts[id]
	if p == nil {
		return
	}
	p.lived = time.Now()
	if p.fate == wanted {
		t.dropLeft(id)
	}
}

// dropLeft removes the prompts that a failed Turn left behind, except one. The lock is held.
func (t *tunnel) dropLeft(except string) {
	for id, p := range t.prompts {
		if id != except && p.fate == left {
			delete(t.prompts, id)
		}
	}
}

// abandoned lists the left prompts whose agent can no longer be at work on them: the link is back, and nothing has named
// the prompt for as long as a cut may last, or the proxy does not list it. The result was lost with the link, and a proxy
// that does not count its frames never repeats it. Without this a prompt would keep its seat until the server restarts.
func (t *tunnel) abandoned(now time.Time) (ids []string) {
	online, _ := t.p.status()
	if !online || t.asking() {
		return nil
	}
	patience, counts := t.g.cfg.Limits.Grace, t.p.counts()
	if counts {
		patience = adoptWait
	}
	for _, id := range t.leftSince(now.Add(-patience)) {
		if !counts || !t.p.has(t.id, id) { // the result of one that is listed will come
			ids = append(ids, id)
		}
	}
	return ids
}

// leftSince lists the left prompts that nothing has named since the link came back, which is before a time.
func (t *tunnel) leftSince(before time.Time) (ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, p := range t.prompts {
		if p.fate == left && p.since.Before(before) && t.linkAt.Before(before) && p.lived.Before(t.linkAt) {
			ids = append(ids, id)
		}
	}
	return ids
}

// abandon ends a left prompt here. If the agent is at it all the same, session_cancel stops it; but not while another
// prompt is under way in the same session, which that would stop instead.
func (t *tunnel) abandon(id string) {
	t.mu.Lock()
	delete(t.prompts, id)
	t.used = time.Now()
	session, alone := t.session, len(t.prompts) == 0
	if alone {
		t.dropped.add(id)
	}
	t.mu.Unlock()
	if alone {
		t.p.send(t.id, &acp.SessionCancel{RunID: t.id, ControlID: cancelPrefix + uuid.NewString(), SessionID: session})
	}
}

// forget drops a prompt that the agent does not have.
func (t *tunnel) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.prompts, id)
}

// cancelPrefix begins the ids of cancels, whose results nobody waits for.
const cancelPrefix = "cancel-"

// cancel stops a prompt: session_cancel, then every open permission request answered
// cancelled, in this order: the other way round an agent may go on with the turn. If it does
// not end then, sweep closes the agent.
func (t *tunnel) cancel(id string) {
	t.mu.Lock()
	t.dropped.add(id)
	p := t.prompts[id]
	if p == nil {
		t.mu.Unlock()
		return
	}
	p.become(unwanted)
	session := t.session
	t.mu.Unlock()
	t.p.send(t.id, &acp.SessionCancel{RunID: t.id, ControlID: cancelPrefix + uuid.NewString(), SessionID: session})
	t.declineAll()
}

// cancelOthers stops what earlier Turns let go of, before a new one begins.
func (t *tunnel) cancelOthers(id string) {
	t.mu.Lock()
	var others []string
	for other, p := range t.prompts {
		if other != id && p.fate == orphaned {
			others = append(others, other)
		}
	}
	t.mu.Unlock()
	for _, other := range others {
		t.cancel(other)
	}
}

// stopping says whether the agent is to end a prompt that nobody wants any more. Another
// would wait behind it, and be lost if the agent is closed over it, or has been.
func (t *tunnel) stopping() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.prompts {
		if p.fate == unwanted {
			return true
		}
	}
	return !t.closing.IsZero()
}

// recent remembers the last few ids.
type recent struct{ ids []string }

// maxRecent is how many; a late update names a prompt that has just ended.
const maxRecent = 32

func (r *recent) add(id string) {
	if r.has(id) {
		return
	}
	if r.ids = append(r.ids, id); len(r.ids) > maxRecent {
		r.ids = append([]string(nil), r.ids[1:]...)
	}
}

func (r *recent) has(id string) bool {
	for _, known := range r.ids {
		if known == id {
			return true
		}
	}
	return false
}
