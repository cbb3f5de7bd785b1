package agui

// SubagentRunEnded is the code of the SUBAGENT_ERROR that ends a subagent whose
// run ended before it.
const SubagentRunEnded = "run_ended"

// CloseAll appends the events that close all that is open, the last opened
// first, and advances. When the producer goes on with any of it, [Grammar.Admit]
// opens it again.
func (g *Grammar) CloseAll(dst []Event) []Event { return g.closeAll(dst, nil) }

// Unfinished are the starts of what was closed early and its producer may go on with.
func (g *Grammar) Unfinished() []Event {
	var starts []Event
	for i := range g.away {
		if k := g.away[i].kind; k != kindStep && k != kindAgent {
			starts = append(starts, startOf(&g.away[i]))
		}
	}
	return starts
}

// closeAll closes everything for a run that ends with an outcome; nil means that
// how it ends is unknown, or that it failed.
func (g *Grammar) closeAll(dst []Event, outcome *Outcome) []Event {
	for len(g.open) > 0 {
		last := len(g.open) - 1
		if g.open[last].kind != kindAgent {
			dst = g.suspendIf(dst, last)
			continue
		}
		id := g.open[last].id
		g.suspendIf(nil, last)
		g.agents[id] = false
		dst = append(dst, agentEnd(id, outcome))
	}
	return dst
}

// agentEnd says of a subagent what the run's outcome says of the run.
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

func startOf(it *item) Event {
	sub := Sub{SubagentRunID: it.owner}
	switch it.kind {
	case kindTool:
		return &ToolCallStart{Sub: sub, ToolCallID: it.id, ToolCallName: it.name, ParentMessageID: it.extra}
	case kindThought:
		return &ReasoningMessageStart{Sub: sub, MessageID: it.id}
	case kindSpan:
		return &ReasoningStart{Sub: sub, MessageID: it.id}
	}
	return &TextMessageStart{Sub: sub, MessageID: it.id, Role: it.name, Name: it.extra}
}

func endOf(it *item) Event {
	sub := Sub{SubagentRunID: it.owner}
	switch it.kind {
	case kindTool:
		return &ToolCallEnd{Sub: sub, ToolCallID: it.id}
	case kindThought:
		return &ReasoningMessageEnd{Sub: sub, MessageID: it.id}
	case kindSpan:
		return &ReasoningEnd{Sub: sub, MessageID: it.id}
	case kindStep:
		return &StepFinished{Sub: sub, StepName: it.id}
	case kindAgent:
		return agentEnd(it.id, nil)
	}
	return &TextMessageEnd{Sub: sub, MessageID: it.id}
}
