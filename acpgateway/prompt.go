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
}

func (p *prompt) become(f fate) { p.fate, p.since = f, time.Now() }

// sent notes a prompt that is on its way to the agent.
func (t *tunnel) sent(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prompts[id] = &prompt{fate: wanted, since: time.Now()}
	t.turns.add(id)
}

// want takes up a prompt again. Whether the agent still has it will show.
func (t *tunnel) want(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.prompts[id]; p != nil {
		p.become(wanted)
		return
	}
	t.prompts[id] = &prompt{fate: wanted, since: time.Now()} // from before a restart
	t.turns.add(id)
}

// leave lets a prompt go on without its Turn.
func (t *tunnel) leave(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.prompts[id]; p != nil {
		p.become(left)
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
