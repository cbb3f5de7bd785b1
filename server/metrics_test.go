package server_test

import (
	"errors"
	"strings"
	"testing"

	"aqueduct/store"
)

// TestMetrics: the names dashboards are built on.
func TestMetrics(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	h := newEnv(t, waits(gate))
	r := h.open(h.prompt("T", "R", "hi"))
	if _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	if page := h.do("GET", "/metrics", "").body; !strings.Contains(page, "aqueduct_open_streams 1\n") {
		t.Error("the open stream is not counted")
	}
	close(gate)
	r.rest()
	<-h.ended
	page := h.do("GET", "/metrics", "").body
	for _, line := range []string{
		`aqueduct_runs_total{outcome="`, `aqueduct_open_streams 0`, `aqueduct_streams_total{outcome="ended"} 1`,
		`aqueduct_first_token_seconds_count 1`, `aqueduct_append_to_client_seconds_bucket{le="`,
		`aqueduct_commit_seconds_count `, `aqueduct_commit_size_bucket{unit="events",le="`, `aqueduct_commit_size_sum{unit="bytes"} `,
		`go_goroutines `,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("%s is missing", line)
		}
	}
}

// TestReady asks the database, but not for everybody who asks.
func TestReady(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	if got := newEnv(t, saysN(1)).do("GET", "/readyz", ""); got.status != 200 || got.body != `{"status":"ok"}`+"\n" {
		t.Errorf("a server that is well: %d %s", got.status, got.body)
	}
	asked := 0
	h.faults.ping = func() error {
		asked++
		return errors.Join(store.ErrUnavailable, errors.New("dsn=secret"))
	}
	for range 20 {
		if got := h.do("GET", "/readyz", ""); got.status != 503 || strings.Contains(got.body, "secret") {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	if asked > 5 {
		t.Errorf("asked %d times", asked)
	}
	if got := h.do("GET", "/healthz", ""); got.status != 200 {
		t.Errorf("healthz: %d", got.status)
	}
}
