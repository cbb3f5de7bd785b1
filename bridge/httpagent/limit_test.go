package httpagent

import (
	"testing"
	"time"

	"aqueduct/internal/bubbletest"
	"aqueduct/internal/fault"
)

// TestLimitsStandStillWhileParked, both of them, and go on where they stood.
func TestLimitsStandStillWhileParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits Limits
		code   string
		after  time.Duration
	}{
		"idle":  {Limits{FirstByte: time.Minute, Idle: time.Minute, Total: time.Hour}, CodeIdle, 30*time.Second + 2*time.Hour + time.Minute},
		"total": {Limits{FirstByte: 2 * time.Hour, Idle: 2 * time.Hour, Total: time.Hour}, CodeTotal, time.Hour + 2*time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				began := time.Now()
				ended := make(chan string, 1)
				var after time.Duration
				w := newLimiter(c.limits, func(f *fault.Error) {
					after = time.Since(began)
					ended <- f.Code
				})
				time.Sleep(30 * time.Second)
				w.pause(true)
				time.Sleep(2 * time.Hour)
				w.received() // what comes while parked starts nothing
				w.pause(false)
				if code := <-ended; code != c.code || after != c.after {
					t.Errorf("%s after %s", code, after)
				}
				w.stop()
			})
		})
	}
}
