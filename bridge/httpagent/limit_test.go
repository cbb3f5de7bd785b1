package httpagent

import (
	"context"
	"errors"
	"io"
	"net/http"
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

// unwired answers calls in this process, so that a bubble's clock counts for both sides. A nil answer never begins.
type unwired func(ctx context.Context, w io.Writer)

// RoundTrip implements http.RoundTripper.
func (answer unwired) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if answer == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	body, w := io.Pipe()
	context.AfterFunc(ctx, func() { body.CloseWithError(ctx.Err()) }) // as net/http does
	go answer(ctx, w)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}, nil
}

// every writes a text each second until ctx ends.
func every(text string) unwired {
	return func(ctx context.Context, w io.Writer) {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = io.WriteString(w, text) // fails when ctx has ended
			case <-ctx.Done():
				return
			}
		}
	}
}

// TestAnUpstreamThatTakesTooLong: an agent that does not begin, falls silent, sends bytes that complete no frame, or never
// ends is given up after the span of that limit, with its code. Both sides have the bubble's clock, because
// with the real one a later limit may pass first on a busy machine.
func TestAnUpstreamThatTakesTooLong(t *testing.T) {
	t.Parallel()
	limits := Limits{FirstByte: 2 * time.Minute, Idle: 5 * time.Minute, Total: time.Hour}
	for name, c := range map[string]struct {
		answer unwired
		code   string
		after  time.Duration
	}{
		"no headers": {nil, CodeFirstByte, limits.FirstByte},
		"hangs": {func(_ context.Context, w io.Writer) {
			_, _ = io.WriteString(w, "event: delta\ndata: {\"text\":\"x\"}\n\n")
		}, CodeIdle, limits.Idle},
		"a byte at a time":      {every("x"), CodeIdle, limits.Idle},
		"never ends, but lives": {every(": alive\n\n"), CodeTotal, limits.Total},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := gate(t, limits)
			bubbletest.Test(t, func(t *testing.T) {
				agent := New(Config{ID: "a", URL: "http://agent", Limits: limits, Gate: way})
				agent.client = &http.Client{Transport: c.answer}
				began := time.Now()
				code, after := "", time.Duration(0)
				turn, err := agent.Start(context.Background(), call())
				for err == nil {
					_, err = turn.Next(context.Background())
				}
				if f := (*fault.Error)(nil); errors.As(err, &f) {
					code, after = f.Code, time.Since(began)
				}
				if code != c.code || after != c.after {
					t.Errorf("%v after %s, want %s after %s", err, after, c.code, c.after)
				}
				if turn != nil {
					turn.Release()
				}
			})
		})
	}
}
