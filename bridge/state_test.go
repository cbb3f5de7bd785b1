package bridge_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// stated is an event of the Agent that changes the state.
func stated(ops string) bridge.Output {
	return bridge.Output{Event: &agui.StateDelta{Delta: json.RawMessage(ops)}}
}

func set(key, value string) bridge.Output {
	return stated(`[{"op":"add","path":"/` + key + `","value":` + value + `}]`)
}

// tab is one page of a client: the messages and the state that it has.
type tab struct {
	h        *harness
	thread   string
	messages []agui.Message
	state    string
}

// openTab is a page that has joined the thread, or begins it.
func openTab(h *harness, thread string) *tab { return &tab{h: h, thread: thread, state: "{}"} }

// send posts a prompt with all the tab has, and reads the answer.
func (p *tab) send(text string) []string {
	p.messages = append(p.messages, user(uuid.NewString(), text))
	return p.read(p.h.chat(p.request()))
}

func (p *tab) request() bridge.ChatRequest {
	return bridge.ChatRequest{ThreadID: p.thread, Messages: slices.Clone(p.messages), State: json.RawMessage(p.state)}
}

// read folds what came as an official client does.
func (p *tab) read(events []string) []string {
	p.h.t.Helper()
	fold := agui.NewFold(p.messages)
	doc, err := agui.NewStateDoc(json.RawMessage(p.state))
	for _, e := range events {
		var ev agui.Event
		if err == nil {
			ev, err = agui.Decode([]byte(e))
		}
		switch e := ev.(type) {
		case *agui.StateSnapshot:
			err = doc.Snapshot(e.Snapshot)
		case *agui.StateDelta:
			err = doc.Patch(e.Delta)
		}
		if err != nil {
			p.h.t.Fatalf("%s: %v", e, err)
		}
		fold.Apply(ev)
	}
	p.state, p.messages = string(doc.JSON()), fold.Messages()
	return events
}

// kept is the Session's state.
func (h *harness) kept(thread string) string {
	h.t.Helper()
	h.idle(thread)
	return string(h.session(thread).State)
}

// given is the state the Agent was called with, by call.
func (a *scripted) given() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, c := range a.calls {
		all = append(all, string(c.State))
	}
	return all
}

// says is an Agent that plays what a prompt names.
func says(parts map[string][]bridge.Output) *scripted {
	return &scripted{script: func(call bridge.Call, _ []approval.Delivery) []bridge.Output {
		out := slices.Clone(parts[call.Input().Content.String()])
		return append(append(out, textOutputs(uuid.NewString(), "answer to "+call.Input().Content.String())...), done())
	}}
}

// The first state event of each Run is a snapshot, whatever the Agent sends.
func TestEveryRunsFirstStateEventIsASnapshot(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says(map[string][]bridge.Output{
		"one": {set("a", "1"), set("b", "2")},
		"two": {set("a", "3"), set("c", "4")},
	}))
	p := openTab(h, "t1")
	if got := types(p.send("one")); !strings.HasPrefix(got, "RUN_STARTED STATE_SNAPSHOT STATE_DELTA TEXT") {
		t.Fatalf("the first run: %s", got)
	}
	events := p.send("two")
	if got := types(events); !strings.HasPrefix(got, "RUN_STARTED STATE_SNAPSHOT STATE_DELTA TEXT") {
		t.Fatalf("the second run: %s", got)
	}
	if !strings.Contains(events[1], `"snapshot":{"a":1,"b":2}`) || strings.Count(strings.Join(events, ""), "STATE_") != 3 {
		t.Fatalf("%s", events)
	}
	if p.state != `{"a":3,"b":2,"c":4}` || h.kept("t1") != p.state {
		t.Fatalf("the client has %s, kept is %s", p.state, h.kept("t1"))
	}
}

// TestAPatchThatMakesTheStateNull: the state is {} then, here and at every client, so that the next patch applies at both.
func TestAPatchThatMakesTheStateNull(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says(map[string][]bridge.Output{
		"one": {set("a", "1"), stated(`[{"op":"replace","path":"","value":null}]`), set("b", "2")},
	}))
	p := openTab(h, "t1")
	events := strings.Join(p.send("one"), "\n")
	if !strings.Contains(events, `"snapshot":{}`) || strings.Contains(events, `"value":null`) || p.state != `{"b":2}` || h.kept("t1") != p.state {
		t.Fatalf("the client has %s, kept is %s: %s", p.state, h.kept("t1"), events)
	}
}

// So it is in Runs that nobody posted, and in a Run that a restart cut in two.
func TestFurtherAndRestartedRunsBeginTheStateWithASnapshot(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, _ := parkedHarness(t, a, "q1")
	a.emit("2", append(text("a"), set("a", "1"))...)
	h.until("2")
	h.resting("t1")
	a.emit("3", append(text("b"), set("a", "2"))...)
	h.until("3")
	h.resting("t1")
	h.restart()
	a.emit("4", append(text("c"), set("a", "3"), set("b", "4"))...)
	h.until("4")
	h.resting("t1")
	shown, runs := false, 0
	for _, e := range h.log("t1") {
		switch agui.TypeOf([]byte(e)) {
		case agui.TypeRunStarted:
			shown = false
			runs++
		case agui.TypeStateSnapshot:
			shown = true
		case agui.TypeStateDelta:
			if !shown {
				t.Errorf("a delta comes first in its run: %s", e)
			}
		}
	}
	if runs < 4 {
		t.Fatalf("only %d runs", runs)
	}
}

