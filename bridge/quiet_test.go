package bridge

import (
	"testing"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/internal/bubbletest"
)

const never = -1

// rings is after how long the timer rings; never when that is later than within.
func rings(q *quietTimer, within time.Duration) time.Duration {
	begun := time.Now()
	select {
	case <-q.timer.C:
		return time.Since(begun)
	case <-time.After(within):
		return never
	}
}

// If this fails, a question is shown too late or cuts the agent's sentence, or a Run stays open for ever.
func TestQuietTimer(t *testing.T) {
	t.Parallel()
	limits := Limits{Quiet: 200 * time.Millisecond, QuietMost: time.Second, QuietPaused: 5 * time.Second}
	for name, c := range map[string]struct {
		do   func(q *quietTimer)
		want time.Duration
	}{
		"new":                         {func(*quietTimer) {}, never},
		"a question":                  {func(q *quietTimer) { q.ask() }, limits.Quiet},
		"a question, stopped":         {func(q *quietTimer) { q.ask(); q.stop() }, never},
		"output without a question":   {func(q *quietTimer) { q.putOff(false, false) }, never},
		"output while paused":         {func(q *quietTimer) { q.putOff(false, true) }, limits.QuietPaused},
		"nothing is read, paused":     {func(q *quietTimer) { q.putOff(true, true) }, 0},
		"nothing is read, not paused": {func(q *quietTimer) { q.putOff(true, false) }, never},
		"to be called again":          {func(q *quietTimer) { q.calls = true; q.putOff(false, false) }, limits.QuietPaused},
		"output after a question": {func(q *quietTimer) {
			q.ask()
			time.Sleep(limits.Quiet / 2)
			q.putOff(false, true)
		}, limits.Quiet},
		"a second question": {func(q *quietTimer) {
			q.ask()
			time.Sleep(limits.Quiet / 2)
			q.ask()
		}, limits.Quiet},
		"an upstream that writes on": {func(q *quietTimer) { // it is put off for the last time 950 ms after the question
			q.ask()
			for range 19 {
				time.Sleep(50 * time.Millisecond)
				q.putOff(false, true)
			}
			q.putOff(false, true)
			time.Sleep(60 * time.Millisecond)
			q.putOff(false, true)
		}, 140 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				q := newQuietTimer(limits)
				c.do(&q)
				if got := rings(&q, 30*time.Minute); got != c.want {
					t.Errorf("it rings after %v, want %v", got, c.want)
				}
			})
		})
	}
}

// If this fails, the trace shows a person as waited for longer, or shorter, than any question was open.
func TestOpenFor(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(1000+int64(s), 0) }
	asked := func(from, to int) approval.Question {
		q := permission("p")
		q.Call.CreatedAt = at(from)
		if to > 0 {
			q.Approval.DecidedAt = at(to)
		}
		return q
	}
	page := clientTool("c")
	page.Call.CreatedAt, page.Call.EndedAt = at(2), at(6)
	ran := serverTool("s", "SUCCEEDED")
	ran.Call.CreatedAt, ran.Call.EndedAt = at(0), at(100)
	for name, c := range map[string]struct {
		all  []approval.Question
		want int
	}{
		"none":                        {nil, 0},
		"one":                         {[]approval.Question{asked(0, 5)}, 5},
		"still open":                  {[]approval.Question{asked(3, 0)}, 17},
		"one after the other":         {[]approval.Question{asked(0, 2), asked(5, 6)}, 3},
		"overlapping":                 {[]approval.Question{asked(0, 5), asked(3, 8)}, 8},
		"one within the other":        {[]approval.Question{asked(0, 10), asked(2, 4)}, 10},
		"within, then more":           {[]approval.Question{asked(0, 10), asked(2, 4), asked(9, 12)}, 12},
		"not in order":                {[]approval.Question{asked(5, 6), asked(0, 2)}, 3},
		"a page's tool, by its end":   {[]approval.Question{page}, 4},
		"a tool that asked no person": {[]approval.Question{ran}, 0},
		"touching":                    {[]approval.Question{asked(0, 2), asked(2, 4)}, 4},
		"decided before it was made":  {[]approval.Question{asked(5, 3)}, 0},
	} {
		if got := openFor(c.all, at(20)); got != time.Duration(c.want)*time.Second {
			t.Errorf("%s: %v, want %ds", name, got, c.want)
		}
	}
	all := []approval.Question{asked(5, 6), asked(0, 2)}
	openFor(all, at(20))
	if !all[0].Call.CreatedAt.Equal(at(5)) {
		t.Error("the caller's questions were put in another order")
	}
}
