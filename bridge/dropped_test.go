package bridge_test

import (
	"slices"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
)

// Messages that a client put into its history by itself, and that reach no Agent, are named once in a thread. The history that
// begins a thread is none of them.
func TestDroppedMessagesAreNamedOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: helloScript})
	seeded := []agui.Message{
		{ID: "sys", Role: agui.RoleSystem, Content: agui.Text("You are a pirate.")},
		{ID: "greeting", Role: agui.RoleAssistant, Content: agui.Text("Ahoy!")},
	}
	p := openTab(h, "t1")
	p.messages = slices.Clone(seeded)
	first := p.send("hi")
	const want = `{"type":"CUSTOM","name":"messages_dropped","value":{"messages":[{"id":"sys","role":"system"}],"count":1,`
	if types(first[:2]) != "RUN_STARTED CUSTOM" || !strings.HasPrefix(first[1], want) {
		t.Fatalf("%s", first)
	}
	for _, again := range [][]string{p.send("more"), p.read(h.chat(bridge.ChatRequest{ThreadID: "t1", Messages: p.messages}))} {
		if strings.Contains(strings.Join(again, ""), "messages_dropped") {
			t.Fatalf("told again: %s", again)
		}
	}
	if strings.Contains(strings.Join(h.log("t1"), ""), "pirate") {
		t.Fatal("it was taken")
	}
	// Who sends back nothing but what was said here is told nothing.
	clean := openTab(h, "t2")
	for range 3 {
		if got := strings.Join(clean.send("hi"), ""); strings.Contains(got, "messages_dropped") {
			t.Fatalf("%s", got)
		}
	}
	clean.messages = append(seeded[:1:1], clean.messages...)
	if got := strings.Join(clean.send("hi"), ""); !strings.Contains(got, `"count":1`) {
		t.Fatalf("a system message that came later: %s", got)
	}
}
