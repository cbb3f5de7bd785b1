package acpgateway

import "sync"

// course is what other goroutines than the Turn's own decide about it, and what the Turn's decides for them: a cancel, a
// decision and a pause arrive while the Turn waits for a frame. Each step is one under the lock, so that a cancel which
// comes while the prompt's name is just read from a frame either finds the name or is found by the Turn's next step.
type course struct {
	mu       sync.Mutex
	prompt   string // whose result ends the Turn; "" while that is not known: a Turn that was not prompted reads what comes
	stopped  bool   // the Turn was cancelled
	runEnded bool   // since the last step: a Run has ended
}

// follow names the prompt, unless one is named. The first one wins: results of earlier prompts must not end this Turn.
func (co *course) follow(prompt string) {
	co.mu.Lock()
	defer co.mu.Unlock()
	if co.prompt == "" {
		co.prompt = prompt
	}
}

// following is the prompt that the Turn follows, "" for none.
func (co *course) following() string {
	co.mu.Lock()
	defer co.mu.Unlock()
	return co.prompt
}

// stop notes the cancel, and returns the prompt that the agent has to be sent it for.
func (co *course) stop() (prompt string) {
	co.mu.Lock()
	defer co.mu.Unlock()
	co.stopped = true
	return co.prompt
}

func (co *course) isStopped() bool {
	co.mu.Lock()
	defer co.mu.Unlock()
	return co.stopped
}

// endRun notes that a Run has ended.
func (co *course) endRun() {
	co.mu.Lock()
	defer co.mu.Unlock()
	co.runEnded = true
}

// takeRunEnded reports, once, that a Run has ended: the translator then knows that what it had open is closed.
func (co *course) takeRunEnded() bool {
	co.mu.Lock()
	defer co.mu.Unlock()
	ended := co.runEnded
	co.runEnded = false
	return ended
}
