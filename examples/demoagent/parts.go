// This file lists what the demo can show, and picks one by the prompt.

package demoagent

import "strings"

// part is one thing the demo can show.
type part struct {
	name  string // the prompt's first word, exactly
	about string
	show  func(*stream, invocation)
}

// parts lists everything but the tour, in the order the tour tells it.
func parts() []part {
	return []part{
		{"text", "an answer, a few words at a time", showText},
		{"think", "thoughts first, then an answer", showThink},
		{"tool", "two tool calls with their results", showTool},
		{"state", "shared state: a snapshot, then changes to it", showState},
		{"activity", "a plan that is worked off while you watch", showActivity},
		{"step", "named steps, one in another", showStep},
		{"ask", "may the agent do this? allow once, always, or reject", showAsk},
		{"asks", "two such questions at once", showAsks},
		{"hold", "two such questions, and the agent talks on while they are open", showHold},
		{"prefs", "a question with a form", showPrefs},
		{"client_tool", "a call of the first tool your frontend declared", showClientTool},
		{"all", "a journey planned, with everything above", showAll},
		{"slow", "a word a second for a minute: leave, come back, or stop it", showSlow},
		{"flood", "as many deltas as you say, as fast as they go: flood 1000", showFlood},
		{"error", "an answer that breaks off", showError},
	}
}

// pick finds the part that the prompt's first word names. Words are compared exactly, so
// that an ordinary sentence such as "Tool prices?" is never taken for a command.
func pick(prompt string) part {
	first := ""
	if words := strings.Fields(prompt); len(words) > 0 {
		first = words[0]
	}
	for _, p := range parts() {
		if p.name == first {
			return p
		}
	}
	return part{name: "tour", show: showTour}
}

// showTour answers every other prompt: with the list of what there is.
func showTour(s *stream, c invocation) {
	var b strings.Builder
	b.WriteString("I am the demo agent. Begin a message with one of these words to see what it shows:\n")
	for _, p := range parts() {
		b.WriteString("\n- `" + p.name + "`: " + p.about)
	}
	s.say(b.String())
	s.done(c)
}