// The client's state is the base of its Run: given to the Agent, patched, kept, and given back to whoever joins.
func TestTheClientsStateIsTheBaseOfItsRun(t *testing.T) {
	t.Parallel()
	a := says(map[string][]bridge.Output{"patch": {stated(`[{"op":"add","path":"/todo/-","value":"b"},{"op":"add","path":"/acp","value":{"x":1}}]`)}})
	h := newHarness(t, a)
	p := openTab(h, "t1")
	p.state = `{"todo":["a"],"acp":{"mine":true}}`
	events := p.send("patch")
	want := `{"todo":["a","b"],"acp":{"x":1}}`
	if p.state != want || h.kept("t1") != want {
		t.Fatalf("the client has %s, kept is %s: %s", p.state, h.kept("t1"), events)
	}
	if got := a.given(); got[0] != `{"todo":["a"]}` {
		t.Fatalf("the agent was given %s", got)
	}
	if !strings.Contains(events[1], `"snapshot":{"todo":["a"]}`) {
		t.Fatalf("the client is not told what became of its keys: %s", events[1])
	}
	h.restart()
	back := openTab(h, "t1")
	back.read(h.chat(bridge.ChatRequest{ThreadID: "t1"}))
	if back.state != want {
		t.Fatalf("who comes back gets %s", back.state)
	}
	// A page that was just opened sends {}: that wipes nothing.
	fresh := openTab(h, "t1")
	if fresh.send("hi"); fresh.state != want || h.kept("t1") != want {
		t.Fatalf("a fresh page made it %s, kept is %s", fresh.state, h.kept("t1"))
	}
	// Who has the state already does not get it again.
	if got := types(fresh.send("again")); strings.Contains(got, "STATE") {
		t.Fatalf("told again: %s", got)
	}
}

// The last writer wins by key; what a tab merely has from before changes nothing.
func TestAStaleTabOverwritesOnlyWhatItChanged(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says(map[string][]bridge.Output{
		"begin": {stated(`[{"op":"add","path":"/n","value":1.0},{"op":"add","path":"/on","value":true},{"op":"add","path":"/x","value":"old"}]`)},
		"work":  {stated(`[{"op":"replace","path":"/n","value":2},{"op":"replace","path":"/on","value":false}]`)},
	}))
	one := openTab(h, "t1")
	one.send("begin")
	two := &tab{h: h, thread: "t1", messages: slices.Clone(one.messages), state: `{"n":1,"x":"old","on":true}`} // as JavaScript writes it
	one.send("work")
	two.state = `{"n":1,"x":"new","on":true,"own":[1]}`
	two.send("hi")
	if got, want := h.kept("t1"), `{"n":2,"on":false,"x":"new","own":[1]}`; got != want || two.state != want {
		t.Fatalf("got  %s\nwant %s\nthe tab has %s", got, want, two.state)
	}
	// Who saw what the agent wrote may set it back.
	two.state = `{"n":1,"on":true,"x":"new","own":null}`
	two.send("back")
	if got, want := h.kept("t1"), `{"n":1,"on":true,"x":"new","own":null}`; got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	// The first tab has what the agent said, and knows nothing of the second.
	one.send("again")
	if got, want := h.kept("t1"), `{"n":1,"on":true,"x":"new","own":null}`; got != want || one.state != want {
		t.Fatalf("got  %s\nwant %s\nthe tab has %s", got, want, one.state)
	}
}

// A client that stopped reading in mid-answer has what the Agent had written until then. That is no change of its own.
func TestAClientThatStoppedReadingOverwritesNothing(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, soon(), nil)
	p := openTab(h, "t1")
	p.messages = []agui.Message{user("u1", "hi")}
	h.post(p.request())
	begun := &agui.TextMessageStart{MessageID: "m", Role: "assistant"}
	a.emit("1", bridge.Output{Event: begun}, set("n", "1"), set("n", "2"), set("m", "1"))
	h.until("1")
	p.read(h.log("t1"))
	a.emit("2", bridge.Output{Event: &agui.TextMessageContent{MessageID: "m", Delta: "more"}}, set("n", "3"), done())
	h.until("2")
	if h.kept("t1") != `{"n":3,"m":1}` || p.state != `{"n":2,"m":1}` {
		t.Fatalf("kept %s, the client has %s", h.kept("t1"), p.state)
	}
	p.state = `{"n":2,"m":5}`
	p.messages = append(p.messages, user("u2", "go on"))
	next, _ := h.post(p.request())
	a.emit("3", append(text("well"), done())...)
	next.rest(t)
	if got, want := h.kept("t1"), `{"n":3,"m":5}`; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

