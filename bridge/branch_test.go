package bridge_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

const wholeAnswer = "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"

// parentOf is what a response's RUN_STARTED says of its parent.
func parentOf(t *testing.T, events []string) string {
	t.Helper()
	ev, err := agui.Decode([]byte(events[0]))
	if err != nil {
		t.Fatal(err)
	}
	return ev.(*agui.RunStarted).ParentRunID
}

// branchOf is the history of the branch that ends with a Run.
func (h *harness) branchOf(thread, runID string) string {
	h.t.Helper()
	run, err := h.store.RunByExternalID(h.t.Context(), store.As(h.who), h.session(thread).ID, runID)
	if err != nil {
		h.t.Fatal(err)
	}
	rows, err := h.store.BranchMessages(h.t.Context(), store.As(h.who), run.SessionID, run.TurnID, store.Page{})
	if err != nil {
		h.t.Fatal(err)
	}
	var texts []string
	for _, row := range rows {
		var m agui.Message
		if err := m.UnmarshalJSON(row.Data); err != nil {
			h.t.Fatal(err)
		}
		texts = append(texts, m.Content.String())
	}
	return strings.Join(texts, " | ")
}

// inputsOnRecord are the user_input entries of the Turn of a Run.
func (h *harness) inputsOnRecord(thread, runID string) string {
	h.t.Helper()
	run, err := h.store.RunByExternalID(h.t.Context(), store.As(h.who), h.session(thread).ID, runID)
	if err != nil {
		h.t.Fatal(err)
	}
	records, err := h.store.RecordsOfTurn(h.t.Context(), store.As(h.who), run.TurnID, store.Page{})
	if err != nil {
		h.t.Fatal(err)
	}
	var texts []string
	for _, r := range records {
		var of struct{ Content string }
		if r.Type == trace.UserInput && json.Unmarshal(r.Payload, &of) == nil {
			texts = append(texts, of.Content)
		}
	}
	return strings.Join(texts, " | ")
}

func inRun(req bridge.ChatRequest, runID string) bridge.ChatRequest {
	req.RunID = runID
	return req
}

// TestRegenerateAndEdit goes through one thread as a chat's buttons do.
func TestRegenerateAndEdit(t *testing.T) {
	t.Parallel()
	h, a := newTalkHarness(t, bridge.Limits{BusyWait: time.Hour}, "")
	n := -1
	step := func(name string, req bridge.ChatRequest, heard, parent string) {
		t.Helper()
		n++
		got := h.chat(inRun(req, name))
		equal(t, types(got), wholeAnswer)
		equal(t, a.heard(n), heard)
		equal(t, parentOf(t, got), parent)
		prompt := heard[strings.LastIndex(heard, "| ")+1:]
		equal(t, h.snapshot("t"), heard+" | re "+strings.TrimSpace(prompt))
		equal(t, h.inputsOnRecord("t", name), strings.TrimSpace(prompt))
	}
	step("r1", history("t", "u1:one"), "one", "")
	step("r2", history("t", "u1:one", "a1", "u2:two"), "one | re one | two", "")
	step("r3", history("t", "u1:one", "a1", "u2:two"), "one | re one | two", "r1")                                  // regenerate the newest
	step("r4", history("t", "u1:one", "a1", "u2:two", "a3", "u3:three"), "one | re one | two | re two | three", "") // and go on
	step("r5", history("t", "u1:one", "a1", "u4:edited"), "one | re one | edited", "r1")                            // edit under a new id
	step("r6", history("t", "u1:one", "a1", "u4:again"), "one | re one | again", "r1")                              // and under the old one
	step("r7", history("t", "u1:one", "a1", "u2:two", "a3", "u5:back"), "one | re one | two | re two | back", "r3")
	step("r8", history("t", "u1:one"), "one", "")     // regenerate the first
	step("r9", history("t", "u1:other"), "other", "") // edit the first
	delta := history("t", "u6:on")
	step("r10", delta, "other | re other | on", "") // no history: an append
	client := inRun(history("t", "u7:child"), "r11")
	client.ParentRunID = "of-the-client"
	equal(t, parentOf(t, h.chat(client)), "of-the-client")
	for run, want := range map[string]string{
		"r1": "one | re one", "r2": "one | re one | two | re two", "r3": "one | re one | two | re two",
		"r4": "one | re one | two | re two | three | re three", "r5": "one | re one | edited | re edited",
		"r6": "one | re one | again | re again", "r7": "one | re one | two | re two | back | re back", "r8": "one | re one",
		"r9": "other | re other", "r10": "other | re other | on | re on",
	} {
		if got := h.branchOf("t", run); got != want {
			t.Errorf("the branch of %s is %q, want %q", run, got, want)
		}
	}
	calls := len(a.calls)
	h.chat(bridge.ChatRequest{ThreadID: "t", JoinOnly: true, Messages: history("t", "u1:one").Messages})
	if len(a.calls) != calls {
		t.Error("a connect began a Turn")
	}
}

