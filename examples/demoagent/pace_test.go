package demoagent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/examples/demoagent"
	"aqueduct/internal/bubbletest"
)

// TestPace: each delta and thought is followed by one pause, and only those.
func TestPace(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		begin := time.Now()
		frames := invoke(t, demoagent.Options{Pace: 20 * time.Millisecond}, prompt("think"))
		n := len(named(frames, "delta")) + len(named(frames, "thought"))
		if took, want := time.Since(begin), time.Duration(n)*20*time.Millisecond; took != want {
			t.Errorf("%d pieces took %v, want %v", n, took, want)
		}
	})
}

func TestSlowTakesAMinute(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		begin := time.Now()
		frames := invoke(t, demoagent.Default(), prompt("slow"))
		if n := len(named(frames, "delta")); n != 60 || time.Since(begin) != time.Minute {
			t.Errorf("%d deltas in %v", n, time.Since(begin))
		}
	})
}

// TestSlowStopsWhenTheCallerGoes: an agent that writes to a closed connection still costs something.
func TestSlowStopsWhenTheCallerGoes(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		begin := time.Now()
		frames := invokeCtx(t, ctx, demoagent.Default(), prompt("slow"))
		if got := kinds(frames); got != "delta" || len(frames) != 5 || time.Since(begin) != 4500*time.Millisecond {
			t.Errorf("%d frames (%s) in %v", len(frames), got, time.Since(begin))
		}
	})
}

// TestFlood: the deltas are numbered, so that a missing or doubled one shows.
func TestFlood(t *testing.T) {
	for arg, want := range map[string]int{"": 200, " 3": 3, " 1000": 1000, " 0": 200, " -5": 200, " many": 200} {
		var b strings.Builder
		for i := 1; i <= want; i++ {
			fmt.Fprintf(&b, "%d ", i)
		}
		frames := invoke(t, demoagent.Default(), prompt("flood"+arg))
		if got := text(frames, "delta"); got != b.String() {
			t.Errorf("flood%s: %d bytes, want %d", arg, len(got), b.Len())
		}
		if len(frames) != want+1 {
			t.Errorf("flood%s: %d frames", arg, len(frames))
		}
	}
}

func TestFloodIsBounded(t *testing.T) {
	frames := invoke(t, fast, prompt("flood 99999999"))
	if n := len(frames) - 1; n != 1_000_000 {
		t.Errorf("%d deltas", n)
	}
}

func TestFloodStopsWhenTheCallerGoes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if frames := invokeCtx(t, ctx, fast, prompt("flood 100000")); len(frames) > 1000 {
		t.Errorf("%d frames for nobody", len(frames))
	}
}
