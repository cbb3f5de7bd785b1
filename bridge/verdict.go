package bridge

import (
	"slices"

	"aqueduct/agui"
	"aqueduct/store"
)

// verdict is the row of the table a request falls under.
type verdict int

const (
	takeJoin    verdict = iota // nothing new, or only what is settled already
	takeAnswer                 // answers an open Question, perhaps also an open call; no message follows
	takePrompt                 // a new message, and no response tails what is under way, or it may queue; a Turn without a message
	refuseBusy                 // a new message while a Turn runs that a response tails
	refuseEmpty                // nothing usable
)

// queues reports whether a message waits for the Turns under way. A branch does not: what it replaces may still grow.
func (in *intake) queues() bool {
	mode := in.req.OnBusy
	if mode == "" {
		mode = in.cfg.OnBusy
	}
	return mode == OnBusyQueue && in.branches.branch == nil && in.meets.under.queued < maxQueued
}

// empty reports whether all new messages are empty, so that no Agent is sent them, and the body has no forwarded props
// either.
func (in *intake) empty() bool {
	return len(in.fresh) > 0 && isEmptyJSON(in.req.Props) && !slices.ContainsFunc(in.fresh, hasContent)
}

func hasContent(m agui.Message) bool { return !m.Content.Blank() || len(m.ToolCalls) > 0 }

// goesOn reports whether a body that answers calls of clients' tools and brings a new message is one call of the Agent. It is
// one call at the Agent's own endpoint too: the message begins a Turn, whose history has the results. Middlewares send such
// bodies (MCP Apps, A2UI), with results that they made themselves. An Agent that is still reading answers is not interrupted.
// An Agent that keeps its own conversation receives them first.
func (in *intake) goesOn() bool {
	if !slices.ContainsFunc(in.fresh, hasContent) || in.branches.branch != nil || len(in.meets.under.left) == 0 || in.meets.under.tailed {
		return false
	}
	agent := in.agentID(in.cfg.Agents)
	return in.active.Waiting() && in.active.AgentID == agent && in.cfg.Agents.Protocol(in.session.Tenant, agent) != store.AgentACP
}

// The cases are in order of precedence. Nothing else of the request is looked at: what they test was found before
// (load, branches, meets).
// meets is loaded only where the body would begin a Turn beside one that is under way. In all other cases it is zero
// and not looked at.
func (in *intake) verdict() verdict {
	starts := in.starts()
	switch {
	case in.req.JoinOnly && in.exists:
		return takeJoin
	case in.req.JoinOnly:
		return refuseEmpty
	case len(in.answers.given) > 0 && in.goesOn():
		return takePrompt
	case len(in.answers.given) > 0:
		return takeAnswer
	case in.answers.calls.begins():
		return takePrompt
	case len(in.answers.calls.taken) > 0:
		return takeAnswer
	case in.empty() && len(in.req.Answers) > 0 && in.exists:
		return takeJoin
	case in.empty():
		return refuseEmpty
	case len(in.req.Answers) > 0 && in.exists && (len(in.fresh) == 0 || in.active != nil || in.req.Dialect == DialectTDesign):
		return takeJoin // settled or unknown Questions: named in the notes
	case starts && in.active != nil && in.req.Task != nil:
		return refuseBusy // a Task waits for what is under way, read or not
	case starts && (in.active == nil || !in.meets.under.tailed && !in.meets.under.asks):
		return takePrompt
	case starts && in.meets.under.asks, in.branches.branch != nil && in.branches.branch.regenerate:
		return takeJoin
	case starts && in.queues():
		return takePrompt
	case starts:
		return refuseBusy
	case in.exists:
		return takeJoin
	}
	return refuseEmpty
}
