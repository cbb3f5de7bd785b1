// This file has the rules for chunks. A chunk is start, content and end in one (AG-UI 1.0, "Chunk
// events"). Each lane, a subagent or the run itself, has at most one item chunks opened; what is not
// its next chunk ends it.

package agui

// expand turns a chunk into the events it stands for, and advances. It closes the lane's previous
// chunk item and nothing else. The start that a chunk stands for has no metadata or raw event of the
// chunk: these belong to its content, and must not be counted twice.
func (g *Grammar) expand(dst []Event, ev Event, m move) ([]Event, error) {
	s := &g.streams
	i, err := s.chunkOf(ev, &m)
	if err != nil {
		return dst, err
	}
	if i >= 0 && m.continues(&s.open[i]) {
		if !m.agrees(&s.open[i]) {
			return dst, broken(RuleChunkChanged, ev, s.open[i].id)
		}
		return m.appendContent(dst, &s.open[i]), nil
	}
	if m.id == "" || m.kind == kindTool && m.name == "" {
		return dst, broken(RuleChunkUnnamed, ev, m.id)
	}
	if i >= 0 {
		old := s.drop(i)
		dst = append(dst, old.end())
	}
	if m.kind == kindText && m.name == "" {
		m.name = RoleAssistant
	}
	start := m.start()
	if err := g.start(start, m.item); err != nil {
		return dst, err
	}
	it := &s.open[len(s.open)-1]
	it.chunk = true
	s.chunks++
	return m.appendContent(append(dst, start), it), nil
}

// chunkOf finds the open item that a chunk continues, or that it ends by opening another in the same lane; -1 when there
// is neither. A chunk may name its item, its lane, both or nothing.
func (s *streams) chunkOf(ev Event, m *move) (int, error) {
	if i := s.find(m.kind, m.id); m.id != "" && i >= 0 && s.open[i].chunk {
		if m.owner != "" && m.owner != s.open[i].owner {
			return -1, broken(RuleOwner, ev, m.id)
		}
		return i, nil
	}
	inLane, only, found := -1, -1, 0
	for i := range s.open {
		o := &s.open[i]
		if o.chunk && o.owner == m.owner && inLane < 0 {
			inLane = i
		}
		if o.chunk && o.kind == m.kind {
			only, found = i, found+1
		}
	}
	switch {
	case m.id != "" || m.owner != "" || inLane >= 0 && s.open[inLane].kind == m.kind, found == 0:
		return inLane, nil
	case found > 1:
		return -1, broken(RuleChunkWhose, ev, "")
	}
	return only, nil
}

// endsChunk reports whether an event ends the open chunk item of its lane, or (all) of every lane.
// An activity or a raw event may come between two chunks of one message. A terminal event or a
// snapshot of all messages ends chunks in every lane, any other event those of its own lane alone:
// subagents stream side by side.
func endsChunk(ev Event) (ends, all bool) {
	switch ev.(type) {
	case *Raw, *ActivitySnapshot, *ActivityDelta, *ReasoningEncryptedValue, *SubagentStarted:
		return false, false
	case *RunStarted, *RunFinished, *RunError, *MessagesSnapshot:
		return true, true
	}
	return true, false
}

// endChunks ends the chunk items ev ends by coming. An event that names one of
// them itself comes too late for it.
func (s *streams) endChunks(ev Event, m *move) error {
	ends, all := endsChunk(ev)
	if !ends {
		return nil
	}
	if m.act == actContinue || m.act == actEnd {
		if i := s.find(m.kind, m.id); i >= 0 && s.open[i].chunk {
			return broken(RuleChunkEnded, ev, m.id)
		}
	}
	lane := laneOf(ev)
	for i := len(s.open) - 1; i >= 0; i-- {
		if o := &s.open[i]; o.chunk && (all || o.owner == lane) {
			s.drop(i)
		}
	}
	return nil
}

// settleChunks ends what chunks opened in ev's lane, as a producer may. An event that itself goes on
// with such an item adopts it instead. endChunks is strict and settleChunks is not: a foreign stream
// that sends TEXT_MESSAGE_END for a message opened by chunks is in error, whereas a producer that
// does so means the end, and gets it.
func (s *streams) settleChunks(dst []Event, ev Event, m *move) []Event {
	ends, all := endsChunk(ev)
	if !ends {
		return dst
	}
	if m.act == actContinue || m.act == actEnd {
		if i := s.find(m.kind, m.id); i >= 0 && s.open[i].chunk {
			s.open[i].chunk = false
			s.chunks--
		}
	}
	lane := laneOf(ev)
	return s.suspendWhere(dst, func(o *item) bool { return o.chunk && (all || o.owner == lane) })
}
