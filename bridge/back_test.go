package bridge_test

import (
	"strings"
	"testing"

	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
)

// parkedHouse has a Turn that asked, of an upstream that still waits, and the ids of its
// Questions.
func parkedHouse(t *testing.T, a *held, upstreamIDs ...string) (*house, []string) {
	t.Helper()
	h := newHeldHouse(t, a, soon(), nil)
	var questions []bridge.Output
	for _, id := range upstreamIDs {
		questions = append(questions, permission(id))
	}
	a.say("asked", questions...)
	h.chat(ask("t1", "hi"))
	receive(h, a.called)
	h.until("asked")
	var ids []string
	for _, q := range h.approvals() {
		ids = append(ids, q.ID)
	}
	if len(ids) != len(upstreamIDs) {
		t.Fatalf("%d questions", len(ids))
	}
	return h, ids
}

const (
	resulted = "RUN_STARTED TOOL_CALL_RESULT "
	twoTexts = "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END "
)

func TestWhatAParkedUpstreamSaidOpensTheNextRun(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"held": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newHeld()
			h, ids := parkedHouse(t, a, "q1")
			a.say("2", text("while parked")...)
			a.say("3", bridge.Output{})
			h.until("3")
			if got := h.lastMark("t1"); got == "2" || got == "3" {
				t.Fatalf("the log is marked %q, and does not hold it", got)
			}
			if restarted {
				a.alone = true
				h.restart()
			}
			going, _ := h.post(answer("t1", yes(ids[0])))
			if restarted {
				call := receive(h, a.called)
				if !call.resumed || call.Mark != "3" || len(call.answers) != 1 || call.answers[0].UpstreamID != "q1" {
					t.Fatalf("%+v", call)
				}
			} else if told := receive(h, a.told); told.UpstreamID != "q1" {
				t.Fatalf("%+v", told)
			}
			a.say("4", text("then")...)
			a.say("5", done())
			if got := types(going.rest(t)); got != resulted+twoTexts+"RUN_FINISHED" {
				t.Fatalf("got %s", got)
			}
			if n := strings.Count(strings.Join(h.log("t1"), ""), `"delta":"while parked"`); n != 1 {
				t.Fatalf("told %d times", n)
			}
		})
	}
}

// A restart in the middle of the Run that tells what was said doubles nothing.
func TestWhatWasHeldBackIsToldOnce(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, ids := parkedHouse(t, a, "q1")
	a.say("2", text("while parked")...)
	h.until("2")
	a.alone = true
	h.restart()
	h.post(answer("t1", yes(ids[0])))
	receive(h, a.called)
	a.alone = false
	h.restart()
	if call := receive(h, a.called); !call.resumed || call.answers != nil || call.Mark != "2" {
		t.Fatalf("%+v", call)
	}
	a.say("3", done())
	if n := strings.Count(strings.Join(h.ended("t1"), ""), `"delta":"while parked"`); n != 1 {
		t.Fatalf("told %d times", n)
	}
}

// A partial answer is a short Run; what was said waits for the one that goes on.
func TestAPartialAnswerLeavesHeldBackWhatItWas(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, ids := parkedHouse(t, a, "q1", "q2")
	a.say("2", text("while parked")...)
	h.until("2")
	a.alone = true
	h.restart()
	if got := types(h.chat(answer("t1", yes(ids[0])))); got != resulted+"RUN_FINISHED" {
		t.Fatalf("got %s", got)
	}
	h.restart()
	a.say("3", done())
	want := resulted + "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"
	if got := types(h.chat(answer("t1", yes(ids[1])))); got != want {
		t.Fatalf("got %s", got)
	}
	if call := receive(h, a.called); len(call.answers) != 2 || call.Mark != "2" {
		t.Fatalf("%+v", call)
	}
}

// The last word of a parked Turn's upstream survives too.
func TestAnEndWhileParkedSurvives(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, ids := parkedHouse(t, a, "q1")
	a.say("2", append(text("sorry"), bridge.Output{End: &bridge.End{Failure: &bridge.Failure{Code: "agent_died", Message: "It died."}}})...)
	h.until("2")
	h.restart()
	events := h.chat(answer("t1", inbox.Answer{QuestionID: ids[0], Payload: []byte(`{"optionId":"no"}`)}))
	want := resulted + "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_ERROR"
	if got := types(events); got != want || !strings.Contains(events[len(events)-1], "agent_died") {
		t.Fatalf("got %s: %s", got, events[len(events)-1])
	}
	if len(a.called) > 0 {
		t.Fatal("the agent was called although it has ended")
	}
}

func TestARepeatedQuestionIsAskedOnce(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, ids := parkedHouse(t, a, "q1")
	a.say("2", permission("q1"))
	h.until("2")
	a.alone = true
	h.restart()
	a.say("3", permission("q1")) // settled by now, and perhaps not heard
	a.say("4", done())
	h.chat(answer("t1", yes(ids[0])))
	if n := len(h.approvals()); n != 1 {
		t.Fatalf("asked %d times", n)
	}
	again := receive(h, a.told)
	if call := receive(h, a.called); len(call.answers) != 1 || string(call.answers[0].Payload) != string(again.Payload) || again.UpstreamID != "q1" {
		t.Fatalf("%+v, then %+v", call, again)
	}
}

// An Agent whose upstream repeats nothing may use an id again.
func TestAnIDMayBeUsedAgainByWhoRepeatsNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, &scripted{script: permitTwice})
	h.chat(ask("t1", "hi"))
	h.chat(answer("t1", yes(h.openQuestion())))
	h.chat(answer("t1", yes(h.openQuestion())))
	if n := len(h.approvals()); n != 2 {
		t.Fatalf("asked %d times", n)
	}
}

// permitTwice asks under one id, and again under the same when that was answered.
func permitTwice(c bridge.Call, answers []bridge.Answer) []bridge.Output {
	results := 0
	for _, m := range c.Messages {
		if m.Role == "tool" {
			results++
		}
	}
	if answers == nil || results == 0 {
		return []bridge.Output{permission("q1"), {End: &bridge.End{Pending: []string{"q1"}}}}
	}
	return []bridge.Output{done()}
}
