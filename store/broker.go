package store

import "context"

// Broker rings bells: "something about this Session has changed, look". A ring carries no
// data: the log and the rows are the truth. Rings may be lost, doubled, merged or early, but
// not invented, and everything that waits for one also polls slowly.
type Broker interface {
	// Ring sends a ring for each Session to every listener of every replica. It never blocks on
	// a listener.
	Ring(ctx context.Context, sessionIDs ...string)
	// Listen calls onRing, one call at a time, for the rings that arrive until ctx ends; then it
	// returns nil. After it has returned onRing is not called any more. onRing must be quick: a
	// listener that falls behind loses rings, but delays neither Ring nor other listeners. It may
	// call Ring itself.
	Listen(ctx context.Context, onRing func(sessionID string)) error
}
