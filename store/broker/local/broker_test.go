package local_test

import (
	"context"
	"fmt"
	"testing"

	"aqueduct/internal/bubbletest"
	"aqueduct/store"
	"aqueduct/store/broker/local"
	"aqueduct/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.RunBroker(t, func(*testing.T) (store.Broker, store.Broker) {
		b := local.New()
		return b, b
	})
}

// Rings arrive in their order, at every listener; two of one Session that wait are one.
func TestRing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := local.New()
		ctx, cancel := context.WithCancel(t.Context())
		b.Ring(ctx, "before any listener")
		var first, second []string
		ended := make(chan error, 2)
		go func() { ended <- b.Listen(ctx, func(id string) { first = append(first, id) }) }()
		go func() { ended <- b.Listen(ctx, func(id string) { second = append(second, id) }) }()
		bubbletest.Wait()
		b.Ring(ctx, "a", "b", "a")
		bubbletest.Wait()
		b.Ring(ctx, "a")
		bubbletest.Wait()
		for _, heard := range [][]string{first, second} {
			if fmt.Sprint(heard) != "[a b a]" {
				t.Errorf("heard %v", heard)
			}
		}
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		b.Ring(ctx, "after all listeners")
	})
}

// A listener that hangs loses rings of its own only, and holds a bounded number.
func TestSlowListener(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := local.New()
		ctx, cancel := context.WithCancel(t.Context())
		hang, heard := make(chan struct{}), 0
		ended := make(chan error, 1)
		go func() { ended <- b.Listen(ctx, func(string) { <-hang; heard++ }) }()
		bubbletest.Wait()
		b.Ring(ctx, "first")
		bubbletest.Wait() // it hangs with this one
		for i := range 10_000 {
			b.Ring(ctx, fmt.Sprint(i))
		}
		close(hang)
		bubbletest.Wait()
		if heard != 1+4096 {
			t.Errorf("heard %d", heard)
		}
		cancel()
		<-ended
	})
}
