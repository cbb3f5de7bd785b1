package costtest

import (
	"testing"
	"time"
)

// A cost that grows with the square is found, one that grows with the size is not.
func TestLeast(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cost  func(n int) int
		found bool
	}{
		"constant": {func(int) int { return 1 }, false},
		"linear":   {func(n int) int { return n }, false},
		"square":   {func(n int) int { return n * n }, true},
	} {
		span := func(n int) func() time.Duration {
			return func() time.Duration { return time.Duration(c.cost(n)) * time.Millisecond }
		}
		if ratio := least(most, span(more*3), span(3)); ratio > most != c.found {
			t.Errorf("%s: %.1f", name, ratio)
		}
	}
}

// The best of the tries counts.
func TestLeastOfTries(t *testing.T) {
	t.Parallel()
	noise := []time.Duration{40 * time.Second, 30 * time.Second, 2 * time.Second, time.Second}
	f := func() time.Duration {
		d := noise[0]
		noise = noise[1:]
		return d
	}
	if ratio := least(5, f, func() time.Duration { return time.Second }); ratio != 2 || len(noise) != 1 {
		t.Errorf("%.1f, %d tries left", ratio, len(noise))
	}
}
