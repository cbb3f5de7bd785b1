// Package wake holds the one wake-up signal between goroutines: a channel of one slot, so that rings during a look are
// never lost and never queue.
package wake

// Signal wakes one goroutine. Any number of rings before it looks are one. The zero Signal cannot be used.
type Signal chan struct{}

// New makes a Signal that has not rung.
func New() Signal { return make(Signal, 1) }

// Ring wakes the receiver, or leaves the ring that is already waiting. It never blocks.
func (s Signal) Ring() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Clear takes back a ring that nothing has received yet.
func (s Signal) Clear() {
	select {
	case <-s:
	default:
	}
}
