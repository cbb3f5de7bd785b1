package store

import "context"

// Broker rings bells: "something about this Session has changed, look". Rings may be
// lost, doubled or early; nobody relies on one, a slow poll makes up for it.
type Broker interface {
	// Ring tells every listener of every replica. It never blocks on a listener.
	Ring(ctx context.Context, sessionIDs ...string)
	// Listen calls heard for every ring until ctx ends. heard must be quick.
	Listen(ctx context.Context, heard func(sessionID string)) error
}