// A change that does not apply is a warning, and the state as it is. The Run goes on.
func TestAChangeThatDoesNotApplyIsAWarning(t *testing.T) {
	t.Parallel()
	large := `"` + strings.Repeat("x", 200<<10) + `"`
	h := newHarness(t, says(map[string][]bridge.Output{
		"bad": {set("a", "1"), stated(`[{"op":"replace","path":"/none","value":1}]`), stated(`[{"op":"remove","path":"/none"}]`), set("a", "2")},
		"big": {set("big", large), set("bigger", large), {Event: &agui.StateSnapshot{Snapshot: json.RawMessage(`{"a":` + large[:len(large)-1] + strings.Repeat("y", 100<<10) + `"}`)}}},
		"mid": {stated(`[{"op":"replace","path":"/none","value":1}]`)},
	}))
	p := openTab(h, "t1")
	events := p.send("bad")
	if got := types(events); got != "RUN_STARTED STATE_SNAPSHOT CUSTOM STATE_SNAPSHOT CUSTOM STATE_DELTA TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" {
		t.Fatalf("got %s", got)
	}
	const warning = `{"type":"CUSTOM","name":"state_not_applied","value":{"source":"agent","code":"invalid_state","message":"The agent changed its state in a way that does not apply."}}`
	if events[2] != warning || !strings.Contains(events[3], `"snapshot":{"a":1}`) || h.kept("t1") != `{"a":2}` || p.state != `{"a":2}` {
		t.Fatalf("%s\nkept %s", events, h.kept("t1"))
	}
	if got := types(p.send("mid")); !strings.HasPrefix(got, "RUN_STARTED STATE_SNAPSHOT CUSTOM STATE_SNAPSHOT TEXT") {
		t.Fatalf("first in its run: %s", got)
	}
	events = p.send("big")
	if got := strings.Count(strings.Join(events, ""), `"code":"state_too_large"`); got != 2 || len(h.kept("t1")) > agui.MaxStateBytes {
		t.Fatalf("%d warnings, %d bytes kept", got, len(h.kept("t1")))
	}
	// A client's key that does not fit is named; the others are taken.
	p.state = `{"small":1,"mine":` + large + `}`
	events = p.send("hi")
	all := strings.Join(events, "")
	if !strings.Contains(all, `"source":"client","code":"state_too_large"`) || !strings.Contains(all, `"keys":["mine"]`) || !strings.Contains(h.kept("t1"), `"small":1`) {
		t.Fatalf("%.400s", all)
	}
	req := ask("t1", "too much")
	req.State = json.RawMessage(`{"a":` + large + `,"b":` + large + `}`)
	h.refused(req, bridge.CodeStateTooLarge)
}

// The state that comes with an answer is the base of the Run that the answer makes, and of no other.
func TestTheStateOfAnAnswerIsTaken(t *testing.T) {
	t.Parallel()
	a := &scripted{script: func(call bridge.Call, answers []approval.Delivery) []bridge.Output {
		if answers != nil || call.Input().Content.String() == "next" {
			return append(append(textOutputs(uuid.NewString(), "so be it"), set("agent2", "1")), done())
		}
		return permitScript(call, answers)
	}}
	h := newHarness(t, a)
	p := openTab(h, "t1")
	p.state = `{"form":1}`
	p.send("hi")
	req := answer("t1", yes(h.openQuestion()))
	p.state = `{"form":2}`
	req.State, req.Messages = json.RawMessage(p.state), append(slices.Clone(p.messages), user("u2", "next"))
	p.read(h.chat(req))
	want := `{"form":2,"agent2":1}`
	if h.kept("t1") != want || p.state != want {
		t.Fatalf("kept %s, the client has %s", h.kept("t1"), p.state)
	}
	if got := a.given(); strings.Join(got, " ") != `{"form":1} {"form":2} `+want {
		t.Fatalf("the agent was given %s", got)
	}
}

// An array is a state too; it does not take the place of an object.
func TestAStateThatIsNoObject(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says(map[string][]bridge.Output{"keys": {stated(`[{"op":"add","path":"","value":{"a":1}}]`)}}))
	p := openTab(h, "t1")
	p.state = `[1]`
	p.send("hi")
	if h.kept("t1") != `[1]` {
		t.Fatalf("kept %s", h.kept("t1"))
	}
	p.send("keys")
	p.state = `[2]`
	events := p.send("more")
	if h.kept("t1") != `{"a":1}` || p.state != `{"a":1}` || !strings.Contains(strings.Join(events, ""), "state_not_applied") {
		t.Fatalf("kept %s, the client has %s: %s", h.kept("t1"), p.state, events)
	}
}

// A Turn that nobody prompted goes on from the thread's state, not from what a client had said before.
func TestAnUnpromptedTurnTakesNoClientsState(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, soon(), nil)
	req := ask("t1", "hi")
	req.State = json.RawMessage(`{"n":1}`)
	h.post(req)
	a.emit("1", append(text("one"), set("n", "2"), done())...)
	h.until("1")
	h.idle("t1")
	h.spoke("t1")
	a.emit("2", append(text("two"), done())...)
	h.until("2")
	if got := h.kept("t1"); got != `{"n":2}` {
		t.Fatalf("got %s", got)
	}
}
