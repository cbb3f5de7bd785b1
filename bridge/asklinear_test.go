//go:build !race

// Run by scripts/test-unraced, which says why.

package bridge_test

import (
	"fmt"
	"testing"
	"time"

	"aqueduct/store"
)

// TestS33AskingIsLinear: four times the questions take about four times as long.
func TestS33AskingIsLinear(t *testing.T) {
	t.Parallel()
	limits := never()
	limits.QuestionsPerTurn, limits.QuestionsPerUser = 5000, 5000
	const turns = 4
	took := func(n int) time.Duration {
		h := newHarnessWith(t, &scripted{script: asksN(n / turns)}, limits)
		begun := time.Now()
		for i := range turns { // they share commits, which are paced
			if _, err := h.sessions.Chat(t.Context(), h.as(ask(fmt.Sprint("T", i), "go"))); err != nil {
				t.Fatal(err)
			}
		}
		for range turns {
			if outcome := <-h.outcomes; outcome != "FAILED" {
				t.Fatal(outcome)
			}
		}
		span := time.Since(begun)
		if rows, err := h.store.CountWaiting(t.Context(), store.System(), "", 10); err != nil || rows != 0 {
			t.Fatal(rows, err)
		}
		h.stop()
		return span
	}
	var ratio float64
	for range 3 { // others may use the machine
		few, many := took(500), took(2000)
		ratio = float64(many) / float64(few)
		t.Logf("500 questions: %v, 2000: %v (%.1f)", few, many, ratio)
		if ratio < 6 {
			return
		}
	}
	t.Errorf("2000 questions take %.1f times as long as 500; want less than 6", ratio)
}
