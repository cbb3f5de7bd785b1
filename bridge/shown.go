package bridge

import (
	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// shownCalls are the tool calls that the log of a Turn has, as far as this process knows. An Agent that has us execute a
// tool may also send TOOL_CALL_* frames of its own for that call; the log must have each call once, so those frames are
// left out by what stands here.
type shownCalls struct {
	turnID string
	byID   map[string]*shownCall
}

// shownCall is one tool call in the log.
type shownCall struct {
	resulted bool
	byUs     bool // we wrote its start: the Agent's own frames of it are left out
	ours     bool // we execute it: we write its result
}

// note takes in an event of a tool call that is in the log.
func (s *shownCalls) note(ev agui.Event) {
	switch e := ev.(type) {
	case *agui.ToolCallStart:
		s.named(e.ToolCallID)
	case *agui.ToolCallResult:
		s.named(e.ToolCallID).resulted = true
	}
}

func (s *shownCalls) named(id string) *shownCall {
	c := s.byID[id]
	if c == nil {
		if s.byID == nil {
			s.byID = make(map[string]*shownCall)
		}
		c = &shownCall{}
		s.byID[id] = c
	}
	return c
}

// repeats reports whether an event of the Agent's is about a call that we show under the same id (tools.CallID). A call
// whose start the Agent sent first goes on with the Agent's arguments and end; the result of any call that we execute is
// ours.
func (s *shownCalls) repeats(ev agui.Event) bool {
	switch e := ev.(type) {
	case *agui.ToolCallStart:
		return s.byID[e.ToolCallID] != nil && (s.byID[e.ToolCallID].ours || s.byID[e.ToolCallID].byUs)
	case *agui.ToolCallArgs:
		return s.byID[e.ToolCallID] != nil && s.byID[e.ToolCallID].byUs
	case *agui.ToolCallEnd:
		return s.byID[e.ToolCallID] != nil && s.byID[e.ToolCallID].byUs
	case *agui.ToolCallResult:
		return s.byID[e.ToolCallID] != nil && s.byID[e.ToolCallID].ours
	}
	return false
}

// know takes from its row that a call is ours. A process that took the Turn over has no memory of the call's start.
// A row that names a Run was shown before this memory of the Turn began, here or in an earlier process.
func (s *shownCalls) know(call store.ToolCall) {
	if c := s.byID[call.ID]; c != nil {
		c.ours = true
	} else if call.RunID != "" && call.ArgsSHA256 != "" {
		*s.named(call.ID) = shownCall{resulted: call.InTranscript, byUs: true, ours: true}
		s.answeredAs(call.ID)
	}
}

// asked takes in the card of a Question, unless the card has an id of its own. A call of the Agent's under the same id would
// be a second card of the Question, with the Agent's words on it.
func (s *shownCalls) asked(q approval.Question) {
	if !q.Call.Carded && !q.ClientTool() {
		s.named(q.Call.ID).byUs = true
	}
}

// answeredAs has frames left out in which the Agent shows the call under the id that its :invoke was answered with.
func (s *shownCalls) answeredAs(id string) {
	*s.named(ToolCallID(s.turnID, id)) = shownCall{resulted: true, byUs: true, ours: true}
}

// has reports whether the log has the start of a call: in an earlier Run, or in this process's memory of the Turn.
func (s *shownCalls) has(call store.ToolCall) bool { return call.RunID != "" || s.byID[call.ID] != nil }

// shownByAgent reports whether the Agent has shown a call by its own frames.
func (s *shownCalls) shownByAgent(id string) bool { return s.byID[id] != nil && !s.byID[id].byUs }

// resulted reports whether the log has the result of a call.
func (s *shownCalls) resulted(id string) bool { return s.byID[id] != nil && s.byID[id].resulted }

// anyRunning reports whether the log has a call that we execute and not its result.
func (s *shownCalls) anyRunning() bool {
	for _, c := range s.byID {
		if c.ours && !c.resulted {
			return true
		}
	}
	return false
}

// shownTool keeps the name of the permission card for permissions.
func shownTool(name string) string {
	if name == approval.PermissionTool {
		return "tool." + name
	}
	return name
}
