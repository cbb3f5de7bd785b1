package proxy

import (
	"sync"

	"aqueduct/acpgateway/wire"
)

// prompt is one prompt_send on its way. All members but id belong to the mutex of prompts.
type prompt struct {
	id        string
	session   string // empty until it is known
	sent      bool   // the agent has it
	answered  bool   // the agent has ended it
	cancelled bool
	clock     *clock // nil before it begins
}

// remembered is how many results a run keeps for prompts that are sent twice.
const remembered = 32

// prompts are the prompts of one run: the one under way, those that wait, and the last results. The run's goroutine
// moves a prompt on, while the agent's reader and the gateway's controls read and cancel it: mu is for all of it.
//
// What belongs to a prompt is decided by time: an update is of the prompt that is active and has not been answered, in
// its session. ACP's updates do not name one.
type prompts struct {
	mu      sync.Mutex
	active  *prompt
	waiting []*prompt
	results []*wire.PromptResult // the last ones, for a prompt that is sent twice
}

// admit records a prompt, or returns what is known of it.
func (ps *prompts) admit(one *prompt) (*wire.PromptResult, bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, result := range ps.results {
		if result.PromptID == one.id {
			return result, true
		}
	}
	if ps.active != nil && ps.active.id == one.id {
		return nil, true
	}
	for _, w := range ps.waiting {
		if w.id == one.id {
			return nil, true
		}
	}
	ps.waiting = append(ps.waiting, one)
	return nil, false
}

// begin moves a prompt from those that wait to the one under way. From here updates in its session are its.
func (ps *prompts) begin(one *prompt) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.dequeue(one)
	ps.active = one
}

func (ps *prompts) dequeue(one *prompt) {
	for i, w := range ps.waiting {
		if w == one {
			ps.waiting = append(ps.waiting[:i:i], ps.waiting[i+1:]...)
			return
		}
	}
}

// finish keeps a prompt's result and frees its place. It comes before the result is sent: a gateway that repeats the
// prompt in between gets this result, and not a second run of it.
func (ps *prompts) finish(one *prompt, result *wire.PromptResult) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.dequeue(one)
	if ps.active == one {
		ps.active = nil
	}
	if ps.results = append(ps.results, result); len(ps.results) > remembered {
		// Copied, or the array would keep what has left at its front.
		ps.results = append([]*wire.PromptResult(nil), ps.results[1:]...)
	}
}

// timed gives a prompt its clock.
func (ps *prompts) timed(one *prompt, c *clock) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	one.clock = c
}

// enter notes the session that a prompt is about to be sent in. True when the prompt is cancelled already.
func (ps *prompts) enter(one *prompt, session string) (cancelled bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	one.session, one.answered = session, false
	return one.cancelled
}

// written notes that the agent has a prompt. True when it was cancelled while it was written: cancel saw it unsent
// and left it to the caller to notify the agent.
func (ps *prompts) written(one *prompt) (cancelled bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	one.sent = true
	return one.cancelled
}

// answered notes that the agent has ended a prompt: what comes after it belongs to no prompt.
func (ps *prompts) answered(one *prompt) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	one.answered = true
}

// in is the id of the prompt under way in a session; nil when there is none.
// A prompt whose session is not known yet gets the updates of any: session_created and the first settings come while
// it is being opened.
func (ps *prompts) in(session string) *string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.active == nil || ps.active.answered || ps.active.session != "" && ps.active.session != session {
		return nil
	}
	id := ps.active.id
	return &id
}

// pauseClock stops the time of the prompt under way, and returns what starts it again.
func (ps *prompts) pauseClock() func() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.active == nil || ps.active.clock == nil {
		return func() {}
	}
	c := ps.active.clock
	c.pause()
	return c.resume
}

// cancel marks the prompt under way in a session, or in any when none is named. It returns the session to notify the
// agent of, whether a prompt was marked, and whether the agent has that prompt: one that it does not have yet ends
// before it is sent, so the agent is not notified of it.
// A prompt without a session yet counts as meant by any: its cancel must not be lost while the agent starts.
func (ps *prompts) cancel(session string) (in string, marked, sent bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	one := ps.active
	if one == nil || session != "" && one.session != "" && one.session != session {
		return session, false, false
	}
	one.cancelled = true
	if session == "" {
		session = one.session
	}
	return session, true, one.sent
}

// ids are the prompt under way and those that wait, and the session of the first.
func (ps *prompts) ids() (session string, ids []string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.active != nil {
		session = ps.active.session
		ids = append(ids, ps.active.id)
	}
	for _, w := range ps.waiting {
		ids = append(ids, w.id)
	}
	return session, ids
}
