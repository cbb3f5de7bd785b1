package bridge

import (
	"context"
	"fmt"
	"testing"

	"aqueduct/store"
)

// quietTails are tails whose rows nothing writes.
func quietTails() *tails { return newTails(nil, "here", nil) }

func tailedRun(id, turn string) store.Run { return store.Run{ID: id, SessionID: "S", TurnID: turn} }

// If this fails, a user's message is refused although the answer was stopped, or a Stop ends what another page reads.
func TestTailsCount(t *testing.T) {
	t.Parallel()
	l := quietTails()
	check := func(when string, is, known bool) {
		t.Helper()
		if i, k := l.tailing("r"); i != is || k != known {
			t.Errorf("%s: tailed %v, known %v; want %v, %v", when, i, k, is, known)
		}
	}
	check("before", false, false)
	l.enter(tailedRun("r", "t"))
	l.enter(tailedRun("r", "t"))
	check("two responses", true, true)
	l.leave("r", false)
	check("one has left", true, true)
	l.leave("r", false)
	check("both have left", false, true)
	l.leave("never", true)
	check("one that is not known has left", false, true)
}

// If this fails, a message that waits for the last reader to leave waits for its whole time, or for ever.
func TestTheLastTailRings(t *testing.T) {
	t.Parallel()
	l := quietTails()
	ring, stop := l.changes("S")
	other, stopOther := l.changes("other")
	rang := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	l.enter(tailedRun("r", "t"))
	l.enter(tailedRun("r", "t"))
	l.leave("r", false)
	if rang(ring) {
		t.Error("it rings although a response tails the Run")
	}
	l.leave("r", false)
	l.enter(tailedRun("r2", "t"))
	l.leave("r2", false) // a second ring finds the place taken and does not block
	if !rang(ring) || rang(ring) || rang(other) {
		t.Error("it does not ring once for its own Session alone")
	}
	stop()
	stopOther()
	if len(l.waiting) != 0 {
		t.Errorf("%d Sessions are waited for after the end", len(l.waiting))
	}
}

// If this fails, a regenerate is taken for a lost connection, and the answer that the user has read is shown again.
func TestTailsKnowWhatWasDelivered(t *testing.T) {
	t.Parallel()
	first, last := []delivery{{runID: "r"}}, []delivery{{runID: "r", over: true}}
	for name, c := range map[string]struct {
		do                 func(l *tails)
		spoke, over, known bool
	}{
		"never tailed":            {func(*tails) {}, false, false, false},
		"nothing delivered":       {func(l *tails) { l.enter(tailedRun("r", "t")) }, false, false, true},
		"its message is written":  {func(l *tails) { l.enter(tailedRun("r", "t")); l.beginDelivery(first) }, true, false, true},
		"it could not be written": {func(l *tails) { l.enter(tailedRun("r", "t")); l.beginDelivery(first); l.endDelivery(first, false) }, false, false, true},
		"it was delivered":        {func(l *tails) { l.enter(tailedRun("r", "t")); l.beginDelivery(first); l.endDelivery(first, true) }, true, false, true},
		"and its response is gone": {func(l *tails) {
			l.enter(tailedRun("r", "t"))
			l.beginDelivery(first)
			l.endDelivery(first, true)
			l.leave("r", false)
		}, true, false, true},
		"its end was delivered": {func(l *tails) { l.enter(tailedRun("r", "t")); l.beginDelivery(last); l.endDelivery(last, true) }, false, true, true},
		"of another Turn":       {func(l *tails) { l.enter(tailedRun("r", "u")); l.beginDelivery(first); l.endDelivery(first, true) }, false, false, false},
		"of a Run never tailed": {func(l *tails) {
			l.beginDelivery(first)
			l.endDelivery(first, true)
			l.beginDelivery(nil)
			l.endDelivery(nil, true)
		}, false, false, false},
		"by two of the Turn's Runs": {func(l *tails) {
			l.enter(tailedRun("r", "t"))
			l.enter(tailedRun("r2", "t"))
			l.beginDelivery(last)
			l.endDelivery(last, true)
			l.beginDelivery([]delivery{{runID: "r2"}})
			l.endDelivery([]delivery{{runID: "r2"}}, true)
		}, true, true, true},
	} {
		l := quietTails()
		c.do(l)
		if spoke, over, known := l.sent("t"); spoke != c.spoke || over != c.over || known != c.known {
			t.Errorf("%s: spoke %v, over %v, known %v; want %v, %v, %v", name, spoke, over, known, c.spoke, c.over, c.known)
		}
	}
}

// If this fails, the memory of a server grows with every Run that was ever read, or a Run that is read is forgotten.
func TestTailsForgetTheOldest(t *testing.T) {
	t.Parallel()
	l := quietTails()
	l.enter(tailedRun("kept", "t"))
	for i := range tailsKept {
		id := fmt.Sprint(i)
		l.enter(tailedRun(id, "u"))
		l.leave(id, true)
	}
	if is, _ := l.tailing("kept"); !is {
		t.Error("a Run that is tailed is forgotten")
	}
	for i := range 2 * tailsKept {
		id := fmt.Sprint("more", i)
		l.enter(tailedRun(id, "u"))
		l.leave(id, true)
	}
	if len(l.runs) > tailsKept+1 || len(l.order) != len(l.runs) {
		t.Errorf("%d Runs are remembered, in an order of %d", len(l.runs), len(l.order))
	}
	if is, _ := l.tailing("kept"); !is {
		t.Error("a Run that is tailed is forgotten behind the bound")
	}
	if _, known := l.tailing("0"); known {
		t.Error("the oldest Run is remembered")
	}
	if _, known := l.tailing(fmt.Sprint("more", 2*tailsKept-1)); !known {
		t.Error("the newest Run is forgotten")
	}
}

// If this fails, other replicas refuse a message for a reader that has left, or the row is written for each of many readers.
func TestTailsStateTheirRowOnce(t *testing.T) {
	t.Parallel()
	writers := 0
	l := newTails(nil, "here", func(func(context.Context)) bool { writers++; return true })
	stated := func(id string) store.Run { // its row names this replica
		run := tailedRun(id, "t")
		run.Tails = "there here "
		return run
	}
	l.enter(stated("r"))
	l.enter(stated("r"))
	if writers != 0 {
		t.Errorf("%d writers for a row that names this replica", writers)
	}
	l.leave("r", false)
	if writers != 0 {
		t.Error("the row is written while a response tails the Run")
	}
	l.leave("r", false)
	if writers != 1 {
		t.Errorf("%d writers when the last one has left", writers)
	}
	l.enter(tailedRun("r", "t"))
	if writers != 1 {
		t.Errorf("%d writers at once for one row", writers)
	}
	l.enter(stated("ended"))
	l.leave("ended", true)
	if writers != 1 {
		t.Error("the row of a Run that has ended is written")
	}
	l.enter(tailedRun("foreign", "t"))
	if writers != 2 {
		t.Error("a first response is not put on the row")
	}
}

// If this fails, a message over a channel is refused, or stops what a page's POST reads.
func TestTailsOfARequest(t *testing.T) {
	t.Parallel()
	l := quietTails()
	for name, c := range map[string]struct {
		req  ChatRequest
		want string
	}{
		"a POST":     {ChatRequest{}, "here "},
		"a channel":  {ChatRequest{Channel: true}, store.TailedByChannel},
		"a callback": {ChatRequest{Callback: true}, store.TailedByChannel},
	} {
		if got := l.of(c.req); got != c.want {
			t.Errorf("%s: the Run is tailed by %q, want %q", name, got, c.want)
		}
	}
}
