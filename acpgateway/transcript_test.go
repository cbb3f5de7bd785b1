package acpgateway_test

import (
	"fmt"
	"strings"
	"testing"

	"aqueduct/agui"
)

// transcript is a log as a reader sees it: each Run's messages, calls, results, and how it
// ended. Deltas are joined: where they are parted has no meaning.
func transcript(t *testing.T, events []string) string {
	t.Helper()
	var b strings.Builder
	last := ""
	line := func(open, format string, args ...any) {
		if last != "" && last != open {
			b.WriteString("\n")
		}
		last = open
		fmt.Fprintf(&b, format, args...)
	}
	for _, raw := range events {
		ev, err := agui.Decode([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		switch e := ev.(type) {
		case *agui.RunStarted:
			line("run", "RUN")
		case *agui.TextMessageStart:
			line(e.MessageID, "says: ")
		case *agui.TextMessageContent:
			line(e.MessageID, "%s", e.Delta)
		case *agui.ReasoningMessageStart:
			line(e.MessageID, "thinks: ")
		case *agui.ReasoningMessageContent:
			line(e.MessageID, "%s", e.Delta)
		case *agui.ToolCallStart:
			line(raw, "calls %s", e.ToolCallName)
		case *agui.ToolCallResult:
			line(raw, "gets %s", e.Content.String())
		case *agui.Custom:
			line(raw, "custom %s", e.Name)
		case *agui.StepStarted:
			line(raw, "step %s", e.StepName)
		case *agui.StepFinished:
			line(raw, "step done %s", e.StepName)
		case *agui.RunError:
			line(raw, "ERROR %s", e.Code)
		case *agui.RunFinished:
			outcome := ""
			if e.Outcome != nil {
				outcome = e.Outcome.Type
			}
			line(raw, "DONE %s", outcome)
		}
	}
	return b.String()
}

// lines joins what a transcript must be.
func lines(list ...string) string { return strings.Join(list, "\n") }

// same fails the test unless a thread's whole transcript is this.
func (h *acpEnv) reads(thread string, list ...string) {
	h.t.Helper()
	events := h.events(thread)
	if got := transcript(h.t, events); got != lines(list...) {
		h.t.Errorf("%s reads\n%s\nwant\n%s", thread, got, lines(list...))
	}
	h.legal(thread, events)
}

// It fails the test unless the agent's words, in however many messages of one Run that ends
// well, are these.
func (h *acpEnv) says(thread, words string) {
	h.t.Helper()
	events := h.events(thread)
	all := transcript(h.t, events)
	said := strings.ReplaceAll(strings.TrimPrefix(all, "RUN\n"), "\nsays: ", "")
	if said != "says: "+words+"\nDONE success" {
		h.t.Errorf("%s reads\n%s\nwant\n%s", thread, all, words)
	}
	h.legal(thread, events)
}

// legal fails the test unless a log is what AG-UI allows, and gives no id twice.
func (h *acpEnv) legal(thread string, events []string) {
	h.t.Helper()
	var g agui.Grammar
	begun := map[string]bool{}
	for i, raw := range events {
		ev, err := agui.Decode([]byte(raw))
		if err == nil {
			if _, ok := ev.(*agui.RunStarted); ok {
				g = agui.Grammar{} // a client begins anew with each Run
			}
			err = g.Check(ev)
		}
		if err != nil {
			h.t.Errorf("%s, event %d: %v: %s", thread, i, err, raw)
			continue
		}
		id := beginning(ev)
		if id != "" && begun[id] {
			h.t.Errorf("%s, event %d: begun before: %s", thread, i, raw)
		}
		begun[id] = true
	}
}

// beginning is the id of what an event begins.
func beginning(ev agui.Event) string {
	switch e := ev.(type) {
	case *agui.TextMessageStart:
		return e.MessageID
	case *agui.ReasoningMessageStart:
		return e.MessageID
	case *agui.ToolCallStart:
		return e.ToolCallID
	case *agui.ToolCallResult:
		return e.MessageID
	}
	return ""
}

// count is how many events of a thread have all of these in them.
func (h *acpEnv) count(thread string, parts ...string) (n int) {
	h.t.Helper()
	for _, raw := range h.events(thread) {
		has := true
		for _, part := range parts {
			has = has && strings.Contains(raw, part)
		}
		if has {
			n++
		}
	}
	return n
}

// once fails the test unless a thread has one of each.
func (h *acpEnv) once(thread string, types ...string) {
	h.t.Helper()
	for _, kind := range types {
		if n := h.count(thread, `"type":"`+kind+`"`); n != 1 {
			h.t.Errorf("%d × %s", n, kind)
		}
	}
}
