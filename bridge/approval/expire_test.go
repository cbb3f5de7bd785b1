package approval_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/internal/bubbletest"
)

// clock runs Deadlines until it is stopped and notes what expires, and when.
type clock struct {
	*approval.Deadlines
	begun time.Time
	mu    sync.Mutex
	fired []string
	stop  func()
}

func startClock(t *testing.T, armed func(*approval.Deadlines)) *clock {
	c := &clock{Deadlines: approval.NewDeadlines(), begun: time.Now()}
	armed(c.Deadlines)
	ctx, cancel := context.WithCancel(t.Context())
	var ran sync.WaitGroup
	ran.Go(func() {
		c.Run(ctx, func(_ context.Context, id string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.fired = append(c.fired, fmt.Sprint(id, " ", time.Since(c.begun)))
		})
	})
	c.stop = func() { cancel(); ran.Wait() }
	return c
}

func (c *clock) is(t *testing.T, want ...string) {
	t.Helper()
	bubbletest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.fired, want) {
		t.Fatalf("expired %q, want %q", c.fired, want)
	}
}

// Questions expire at their time, in the order of their times, however they were armed.
func TestDeadlines(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := startClock(t, func(d *approval.Deadlines) {
			d.Arm("late", 10*time.Minute)
			d.Arm("overdue", 0) // as after a restart
			d.Arm("soon", time.Minute)
		})
		defer c.stop()
		c.is(t, "overdue 0s")
		c.Arm("sooner", 30*time.Second) // while it sleeps for another
		time.Sleep(29 * time.Second)
		c.is(t, "overdue 0s")
		time.Sleep(2 * time.Hour)
		c.is(t, "overdue 0s", "sooner 30s", "soon 1m0s", "late 10m0s")
		c.Arm("again", time.Hour+time.Minute) // longer than it sleeps with nothing armed
		time.Sleep(2 * time.Hour)
		c.is(t, "overdue 0s", "sooner 30s", "soon 1m0s", "late 10m0s", "again 3h1m29s")
	})
}

// Arming from within an expiry, and from many at once, loses none.
func TestDeadlinesRearmed(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		d := approval.NewDeadlines()
		ctx, cancel := context.WithCancel(t.Context())
		tries, ended := 0, 0
		var ran, arming sync.WaitGroup
		ran.Go(func() {
			d.Run(ctx, func(_ context.Context, id string) {
				if id == "retry" {
					if tries++; tries < 5 { // the store was away
						d.Arm(id, time.Second)
					}
					return
				}
				ended++
			})
		})
		d.Arm("retry", time.Second)
		for i := range 500 {
			arming.Go(func() { d.Arm(fmt.Sprint(i), time.Duration(i)*time.Millisecond) })
		}
		arming.Wait()
		time.Sleep(time.Minute)
		bubbletest.Wait()
		if tries != 5 || ended != 500 {
			t.Errorf("%d tries, %d of 500 expired", tries, ended)
		}
		cancel()
		ran.Wait()
	})
}

func TestDisarmedNeverExpires(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := startClock(t, func(d *approval.Deadlines) {
			for i, id := range []string{"a", "b", "c"} {
				d.Arm(id, time.Duration(i+1)*time.Second)
			}
		})
		defer c.stop()
		for _, id := range []string{"a", "c", "never armed"} {
			c.Disarm(id)
		}
		c.Arm("c", 5*time.Second)
		time.Sleep(4 * time.Second)
		c.is(t, "b 2s")
		time.Sleep(4 * time.Second)
		c.is(t, "b 2s", "c 5s")
	})
}
