package storetest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"aqueduct/internal/bubbletest"
	"aqueduct/store"
	"aqueduct/store/broker/local"
	"aqueduct/store/storetest"
)

// A Broker that loses rings still keeps every promise of the contract.
func TestLossyBrokerIsABroker(t *testing.T) {
	storetest.RunBroker(t, func(*testing.T) (store.Broker, store.Broker) {
		b := storetest.LossyBroker(local.New(), 1)
		return b, b
	})
}

// Each listener loses about half of the rings, another half than the next one, and the same
// half again with the same seed.
func TestLossyBrokerLosesHalf(t *testing.T) {
	first, again, third := lossyRun(t, 7), lossyRun(t, 7), lossyRun(t, 8)
	for i, got := range first {
		if len(got) < 400 || len(got) > 600 {
			t.Errorf("listener %d got %d of 1000 rings", i, len(got))
		}
		if !slices.Equal(got, again[i]) {
			t.Errorf("listener %d got others with the same seed", i)
		}
		if slices.Equal(got, third[i]) {
			t.Errorf("listener %d got the same with another seed", i)
		}
	}
	if slices.Equal(first[0], first[1]) {
		t.Error("both listeners lost the same rings")
	}
}

// lossyRun is what two listeners get of a thousand rings.
func lossyRun(t *testing.T, seed uint64) (got [2][]string) {
	bubbletest.Test(t, func(t *testing.T) {
		b := storetest.LossyBroker(local.New(), seed)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, len(got))
		for i := range got {
			go func() { ended <- b.Listen(ctx, func(id string) { got[i] = append(got[i], id) }) }()
			bubbletest.Wait()
		}
		for i := range 1000 {
			b.Ring(ctx, fmt.Sprint(i))
			bubbletest.Wait()
		}
		cancel()
		for range got {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return got
}
