package acpgateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/internal/bubbletest"
)

func noPrompts() *prompts { return &prompts{open: make(map[string]*prompt)} }

// states writes the open prompts with their states, in order.
func states(ps *prompts) string {
	names := [...]string{active: "active", detached: "detached", abandoned: "abandoned", cancelled: "cancelled"}
	var all []string
	for id, p := range ps.open {
		all = append(all, id+":"+names[p.state])
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// If this fails, the next prompt of a thread waits for one that is over, or is sent into one that still runs.
func TestPromptStates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(ps *prompts)
		want string
	}{
		"sent":                            {func(ps *prompts) { ps.add("a") }, "a:active"},
		"its Turn is released":            {func(ps *prompts) { ps.add("a"); ps.detach("a") }, "a:detached"},
		"and resumed":                     {func(ps *prompts) { ps.add("a"); ps.detach("a"); ps.resume("a") }, "a:active"},
		"a cancelled one stays cancelled": {func(ps *prompts) { ps.add("a"); ps.cancel("a"); ps.detach("a") }, "a:cancelled"},
		"an abandoned one stays so":       {func(ps *prompts) { ps.add("a"); ps.set("a", abandoned); ps.detach("a") }, "a:abandoned"},
		"its result":                      {func(ps *prompts) { ps.add("a"); ps.end("a") }, ""},
		"the agent does not have it":      {func(ps *prompts) { ps.add("a"); ps.remove("a") }, ""},
		"the process ended":               {func(ps *prompts) { ps.add("a"); ps.add("b"); ps.clear() }, ""},
		"the next one is worked on":       {func(ps *prompts) { ps.add("a"); ps.set("a", abandoned); ps.add("b"); ps.noteUpdate("b") }, "b:active"},
		"the abandoned one is worked on":  {func(ps *prompts) { ps.add("a"); ps.set("a", abandoned); ps.add("b"); ps.noteUpdate("a") }, "a:abandoned b:active"},
		"the next one has ended":          {func(ps *prompts) { ps.add("a"); ps.set("a", abandoned); ps.add("b"); ps.end("b") }, ""},
		"a cancelled one has ended":       {func(ps *prompts) { ps.add("a"); ps.set("a", abandoned); ps.add("b"); ps.cancel("b"); ps.end("b") }, "a:abandoned"},
		"one of an earlier process":       {func(ps *prompts) { ps.resume("a") }, "a:active"},
		"its result waits in the queue":   {func(ps *prompts) { ps.add("a"); ps.end("a"); ps.resume("a") }, ""},
		"an update of an unknown one":     {func(ps *prompts) { ps.noteUpdate("a") }, ""},
	} {
		ps := noPrompts()
		c.do(ps)
		if got := states(ps); got != c.want {
			t.Errorf("%s: the agent has %q, want %q", name, got, c.want)
		}
		if ps.any() != (c.want != "") {
			t.Errorf("%s: any is %v", name, ps.any())
		}
	}
}

// If this fails, a Stop is sent for nothing, a result counts twice, or output of a cancelled answer appears in the next.
func TestPromptAnswers(t *testing.T) {
	t.Parallel()
	ps := noPrompts()
	if ps.set("a", abandoned) || ps.cancel("a") || !ps.isDropped("a") {
		t.Error("a prompt that the agent does not have was moved, or its output is shown after a cancel")
	}
	if ps.isKnown("b") {
		t.Error("a prompt is known before it is given")
	}
	ps.add("b")
	if !ps.isKnown("b") || ps.hasEnded("b") || ps.isDropped("b") {
		t.Error("a prompt that was given is not known, or has ended, or is dropped")
	}
	if ps.resume("b") {
		t.Error("a prompt of this process is inherited")
	}
	if !ps.end("b") || ps.end("b") {
		t.Error("a result does not count exactly once")
	}
	if !ps.isKnown("b") || !ps.hasEnded("b") || ps.resume("b") {
		t.Error("a prompt that has ended is forgotten, or inherited")
	}
	if !ps.resume("c") {
		t.Error("a prompt of an earlier process is not inherited")
	}
	ps.add("d")
	if !ps.cancel("d") {
		t.Error("a prompt at work cannot be cancelled")
	}
}

// If this fails, output of a lost prompt is shown as that of the one under way, or the other way round.
func TestALostPromptsOutputIsDroppedIfItIsAlone(t *testing.T) {
	t.Parallel()
	ps := noPrompts()
	ps.add("a")
	ps.add("b")
	if ps.removeLost("a") || ps.isDropped("a") {
		t.Error("what may be the other prompt's is dropped")
	}
	if !ps.removeLost("b") || !ps.isDropped("b") || ps.any() {
		t.Error("what can only be the lost prompt's is shown")
	}
}

// If this fails, a prompt whose Turn is gone blocks its thread for ever, or one that streams is given up.
func TestOldPromptsAreFound(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		ps := noPrompts()
		ps.add("a")
		ps.set("a", abandoned)
		ps.add("b")
		time.Sleep(time.Second)
		linked := time.Now()
		time.Sleep(time.Second)
		if got := ps.in(abandoned, time.Time{}); !slices.Equal(got, []string{"a"}) {
			t.Errorf("abandoned are %q", got)
		}
		if got := ps.in(abandoned, linked); !slices.Equal(got, []string{"a"}) {
			t.Errorf("abandoned before the link came back are %q", got)
		}
		if got := ps.in(abandoned, linked.Add(-time.Second)); got != nil {
			t.Errorf("abandoned before they were are %q", got)
		}
		if got := ps.unnamedSince(linked, time.Now()); !slices.Equal(got, []string{"a"}) {
			t.Errorf("lost are %q", got)
		}
		if got := ps.unnamedSince(linked, linked); got != nil {
			t.Errorf("lost as the link comes back are %q", got)
		}
		ps.noteUpdate("a")
		if got := ps.unnamedSince(linked, time.Now().Add(time.Hour)); got != nil {
			t.Errorf("lost while it streams are %q", got)
		}
	})
}

// If this fails, a late update begins a Run of its own, or the memory of a long session grows without a bound.
func TestRecentIsBounded(t *testing.T) {
	t.Parallel()
	var r recent
	for i := range maxRecent {
		r.add(fmt.Sprint(i))
	}
	r.add("3") // it is known and takes no place
	if !r.has("0") || len(r.ids) != maxRecent {
		t.Errorf("%d are remembered", len(r.ids))
	}
	r.add("new")
	if r.has("0") || !r.has("1") || !r.has("new") || len(r.ids) != maxRecent {
		t.Errorf("remembered are %q", r.ids)
	}
}
