// This file is the producer's side of the grammar. Agents and their adapters break the rules of
// AG-UI in a small number of known ways, and official clients end the stream for each of them. Admit
// repairs what can be repaired without a guess, so that a log holds legal streams only and no reader
// has to be tolerant.

package agui

// Admit appends to dst what has to be written so that ev may be: what must be
// closed first, then ev itself, made legal. It is how a producer writes a log.
//
//   - Chunks become start, content and end. Empty deltas go, unless they carry
//     metadata or a raw event.
//   - A lane (a subagent, or the run itself) has one text message open at a time,
//     and neither text nor tool calls begin inside reasoning. What is closed for
//     that reason is reopened, under its own id, when more of it comes, be it in a
//     later run; its end is then left out.
//   - A result ends its call. A step ends an open one of its name; the end of a step that is
//     not open is left out. A terminal event ends everything.
//   - Reasoning without ids, as the retired THINKING_* events were, gets some.
//
// What cannot be made legal is a [*GrammarError]; nothing is appended and the
// Grammar stays as it was.
func (g *Grammar) Admit(dst []Event, ev Event) ([]Event, error) {
	if g.run.phase == running && g.streams.isPlainDelta(ev) {
		return append(dst, ev), nil
	}
	if err := g.run.allows(ev); err != nil {
		return dst, err
	}
	if g.run.phase == finished && ev.EventType() == TypeRunError {
		return dst, broken(RuleRunFinished, ev, g.run.runID)
	}
	// What has an owner, and which subagents are active, is only ever recorded together with a success.
	thinking := g.thinking
	g.streams.mark()
	out, err := g.admit(dst, ev)
	if err != nil {
		g.streams.undo()
		g.thinking = thinking
		return dst, err
	}
	return out, nil
}

// admit repairs one event. What comes before it is closed first, so that the event itself is legal
// when put checks it. An error after that leaves half of the work in the lists; Admit undoes it.
func (g *Grammar) admit(dst []Event, ev Event) ([]Event, error) {
	ev = g.thinking.name(ev, g.run.runID)
	m := moveOf(ev)
	if m.act == actChunk {
		return g.admitChunk(dst, ev, m)
	}
	if g.streams.chunks > 0 {
		dst = g.streams.settleChunks(dst, ev, &m)
	}
	switch m.act {
	case actBegin:
		return g.admitStart(dst, ev, &m)
	case actContinue:
		return g.admitContent(dst, ev, &m)
	case actEnd:
		return g.admitEnd(dst, ev, &m)
	case actNone, actChunk:
	}
	switch e := ev.(type) {
	case *StepStarted:
		// Two open steps of one name are fatal to official clients: the first ends. The
		// producer's two ends are then one too many, and left out.
		if i := g.streams.findStep(e.StepName, e.SubagentRunID); i >= 0 {
			first := g.streams.drop(i)
			dst = append(dst, first.end())
		}
	case *StepFinished:
		if g.streams.findStep(e.StepName, e.SubagentRunID) < 0 {
			return dst, nil // it was never started, or another step of its name has ended it
		}
	case *ToolCallResult:
		if i := g.streams.find(kindTool, e.ToolCallID); i >= 0 {
			dst = g.streams.suspend(dst, i)
		}
	case *SubagentFinished, *SubagentError:
		return g.admitAgentEnd(dst, ev, laneOf(ev))
	case *RunFinished:
		return g.admitFinish(dst, e)
	case *RunError:
		dst = g.closeAll(dst, nil)
	}
	return g.put(dst, ev, &m)
}

// put appends an event whose time has come. Every event that Admit appends goes through here or is
// an end that suspend has made, so a log replayed through Check meets no broken rule.
func (g *Grammar) put(dst []Event, ev Event, m *move) ([]Event, error) {
	if err := g.advance(ev, m); err != nil {
		return dst, err
	}
	return append(dst, ev), nil
}

// admitContent reopens what Admit closed itself, and leaves empty deltas out.
func (g *Grammar) admitContent(dst []Event, ev Event, m *move) ([]Event, error) {
	if g.streams.find(m.kind, m.id) < 0 {
		i := g.streams.findEarly(m.kind, m.id, laneOf(ev))
		if i < 0 {
			return dst, broken(RuleNotOpen, ev, m.id)
		}
		if m.empty() {
			return dst, nil
		}
		var err error
		if dst, err = g.reopen(dst, i); err != nil {
			return dst, err
		}
	}
	if m.empty() {
		return dst, g.advance(ev, m)
	}
	return g.put(dst, ev, m)
}

