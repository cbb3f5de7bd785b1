package local_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

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
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		ctx, cancel := context.WithCancel(t.Context())
		b.Ring(ctx, "before any listener")
		var first, second []string
		ended := make(chan error, 2)
		go func() { ended <- b.Listen(ctx, func(id string) { first = append(first, id) }) }()
		go func() { ended <- b.Listen(ctx, func(id string) { second = append(second, id) }) }()
		synctest.Wait()
		b.Ring(ctx, "a", "b", "a")
		synctest.Wait()
		b.Ring(ctx, "a")
		synctest.Wait()
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
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		ctx, cancel := context.WithCancel(t.Context())
		hang, heard := make(chan struct{}), 0
		ended := make(chan error, 1)
		go func() { ended <- b.Listen(ctx, func(string) { <-hang; heard++ }) }()
		synctest.Wait()
		b.Ring(ctx, "first")
		synctest.Wait() // it hangs with this one
		for i := range 10_000 {
			b.Ring(ctx, fmt.Sprint(i))
		}
		close(hang)
		synctest.Wait()
		if heard != 1+4096 {
			t.Errorf("heard %d", heard)
		}
		cancel()
		<-ended
	})
}
