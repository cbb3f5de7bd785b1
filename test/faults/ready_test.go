package faults_test

import (
	"testing"
	"time"
)

const (
	// readyRounds is how often a database is taken away from a server; readyAsked is how often it is asked meanwhile.
	readyRounds = 2
	readyAsked  = 6
	// readyWithin is how long a balancer waits for an answer.
	readyWithin = time.Second
)

// TestReadyWithinASecond: a database that takes connections or statements and never answers makes the server unready, with a
// reason, within the second that balancers wait; the process still lives, and is ready again afterwards.
func TestReadyWithinASecond(t *testing.T) {
	t.Parallel()
	for kind, of := range map[string]func(t *testing.T) outage{"freeze": outages["freeze"], "answers eaten": outages["answers eaten"], "sqlite locked": locked} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			away := of(t)
			h := newServerEnv(t, away.database)
			h.until(200, "GET", "/readyz")
			for range readyRounds {
				away.begin()
				for end := time.Now().Add(readyAsked * readyWithin); time.Now().Before(end); {
					begun := time.Now()
					status, code, _ := h.refusal("GET", "/readyz", nil)
					if took := time.Since(begun); took > readyWithin {
						t.Errorf("/readyz took %v: HTTP %d", took.Round(time.Millisecond), status)
					}
					if status == 503 {
						if code != "storage_unavailable" {
							t.Errorf("not ready for %s", code)
						}
					}
					if status, _, _ := h.refusal("GET", "/healthz", nil); status != 200 {
						t.Errorf("/healthz: HTTP %d", status)
					}
				}
				if status, code, _ := h.refusal("GET", "/readyz", nil); status != 503 {
					t.Errorf("away: HTTP %d %s", status, code)
				}
				away.over()
				h.until(200, "GET", "/readyz")
			}
		})
	}
}