// reopen opens again what was closed early, a thought together with its span.
// The producer has not noticed that the item was closed: it sent a message, then a tool call without
// ending the message, and now sends more of the message. The reopened item keeps its id, so that
// clients append to the message they have.
func (g *Grammar) reopen(dst []Event, i int) ([]Event, error) {
	s := &g.streams
	it := s.takeEarly(i)
	it.chunk = false
	if it.kind == kindThought && it.extra != "" && s.find(kindSpan, it.extra) < 0 {
		if span := s.findEarly(kindSpan, it.extra, it.owner); span >= 0 {
			var err error
			if dst, err = g.reopen(dst, span); err != nil {
				return dst, err
			}
		}
	}
	dst = s.makeRoom(dst, it.kind, it.owner)
	start := it.start()
	return g.put(dst, start, &move{item: it, act: actBegin})
}

// admitEnd leaves out the end of what Admit has ended already.
func (g *Grammar) admitEnd(dst []Event, ev Event, m *move) ([]Event, error) {
	s := &g.streams
	if s.find(m.kind, m.id) < 0 {
		if i := s.findEarly(m.kind, m.id, m.owner); i >= 0 {
			s.takeEarly(i)
			return dst, nil
		}
	}
	if m.kind == kindSpan { // thoughts do not outlive their span
		dst = s.suspendWhere(dst, func(o *item) bool { return o.kind == kindThought && o.extra == m.id })
	}
	return g.put(dst, ev, m)
}

// admitStart opens an item in a lane that has room for it. A start of something closed early is the
// producer's own second start of it: the early entry goes, or the next delta would open the item a
// third time.
func (g *Grammar) admitStart(dst []Event, ev Event, m *move) ([]Event, error) {
	s := &g.streams
	if s.find(m.kind, m.id) >= 0 {
		return dst, broken(RuleAlreadyOpen, ev, m.id)
	}
	lane := m.owner
	if i := s.findEarly(m.kind, m.id, lane); i >= 0 {
		s.takeEarly(i)
	}
	if lane == "" {
		lane = g.owners[ownedItem{ownerKind(m.kind), m.id}]
	}
	return g.put(s.makeRoom(dst, m.kind, lane), ev, m)
}

// admitChunk is expand with room made for what the chunk opens. A chunk may continue an item that an
// explicit start opened; adapters mix the two forms. A chunk of an item that was closed early takes
// over the owner and names that were given when it was first opened, since later chunks leave them
// out.
func (g *Grammar) admitChunk(dst []Event, ev Event, m move) ([]Event, error) {
	s := &g.streams
	if i, err := s.chunkOf(ev, &m); err != nil || i >= 0 && m.continues(&s.open[i]) {
		return g.expand(dst, ev, m)
	}
	if i := s.find(m.kind, m.id); m.id != "" && i >= 0 { // opened by a start, continued by a chunk
		if _, err := s.openFor(ev, &m); err != nil {
			return dst, err
		}
		return m.appendContent(dst, &s.open[i]), nil
	}
	if i := s.findEarly(m.kind, m.id, m.owner); i >= 0 && m.id != "" {
		it := s.takeEarly(i)
		m.owner = it.owner
		if m.name == "" {
			m.name, m.extra = it.name, it.extra
		}
	}
	if m.id != "" && (m.kind != kindTool || m.name != "") {
		dst = s.makeRoom(dst, m.kind, m.owner)
	}
	return g.expand(dst, ev, m)
}

// admitAgentEnd closes what a subagent leaves open before the subagent itself.
func (g *Grammar) admitAgentEnd(dst []Event, ev Event, id string) ([]Event, error) {
	s := &g.streams
	if !g.agents[id] {
		if i := s.findEarly(kindAgent, id, id); i >= 0 {
			s.takeEarly(i)
			return dst, nil
		}
	}
	dst = s.suspendWhere(dst, func(o *item) bool { return o.owner == id && o.kind != kindAgent })
	return g.put(dst, ev, &move{})
}

// admitFinish closes everything, subagents in a way that fits the run's outcome.
func (g *Grammar) admitFinish(dst []Event, e *RunFinished) ([]Event, error) {
	e = g.run.withIDs(e)
	if err := g.run.checkFinish(e); err != nil {
		return dst, err
	}
	outcome := e.Outcome
	if outcome == nil {
		outcome = &Outcome{Type: OutcomeSuccess}
	}
	return g.put(g.closeAll(dst, outcome), e, &move{})
}
