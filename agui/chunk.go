package agui

// A chunk is start, content and end in one (AG-UI 1.0, "Chunk events"). Each
// lane, a subagent or the run itself, has at most one item chunks opened; what
// is not its next chunk ends it.

// piece is a chunk of any kind.
type piece struct {
	item
	base  Base
	delta string
}

func pieceOf(ev Event) (piece, bool) {
	switch e := ev.(type) {
	case *TextMessageChunk:
		return piece{item{kind: kindText, id: e.MessageID, owner: e.SubagentRunID, name: e.Role, extra: e.Name}, e.Base, e.Delta}, true
	case *ToolCallChunk:
		return piece{item{kind: kindTool, id: e.ToolCallID, owner: e.SubagentRunID, name: e.ToolCallName, extra: e.ParentMessageID}, e.Base, e.Delta}, true
	case *ReasoningMessageChunk:
		return piece{item{kind: kindThought, id: e.MessageID, owner: e.SubagentRunID}, e.Base, e.Delta}, true
	}
	return piece{}, false
}

// expand turns a chunk into the events it stands for, and advances. It closes
// the lane's previous chunk item and nothing else.
func (g *Grammar) expand(dst []Event, ev Event, p piece) ([]Event, error) {
	i, err := g.chunkOpen(ev, p)
	if err != nil {
		return dst, err
	}
	if i >= 0 && p.continues(&g.open[i]) {
		if !p.agrees(&g.open[i]) {
			return dst, broken(RuleChunkChanged, ev, g.open[i].id)
		}
		return p.appendContent(dst, &g.open[i]), nil
	}
	if p.id == "" || p.kind == kindTool && p.name == "" {
		return dst, broken(RuleChunkUnnamed, ev, p.id)
	}
	if i >= 0 {
		old := g.drop(i)
		dst = append(dst, endOf(&old))
	}
	if p.kind == kindText && p.name == "" {
		p.name = RoleAssistant
	}
	start := startOf(&p.item)
	if err := g.advance(start); err != nil {
		return dst, err
	}
	it := &g.open[len(g.open)-1]
	it.chunk = true
	g.chunks++
	return p.appendContent(append(dst, start), it), nil
}

// continues tells whether a chunk is the next of an open item.
func (p *piece) continues(it *item) bool {
	return it.kind == p.kind && (p.id == "" || p.id == it.id)
}

// chunkOpen finds the open chunk item of the lane a chunk belongs to, or -1.
func (g *Grammar) chunkOpen(ev Event, p piece) (int, error) {
	if i := g.find(p.kind, p.id); p.id != "" && i >= 0 && g.open[i].chunk {
		if p.owner != "" && p.owner != g.open[i].owner {
			return -1, broken(RuleOwner, ev, p.id)
		}
		return i, nil
	}
	i := g.chunkIn(p.owner)
	if p.id != "" || p.owner != "" || i >= 0 && g.open[i].kind == p.kind {
		return i, nil
	}
	return g.onlyChunk(ev, p.kind, i)
}

func (g *Grammar) chunkIn(lane string) int {
	for i := range g.open {
		if g.open[i].chunk && g.open[i].owner == lane {
			return i
		}
	}
	return -1
}

// onlyChunk serves a chunk that names neither item nor lane: it goes on with
// the one open item of its kind.
func (g *Grammar) onlyChunk(ev Event, k kind, otherwise int) (int, error) {
	only := otherwise
	found := 0
	for i := range g.open {
		if o := &g.open[i]; o.chunk && o.kind == k {
			only, found = i, found+1
		}
	}
	if found > 1 {
		return -1, broken(RuleChunkWhose, ev, "")
	}
	return only, nil
}

// agrees: a chunk that goes on may repeat what the first one said, not change it.
func (p *piece) agrees(it *item) bool {
	if p.owner != "" && p.owner != it.owner {
		return false
	}
	return (p.name == "" || p.name == it.name) && (p.extra == "" || p.extra == it.extra)
}

// appendContent appends what a chunk adds to its item, if anything. What the
// chunk carries beside its delta belongs to the item, and so is never dropped.
func (p *piece) appendContent(dst []Event, it *item) []Event {
	if p.delta == "" && p.base.RawEvent == nil && p.base.Metadata == nil {
		return dst
	}
	sub := Sub{Base: p.base, SubagentRunID: it.owner}
	switch p.kind {
	case kindTool:
		return append(dst, &ToolCallArgs{Sub: sub, ToolCallID: it.id, Delta: p.delta})
	case kindThought:
		return append(dst, &ReasoningMessageContent{Sub: sub, MessageID: it.id, Delta: p.delta})
	}
	return append(dst, &TextMessageContent{Sub: sub, MessageID: it.id, Delta: p.delta})
}

// endsChunk tells whether an event ends the open chunk item of its lane, or
// (all) of every lane.
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
func (g *Grammar) endChunks(ev Event) error {
	ends, all := endsChunk(ev)
	if !ends {
		return nil
	}
	if k, id, ok := continued(ev); ok {
		if i := g.find(k, id); i >= 0 && g.open[i].chunk {
			return broken(RuleChunkEnded, ev, id)
		}
	}
	lane := laneOf(ev)
	for i := len(g.open) - 1; i >= 0; i-- {
		if o := &g.open[i]; o.chunk && (all || o.owner == lane) {
			g.drop(i)
		}
	}
	return nil
}

// continued is the item an event goes on with or ends.
func continued(ev Event) (k kind, id string, ok bool) {
	switch e := ev.(type) {
	case *TextMessageContent:
		return kindText, e.MessageID, true
	case *TextMessageEnd:
		return kindText, e.MessageID, true
	case *ToolCallArgs:
		return kindTool, e.ToolCallID, true
	case *ToolCallEnd:
		return kindTool, e.ToolCallID, true
	case *ReasoningMessageContent:
		return kindThought, e.MessageID, true
	case *ReasoningMessageEnd:
		return kindThought, e.MessageID, true
	}
	return 0, "", false
}
