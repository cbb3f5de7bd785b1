// This file ends what a producer leaves open. A client that sees RUN_FINISHED while a message is
// open reports an error, and one that sees no end at all shows the message as still being written.

package agui

// SubagentRunEnded is the code of the SUBAGENT_ERROR that ends a subagent whose
// run ended before it.
const SubagentRunEnded = "run_ended"

// CloseAll appends the events that close all that is open, the last opened
// first, and advances. When the producer goes on with any of it, [Grammar.Admit]
// opens it again.
func (g *Grammar) CloseAll(dst []Event) []Event { return g.closeAll(dst, nil) }

// Unfinished are the starts of what was closed early and its producer may go on with.
func (g *Grammar) Unfinished() []Event { return g.streams.unfinished() }

// closeAll closes everything for a run that ends with an outcome; nil means that how it ends is
// unknown, or that it failed. Items of a subagent were opened after it, so they are closed before
// it. Everything goes to the early list: an agent that survives the end of its Run may continue a
// message in the next Run, under the same id.
func (g *Grammar) closeAll(dst []Event, outcome *Outcome) []Event {
	s := &g.streams
	for len(s.open) > 0 {
		last := len(s.open) - 1
		it := s.open[last]
		dst = s.suspend(dst, last)
		if it.kind == kindAgent {
			g.agents[it.id] = false
			dst[len(dst)-1] = agentEnd(it.id, outcome)
		}
	}
	return dst
}

// agentEnd returns the end of a subagent that matches the run's outcome.
// A subagent whose run was interrupted is suspended, not failed: it goes on when the interrupt is
// answered.
func agentEnd(id string, outcome *Outcome) Event {
	sub := Sub{SubagentRunID: id}
	switch {
	case outcome != nil && outcome.Type == OutcomeSuccess:
		return &SubagentFinished{Sub: sub}
	case outcome != nil && outcome.Type == OutcomeInterrupt:
		ended := &SubagentOutcome{Type: SubagentSuspended}
		for i := range outcome.Interrupts {
			if outcome.Interrupts[i].SubagentRunID == id {
				ended.InterruptIDs = append(ended.InterruptIDs, outcome.Interrupts[i].ID)
			}
		}
		return &SubagentFinished{Sub: sub, Outcome: ended}
	}
	return &SubagentError{Sub: sub, Message: "The run ended before this subagent did.", Code: SubagentRunEnded}
}
