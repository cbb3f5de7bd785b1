package storetest

import (
	"context"
	"math/rand/v2"
	"os"
	"sync/atomic"

	"aqueduct/store"
	"aqueduct/store/broker/local"
)

// LossyEnv names the environment variable that makes Broker lossy: "make test" sets it for the
// tests of the rooms. The tests that start the program run with every ring.
const LossyEnv = "AQUEDUCT_TEST_LOSSY"

// Broker is what a test's replicas ring each other with: the local broker, and where LossyEnv is
// set one that loses half of the rings.
func Broker() store.Broker {
	if os.Getenv(LossyEnv) == "" {
		return local.New()
	}
	return LossyBroker(local.New(), 1)
}

// LossyBroker is a Broker that loses half of the rings, to run other tests with: whatever
// relies on a ring fails with it, and what polls is only slower. Each listener loses its own
// half, as replicas on a network would. Which of its rings a listener loses depends on seed
// and on how many listeners were there before it, and on nothing else.
func LossyBroker(b store.Broker, seed uint64) store.Broker {
	return &lossyBroker{Broker: b, seed: seed}
}

type lossyBroker struct {
	store.Broker
	seed      uint64
	listeners atomic.Uint64
}

// Listen implements store.Broker.
func (b *lossyBroker) Listen(ctx context.Context, onRing func(sessionID string)) error {
	coin := rand.New(rand.NewPCG(b.seed, b.listeners.Add(1))) // one goroutine at a time, as onRing
	return b.Broker.Listen(ctx, func(id string) {
		if coin.IntN(2) == 0 {
			onRing(id)
		}
	})
}
