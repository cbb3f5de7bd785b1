package pace_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"aqueduct/internal/bubbletest"
	"aqueduct/internal/pace"
)

// TestParse reads numbers and "max", as text and as JSON, and nothing else.
func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]pace.Speed{"1": 1, "10": 10, "0.5": 0.5, "max": pace.Max} {
		if got, err := pace.Parse(text); err != nil || got != want {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for raw, want := range map[string]pace.Speed{"1": 1, "2.5": 2.5, `"max"`: pace.Max} {
		var got pace.Speed
		if err := json.Unmarshal([]byte(raw), &got); err != nil || got != want {
			t.Errorf("%s: %v %v", raw, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "0.001", "fast", "NaN", "Inf", "1e300", "Max"} {
		if got, err := pace.Parse(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
	for _, raw := range []string{`"1"`, `0`, `-1`, `true`, `{}`, `"slow"`, `max`} {
		var got pace.Speed
		if err := json.Unmarshal([]byte(raw), &got); err == nil {
			t.Errorf("%s is taken for %v", raw, got)
		}
	}
}

// TestWait waits for the pause, divided, and no longer than its context.
func TestWait(t *testing.T) {
	t.Parallel()
	for speed, want := range map[pace.Speed]time.Duration{1: time.Minute, 10: 6 * time.Second, 0.5: 2 * time.Minute, pace.Max: 0} {
		bubbletest.Test(t, func(t *testing.T) {
			began := time.Now()
			if err := speed.Wait(t.Context(), time.Minute); err != nil || time.Since(began) != want {
				t.Errorf("%v: %v %v", speed, err, time.Since(began))
			}
			if err := speed.Wait(t.Context(), -time.Minute); err != nil || time.Since(began) != want {
				t.Errorf("%v, backwards: %v %v", speed, err, time.Since(began))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := speed.Wait(ctx, time.Hour); speed != pace.Max && err == nil {
				t.Errorf("%v: waited beyond the context", speed)
			}
		})
	}
}
