// This file holds what is open in a log. It is the grammar's memory of single items; rules that
// concern a run or an owner are elsewhere.

package agui

// maxOpen bounds what may be open at once, and what is remembered as closed
// early. Agents open a handful of things; the lists are searched one by one.
const maxOpen = 1024

// streams are the items that have been started and not ended: those that are open in the log, and those that
// [Grammar.Admit] closed though their producer still thinks them open. It knows nothing of runs and owners.
// The lists are short in practice and searched from their ends: the newest item is the likeliest. A
// map would cost more on the path of a delta.
type streams struct {
	open   []item // in the order they were opened
	early  []item // closed early, the oldest first
	chunks int    // how many of the open ones chunks opened
	marked struct {
		open, early []item
		chunks      int
	}
}

// mark remembers the lists for undo. There is one mark, and it reuses its memory.
func (s *streams) mark() {
	s.marked.open = append(s.marked.open[:0], s.open...)
	s.marked.early = append(s.marked.early[:0], s.early...)
	s.marked.chunks = s.chunks
}

// undo goes back to the mark.
func (s *streams) undo() {
	s.open = append(s.open[:0], s.marked.open...)
	s.early = append(s.early[:0], s.marked.early...)
	s.chunks = s.marked.chunks
}

// clear forgets what is open; what was closed early may go on in the next run.
func (s *streams) clear() { s.open, s.chunks = s.open[:0], 0 }

// find returns the index of an open item, or -1. Steps have an owner as part of
// their identity and are looked for by findStep.
func (s *streams) find(k kind, id string) int {
	for i := len(s.open) - 1; i >= 0; i-- {
		if s.open[i].kind == k && s.open[i].id == id {
			return i
		}
	}
	return -1
}

// findStep returns the index of an owner's open step of a name, or -1.
func (s *streams) findStep(name, owner string) int {
	for i := range s.open {
		if o := &s.open[i]; o.kind == kindStep && o.id == name && o.owner == owner {
			return i
		}
	}
	return -1
}

// findEarly returns the index of an item that was closed early, or -1.
func (s *streams) findEarly(k kind, id, tag string) int {
	for i := len(s.early) - 1; i >= 0; i-- {
		if e := &s.early[i]; e.kind == k && e.id == id && (e.owner == tag || tag == "") {
			return i
		}
	}
	return -1
}

// takeEarly removes the early item at i.
func (s *streams) takeEarly(i int) item {
	it := s.early[i]
	s.early = append(s.early[:i], s.early[i+1:]...)
	return it
}

// spanOf is the innermost open span of a lane.
func (s *streams) spanOf(lane string) string {
	for i := len(s.open) - 1; i >= 0; i-- {
		if o := &s.open[i]; o.kind == kindSpan && o.owner == lane {
			return o.id
		}
	}
	return ""
}

// add opens an item.
func (s *streams) add(ev Event, it item) error {
	if len(s.open) >= maxOpen {
		return broken(RuleTooMany, ev, it.id)
	}
	s.open = append(s.open, it)
	return nil
}

// drop forgets the open item at i, keeping the order of the others.
func (s *streams) drop(i int) item {
	it := s.open[i]
	if it.chunk {
		s.chunks--
	}
	s.open = append(s.open[:i], s.open[i+1:]...)
	return it
}

// startStep opens a step. Its name may be open for other owners.
func (s *streams) startStep(e *StepStarted) error {
	if s.findStep(e.StepName, e.SubagentRunID) >= 0 {
		return broken(RuleAlreadyOpen, e, e.StepName)
	}
	return s.add(e, item{kind: kindStep, id: e.StepName, owner: e.SubagentRunID})
}

// endStep ends the owner's own step. An event of another owner names a step that is open, and is
// reported as that mistake.
func (s *streams) endStep(e *StepFinished) error {
	if i := s.findStep(e.StepName, e.SubagentRunID); i >= 0 {
		s.drop(i)
		return nil
	}
	if s.find(kindStep, e.StepName) >= 0 {
		return broken(RuleStepOwner, e, e.StepName)
	}
	return broken(RuleNotOpen, e, e.StepName)
}

// openFor returns the index of the open item that an event continues or ends.
func (s *streams) openFor(ev Event, m *move) (int, error) {
	i := s.find(m.kind, m.id)
	if i < 0 {
		return -1, broken(RuleNotOpen, ev, m.id)
	}
	if m.owner != "" && m.owner != s.open[i].owner {
		return -1, broken(RuleOwner, ev, m.id)
	}
	return i, nil
}

// isPlainDelta recognises the bulk of every stream: more of what is open. It has to stay cheap, so it looks at the event
// itself and not at its move.
func (s *streams) isPlainDelta(ev Event) bool {
	if s.chunks > 0 {
		return false
	}
	switch e := ev.(type) {
	case *TextMessageContent:
		return e.Delta != "" && s.goesOn(kindText, e.MessageID, e.SubagentRunID)
	case *ToolCallArgs:
		return e.Delta != "" && s.goesOn(kindTool, e.ToolCallID, e.SubagentRunID)
	case *ReasoningMessageContent:
		return e.Delta != "" && e.MessageID != "" && s.goesOn(kindThought, e.MessageID, e.SubagentRunID)
	}
	return false
}

// goesOn reports whether a delta's item is open and the delta's tag agrees with its owner.
func (s *streams) goesOn(k kind, id, tag string) bool {
	i := s.find(k, id)
	return i >= 0 && (tag == "" || tag == s.open[i].owner)
}

// give changes the owner of what is open or was closed early. A snapshot can do that; the item's end must then agree.
func (s *streams) give(k kind, id, owner string) {
	for _, list := range [...][]item{s.open, s.early} {
		for i := range list {
			if ownerKind(list[i].kind) == k && list[i].id == id {
				list[i].owner = owner
			}
		}
	}
}

// suspend closes the open item at i and remembers that its producer does not know. The oldest of too many is forgotten:
// what comes of it later is then refused.
func (s *streams) suspend(dst []Event, i int) []Event {
	it := s.drop(i)
	if len(s.early) == maxOpen {
		s.early = append(s.early[:0], s.early[1:]...)
	}
	s.early = append(s.early, it)
	return append(dst, it.end())
}

// suspendWhere closes the open items that match, the last opened first.
func (s *streams) suspendWhere(dst []Event, match func(*item) bool) []Event {
	for i := len(s.open) - 1; i >= 0; i-- {
		if match(&s.open[i]) {
			dst = s.suspend(dst, i)
		}
	}
	return dst
}

// makeRoom closes what may not be open in a lane when something of kind k begins there.
// Clients draw one block at a time in a lane: a text that is open while a thought begins would
// receive the thought's text in some of them.
func (s *streams) makeRoom(dst []Event, k kind, lane string) []Event {
	return s.suspendWhere(dst, func(o *item) bool {
		return o.owner == lane && (o.kind == kindText || o.kind == kindThought || o.kind == kindSpan && k != kindThought)
	})
}

// unfinished are the starts of what was closed early and may go on.
func (s *streams) unfinished() []Event {
	var starts []Event
	for i := range s.early {
		if k := s.early[i].kind; k != kindStep && k != kindAgent {
			starts = append(starts, s.early[i].start())
		}
	}
	return starts
}
