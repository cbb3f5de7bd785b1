package proxy

import (
	"testing"
	"time"

	"aqueduct/internal/bubbletest"
)

// TestThePromptsTimeStandsStillWhileAPersonIsAsked, however many questions are open.
func TestThePromptsTimeStandsStillWhileAPersonIsAsked(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		began := time.Now()
		over := make(chan time.Duration, 1)
		c := newClock(time.Minute, func() { over <- time.Since(began) })
		time.Sleep(20 * time.Second)
		c.pause()
		time.Sleep(time.Hour)
		c.pause()
		c.resume()
		time.Sleep(time.Hour)
		c.resume()
		if took := <-over; took != 2*time.Hour+time.Minute {
			t.Errorf("it was over after %s", took)
		}
		c.stop()
	})
}

func TestAStoppedClockStaysStopped(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		c := newClock(time.Minute, func() { t.Error("it ran out") })
		c.pause()
		c.stop()
		c.resume()
		time.Sleep(time.Hour)
	})
}
