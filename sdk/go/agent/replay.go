package agent

import (
	"slices"
	"sync"
)

// replay holds back what people have read already. When Aqueduct was restarted while a tool call waited for a person, the
// function runs again from its top. What it writes before it makes that call was written by the lost call.
type replay struct {
	mu    sync.Mutex
	calls []string // keys of the calls that waited; nil when one of them was made, and from the start of any other run
	held  []byte
}

// holds takes a frame that is not to be sent now; it is false where the frame is news.
func (r *replay) holds(frame []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		return false
	}
	r.held = append(r.held, frame...)
	return true
}

// called notes that the function calls a tool under that key.
func (r *replay) called(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.calls, key) {
		r.calls, r.held = nil, nil
	}
}

// letGo returns what was held back, for a function that took another way than before.
func (r *replay) letGo() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held
	r.calls, r.held = nil, nil
	return held
}
