// Package costtest judges what work costs without a clock of the machine's speed: by ratios that are measured in one run.
package costtest

import (
	"testing"
	"time"
)

const (
	// tries is how often a ratio is measured; the best counts, since others may use the machine.
	tries = 3
	// more is how many times as large the large work is.
	more = 4
	// most is what the large work may cost, in times of the small: a cost that grows with the size gives more, one that
	// grows with its square more*more.
	most = 8
)

// Grows fails when the cost of f grows faster than its size: f(4n) may take at most eight times as long as f(n). n is to be
// large enough for some milliseconds.
func Grows(t *testing.T, what string, n int, f func(n int)) {
	t.Helper()
	AtMost(t, what, most, func() time.Duration { return took(f, more*n) }, func() time.Duration { return took(f, n) })
}

// AtMost fails when f takes more than times as long as unit does, both by what they measure themselves.
func AtMost(t *testing.T, what string, times float64, f, unit func() time.Duration) {
	t.Helper()
	if ratio := least(times, f, unit); ratio > times {
		t.Errorf("%s takes %.1f times as long; want at most %.0f", what, ratio, times)
	}
}

// least is the smallest ratio of several tries, of which those behind the first that is small enough are left out.
func least(enough float64, f, unit func() time.Duration) float64 {
	best := float64(0)
	for try := range tries {
		one := max(unit(), time.Microsecond)
		if ratio := float64(f()) / float64(one); try == 0 || ratio < best {
			best = ratio
		}
		if best <= enough {
			break
		}
	}
	return best
}

func took(f func(int), n int) time.Duration {
	began := time.Now()
	f(n)
	return time.Since(began)
}
