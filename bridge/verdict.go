package bridge

// verdict is the row of the table a request falls under.
type verdict int

const (
	takeJoin    verdict = iota // nothing new, or only what is settled already
	takeAnswer                 // names an open Question
	takePrompt                 // a new message, and no prompt is being answered
	refuseBusy                 // a new message while a Turn runs
	refuseEmpty                // nothing usable
)

func (in *intake) verdict() verdict {
	paused := in.active != nil && in.active.Status.Paused()
	unprompted := in.active != nil && !paused && isUnprompted(*in.active)
	switch {
	case in.req.JoinOnly && in.exists:
		return takeJoin
	case in.req.JoinOnly:
		return refuseEmpty
	case len(in.answers) > 0:
		return takeAnswer
	case len(in.req.Answers) > 0 && in.exists && (len(in.fresh) == 0 || in.active != nil || in.req.Dialect == DialectTDesign):
		return takeJoin // settled or unknown Questions: told so in the notes
	case len(in.fresh) > 0 && (in.active == nil || unprompted):
		return takePrompt
	case len(in.fresh) > 0 && !paused:
		return refuseBusy
	case in.exists:
		return takeJoin
	}
	return refuseEmpty
}
