package main

import (
	"context"
	"testing"
	"time"
)

// TestRunEndsWhenAsked: it serves until its context ends, and then leaves without an error.
func TestRunEndsWhenAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"--listen", "127.0.0.1:0"}) }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it did not end")
	}
}

func TestRunRefusesWhatItCannotDo(t *testing.T) {
	for _, args := range [][]string{{"--listen", "nowhere"}, {"--no-such-flag"}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
