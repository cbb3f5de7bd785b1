package bridge

// verdict is the row of the table a request falls under.
type verdict int

const (
	takeJoin    verdict = iota // nothing new, or only what is settled already
	takeAnswer                 // names an open Question
	takePrompt                 // a new message, and nobody waits for what is under way, or it may queue
	refuseBusy                 // a new message while a Turn runs that somebody tails
	refuseEmpty                // nothing usable
)

// queues reports whether a message waits for the Turns under way. A branch does not: what it replaces may still grow.
func (in *intake) queues() bool {
	mode := in.req.OnBusy
	if mode == "" {
		mode = in.s.cfg.OnBusy
	}
	return mode == OnBusyQueue && in.branch == nil && in.under.queued < maxQueued
}

func (in *intake) verdict() verdict {
	starts := len(in.fresh) > 0 || in.branch != nil
	switch {
	case in.req.JoinOnly && in.exists:
		return takeJoin
	case in.req.JoinOnly:
		return refuseEmpty
	case len(in.answers) > 0:
		return takeAnswer
	case len(in.req.Answers) > 0 && in.exists && (len(in.fresh) == 0 || in.active != nil || in.req.Dialect == DialectTDesign):
		return takeJoin // settled or unknown Questions: told so in the notes
	case starts && (in.active == nil || !in.under.tailed && !in.under.asks):
		return takePrompt
	case starts && in.under.asks, in.branch != nil && in.branch.regenerate:
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