// TestRegenerateWhatWasCut: a client that joined has the beginning of a large message, and means all of it.
func TestRegenerateWhatWasCut(t *testing.T) {
	t.Parallel()
	h, a := newTalkHarness(t, bridge.Limits{BusyWait: time.Hour}, "")
	whole := strings.Repeat("z", 1<<20)
	h.chat(history("t", "u1:"+whole))
	cut, _, _ := strings.Cut(h.snapshot("t"), " | ")
	if len(cut) >= len(whole) {
		t.Fatalf("the join gives %d bytes", len(cut))
	}
	h.chat(history("t", "u1:"+cut))
	if a.heard(1) != whole {
		t.Errorf("the agent was given %d bytes", len(a.heard(1)))
	}
	h.chat(history("t", "u1:"+cut[:100]))
	equal(t, a.heard(2), cut[:100])
}

// TestRegenerateOrComeBack: a body that ends in a known message is a regenerate, or a client that has lost its
// connection. What it has been sent tells.
func TestRegenerateOrComeBack(t *testing.T) {
	t.Parallel()
	h, a := newTalkHarness(t, bridge.Limits{BusyWait: 50 * time.Millisecond}, "")
	again := func(thread, text string) []string { return h.chat(history(thread, "u1:"+text)) }

	s, _ := h.post(history("running", "u1:silent one"))
	receive(h, a.called)
	s.feed.Close() // nothing was delivered
	back, _ := h.post(history("running", "u1:silent one"))
	a.finish <- struct{}{}
	equal(t, types(back.rest(t)), "RUN_STARTED MESSAGES_SNAPSHOT RUN_FINISHED")

	h.begin(history("stopped", "u1:slow one")).leave(t)
	receive(h, a.called)
	second, _ := h.post(history("stopped", "u1:slow one")) // Stop, then regenerate
	equal(t, receive(h, a.cancelled), "slow one")
	receive(h, a.called)
	a.finish <- struct{}{}
	equal(t, types(second.rest(t)), wholeAnswer)
	equal(t, a.heard(2), "slow one")
	equal(t, h.snapshot("stopped"), "slow one | re slow one")

	tailed := h.begin(history("tailed", "u1:slow one"))
	join, _ := h.post(history("tailed", "u1:slow one")) // somebody is there
	a.finish <- struct{}{}
	equal(t, types(tailed.rest(t)), wholeAnswer)
	equal(t, types(join.rest(t)), "RUN_STARTED MESSAGES_SNAPSHOT TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED")

	lost, _ := h.post(history("lost", "u1:one"))
	lost.feed.Close()
	h.idle("lost")
	equal(t, types(again("lost", "one")), "RUN_STARTED MESSAGES_SNAPSHOT STATE_SNAPSHOT RUN_FINISHED")

	early, _ := h.post(history("early", "u1:one"))
	for over := false; !over; {
		items, err := early.feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		over = agui.TypeOf(items[len(items)-1].Event) == agui.TypeRunFinished
	}
	equal(t, types(again("early", "one")), wholeAnswer) // it was read before its response knows that it was written
	early.feed.Close()

	calls := len(a.calls)
	h.restart() // nobody knows any more what was delivered
	equal(t, types(again("lost", "one")), wholeAnswer)
	if len(a.calls) != calls+1 {
		t.Errorf("%d calls after %d", len(a.calls), calls)
	}
}

// leave closes a response whose client has read what came.
func (s *stream) leave(t *testing.T) {
	t.Helper()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if items, err := s.feed.Next(gone); err == nil {
		t.Fatalf("there is more: %v", items)
	}
	s.feed.Close()
}

// TestTDesignRepeats: a TDesign page regenerates by sending its prompt again.
func TestTDesignRepeats(t *testing.T) {
	t.Parallel()
	h, a := newTalkHarness(t, bridge.Limits{BusyWait: time.Millisecond}, "")
	page := func(text string) bridge.ChatRequest {
		req := ask("t", text)
		req.Dialect, req.Unnamed = bridge.DialectTDesign, true
		return req
	}
	h.chat(page("one"))
	h.chat(page("two"))
	h.chat(page("two"))
	equal(t, a.heard(2), "one | re one | two")
	equal(t, h.snapshot("t"), "one | re one | two | re two")
	h.chat(page("one")) // is not the newest: it is asked once more
	equal(t, a.heard(3), "one | re one | two | re two | one")
	once := page("one")
	once.Repeat = bridge.RepeatNever
	h.chat(once)
	equal(t, a.heard(4), "one | re one | two | re two | one | re one | one")

	s := h.begin(page("slow"))
	s.leave(t)
	second, _ := h.post(page("slow"))
	equal(t, receive(h, a.cancelled), "slow")
	for range 7 {
		receive(h, a.called)
	}
	a.finish <- struct{}{}
	second.rest(t)
	equal(t, a.heard(6), a.heard(5))
}
