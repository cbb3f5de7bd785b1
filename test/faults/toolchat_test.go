package faults_test

import (
	"encoding/json"
	"testing"
)

// callEvents are the events of one tool call in a log, and the results among them.
func callEvents(log []event, id string) (kinds []string, result string) {
	for _, e := range log {
		var body struct{ ToolCallID, Content string }
		if json.Unmarshal([]byte(e.data), &body) == nil && body.ToolCallID == id {
			kinds = append(kinds, e.kind())
			result += body.Content
		}
	}
	return kinds, result
}

// chatHas checks that a thread's log, as a server has it, shows a call once, and with this result.
func (s *server) chatHas(t *testing.T, thread, id, result string) {
	t.Helper()
	_, run := s.settled(t, thread)
	kinds, got := callEvents(s.whole(t, thread, run.LastSeq), id)
	if len(kinds) != 4 || kinds[0] != "TOOL_CALL_START" || kinds[3] != "TOOL_CALL_RESULT" || got != result {
		t.Errorf("thread %s shows %v, and as result %s", thread, kinds, got)
	}
}

// TestToolCallAtAnotherServer: a call that comes to another server than the one that writes its chat is shown there, once:
// while both live; and when the writer is killed between the call's row and its events, by the server that takes over.
func TestToolCallAtAnotherServer(t *testing.T) {
	t.Parallel()
	p := newPair(t, asksNobody)
	first, second := p.both[0], p.both[1]
	c := p.begin(first, "T")
	call := second.pay(c)
	if call.Status != "succeeded" {
		t.Fatalf("%+v", call)
	}
	p.payer.leave <- struct{}{}
	for _, s := range p.both {
		s.chatHas(t, "T", call.ToolCallID, `{"paid":true}`)
	}
	c = p.begin(first, "K")
	first.kill()
	call = second.pay(c)
	if call.Status != "succeeded" {
		t.Fatalf("%+v", call)
	}
	p.first() // fences its namesake, so that the test need not wait until that is missed
	for _, s := range p.both {
		s.chatHas(t, "K", call.ToolCallID, `{"paid":true}`)
	}
}
