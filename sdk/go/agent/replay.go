package agent

import (
	"slices"
	"sync"
)

// replay holds back output that people have read already. When Aqueduct was restarted while a tool call waited for a person,
// the function runs again from its start. The lost call has sent the output before that tool call.
type replay struct {
	mu    sync.Mutex
	calls []string // keys of the calls that waited; nil when one of them was made, and from the start of any other run
	held  []byte
}

// holds keeps a frame that must not be sent now. It returns false if the frame is new.
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

// letGo returns the frames that were held back, for a function that took another way than before.
func (r *replay) letGo() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held
	r.calls, r.held = nil, nil
	return held
}
