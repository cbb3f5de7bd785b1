package agui

import "strconv"

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
	if g.phase == running && g.isPlainDelta(ev) {
		return append(dst, ev), nil
	}
	if err := g.lifecycle(ev); err != nil {
		return dst, err
	}
	if g.phase == finished && ev.EventType() == TypeRunError {
		return dst, broken(RuleRunFinished, ev, g.runID)
	}
	g.mark()
	out, err := g.admit(dst, ev)
	if err != nil {
		g.undo()
		return dst, err
	}
	return out, nil
}

// isPlainDelta recognises the bulk of every stream: more of what is open.
func (g *Grammar) isPlainDelta(ev Event) bool {
	if g.chunks > 0 {
		return false
	}
	switch e := ev.(type) {
	case *TextMessageContent:
		return e.Delta != "" && g.goesOn(kindText, e.MessageID, e.SubagentRunID)
	case *ToolCallArgs:
		return e.Delta != "" && g.goesOn(kindTool, e.ToolCallID, e.SubagentRunID)
	case *ReasoningMessageContent:
		return e.Delta != "" && e.MessageID != "" && g.goesOn(kindThought, e.MessageID, e.SubagentRunID)
	}
	return false
}

func (g *Grammar) goesOn(k kind, id, tag string) bool {
	i := g.find(k, id)
	return i >= 0 && (tag == "" || tag == g.open[i].owner)
}

func (g *Grammar) admit(dst []Event, ev Event) ([]Event, error) {
	ev = g.named(ev)
	if p, ok := pieceOf(ev); ok {
		return g.admitChunk(dst, ev, p)
	}
	if g.chunks > 0 {
		dst = g.settleChunks(dst, ev)
	}
	switch e := ev.(type) {
	case *TextMessageContent, *ToolCallArgs, *ReasoningMessageContent:
		return g.admitContent(dst, ev)
	case *TextMessageEnd, *ToolCallEnd, *ReasoningMessageEnd:
		k, id, _ := continued(ev)
		return g.admitEnd(dst, ev, k, id, laneOf(ev))
	case *ReasoningEnd:
		return g.admitEnd(dst, ev, kindSpan, e.MessageID, e.SubagentRunID)
	case *StepFinished:
		if g.findStep(e.StepName, e.SubagentRunID) < 0 {
			return dst, nil // the end of none, or of one that a step of its name has ended
		}
		return g.put(dst, ev)
	case *TextMessageStart:
		return g.admitStart(dst, ev, kindText, e.MessageID, e.SubagentRunID)
	case *ToolCallStart:
		return g.admitStart(dst, ev, kindTool, e.ToolCallID, e.SubagentRunID)
	case *ReasoningStart:
		return g.admitStart(dst, ev, kindSpan, e.MessageID, e.SubagentRunID)
	case *ReasoningMessageStart:
		return g.admitStart(dst, ev, kindThought, e.MessageID, e.SubagentRunID)
	case *ToolCallResult:
		return g.put(g.suspendIf(dst, g.find(kindTool, e.ToolCallID)), ev)
	case *SubagentFinished, *SubagentError:
		return g.admitAgentEnd(dst, ev, laneOf(ev))
	case *StepStarted:
		// Two open steps of one name are fatal to official clients: the first ends. The
		// producer's two ends are then one too many, and left out.
		if i := g.findStep(e.StepName, e.SubagentRunID); i >= 0 {
			first := g.drop(i)
			dst = append(dst, endOf(&first))
		}
		return g.put(dst, ev)
	case *RunFinished:
		return g.admitFinish(dst, e)
	case *RunError:
		return g.put(g.closeAll(dst, nil), ev)
	}
	return g.put(dst, ev)
}

// put appends an event whose time has come.
func (g *Grammar) put(dst []Event, ev Event) ([]Event, error) {
	if err := g.advance(ev); err != nil {
		return dst, err
	}
	return append(dst, ev), nil
}

// admitContent reopens what Admit closed itself, and leaves empty deltas out.
func (g *Grammar) admitContent(dst []Event, ev Event) ([]Event, error) {
	k, id, _ := continued(ev)
	empty := isEmpty(ev)
	if g.find(k, id) < 0 {
		i := g.findAway(k, id, laneOf(ev))
		if i < 0 {
			return dst, broken(RuleNotOpen, ev, id)
		}
		if empty {
			return dst, nil
		}
		var err error
		if dst, err = g.reopen(dst, i); err != nil {
			return dst, err
		}
	}
	if empty {
		return dst, g.advance(ev)
	}
	return g.put(dst, ev)
}

func isEmpty(ev Event) bool {
	var delta string
	var b *Base
	switch e := ev.(type) {
	case *TextMessageContent:
		delta, b = e.Delta, &e.Base
	case *ToolCallArgs:
		delta, b = e.Delta, &e.Base
	case *ReasoningMessageContent:
		delta, b = e.Delta, &e.Base
	default:
		return false
	}
	return delta == "" && b.Metadata == nil && b.RawEvent == nil
}

// reopen opens again what was closed early, a thought together with its span.
func (g *Grammar) reopen(dst []Event, i int) ([]Event, error) {
	it := g.takeAway(i)
	it.chunk = false
	if it.kind == kindThought && it.extra != "" && g.find(kindSpan, it.extra) < 0 {
		if s := g.findAway(kindSpan, it.extra, it.owner); s >= 0 {
			var err error
			if dst, err = g.reopen(dst, s); err != nil {
				return dst, err
			}
		}
	}
	return g.put(g.makeRoom(dst, it.kind, it.owner), startOf(&it))
}

// admitEnd leaves out the end of what Admit has ended already.
func (g *Grammar) admitEnd(dst []Event, ev Event, k kind, id, tag string) ([]Event, error) {
	if g.find(k, id) < 0 {
		if i := g.findAway(k, id, tag); i >= 0 {
			g.takeAway(i)
			return dst, nil
		}
	}
	if k == kindSpan { // thoughts do not outlive their span
		for i := len(g.open) - 1; i >= 0; i-- {
			if o := &g.open[i]; o.kind == kindThought && o.extra == id {
				dst = g.suspendIf(dst, i)
			}
		}
	}
	return g.put(dst, ev)
}

func (g *Grammar) admitStart(dst []Event, ev Event, k kind, id, lane string) ([]Event, error) {
	if g.find(k, id) >= 0 {
		return dst, broken(RuleAlreadyOpen, ev, id)
	}
	if i := g.findAway(k, id, lane); i >= 0 {
		g.takeAway(i)
	}
	if owner, known := g.owners[entity{ownerKind(k), id}]; known && lane == "" {
		lane = owner
	}
	return g.put(g.makeRoom(dst, k, lane), ev)
}

// makeRoom closes what may not be open in a lane when something of kind k begins.
func (g *Grammar) makeRoom(dst []Event, k kind, lane string) []Event {
	for i := len(g.open) - 1; i >= 0; i-- {
		o := &g.open[i]
		if o.owner != lane {
			continue
		}
		switch o.kind {
		case kindText, kindThought:
			dst = g.suspendIf(dst, i)
		case kindSpan:
			if k != kindThought {
				dst = g.suspendIf(dst, i)
			}
		}
	}
	return dst
}

// suspendIf closes the open item at i, if there is one, and remembers that the
// producer does not know.
func (g *Grammar) suspendIf(dst []Event, i int) []Event {
	if i < 0 {
		return dst
	}
	it := g.drop(i)
	if len(g.away) == maxOpen {
		g.away = append(g.away[:0], g.away[1:]...)
	}
	g.away = append(g.away, it)
	return append(dst, endOf(&it))
}

func (g *Grammar) findAway(k kind, id, tag string) int {
	for i := len(g.away) - 1; i >= 0; i-- {
		a := &g.away[i]
		if a.kind == k && a.id == id && (a.owner == tag || tag == "") {
			return i
		}
	}
	return -1
}

func (g *Grammar) takeAway(i int) item {
	it := g.away[i]
	g.away = append(g.away[:i], g.away[i+1:]...)
	return it
}

// admitChunk is expand with room made for what the chunk opens.
func (g *Grammar) admitChunk(dst []Event, ev Event, p piece) ([]Event, error) {
	if i, err := g.chunkOpen(ev, p); err != nil || i >= 0 && p.continues(&g.open[i]) {
		return g.expand(dst, ev, p)
	}
	if i := g.find(p.kind, p.id); p.id != "" && i >= 0 {
		// Opened by a start, gone on by a chunk: no harm in it.
		if p.owner != "" && p.owner != g.open[i].owner {
			return dst, broken(RuleOwner, ev, p.id)
		}
		return p.appendContent(dst, &g.open[i]), nil
	}
	if i := g.findAway(p.kind, p.id, p.owner); i >= 0 && p.id != "" {
		it := g.takeAway(i)
		p.owner = it.owner
		if p.name == "" {
			p.name, p.extra = it.name, it.extra
		}
	}
	if p.id != "" && (p.kind != kindTool || p.name != "") {
		dst = g.makeRoom(dst, p.kind, p.owner)
	}
	return g.expand(dst, ev, p)
}

// settleChunks ends what chunks opened in ev's lane. An event that itself goes on
// with such an item adopts it instead.
func (g *Grammar) settleChunks(dst []Event, ev Event) []Event {
	ends, all := endsChunk(ev)
	if !ends {
		return dst
	}
	k, id, names := continued(ev)
	lane := laneOf(ev)
	for i := len(g.open) - 1; i >= 0; i-- {
		o := &g.open[i]
		switch {
		case !o.chunk:
		case names && o.kind == k && o.id == id:
			o.chunk = false
			g.chunks--
		case all || o.owner == lane:
			dst = g.suspendIf(dst, i)
		}
	}
	return dst
}

// admitAgentEnd closes what a subagent leaves open before the subagent itself.
func (g *Grammar) admitAgentEnd(dst []Event, ev Event, id string) ([]Event, error) {
	if !g.agents[id] {
		if i := g.findAway(kindAgent, id, id); i >= 0 {
			g.takeAway(i)
			return dst, nil
		}
	}
	for i := len(g.open) - 1; i >= 0; i-- {
		if o := &g.open[i]; o.owner == id && o.kind != kindAgent {
			dst = g.suspendIf(dst, i)
		}
	}
	return g.put(dst, ev)
}

// admitFinish fills in the ids an adapter forgot and closes everything.
func (g *Grammar) admitFinish(dst []Event, e *RunFinished) ([]Event, error) {
	if e.RunID == "" || e.ThreadID == "" {
		full := *e
		if full.RunID == "" {
			full.RunID = g.runID
		}
		if full.ThreadID == "" {
			full.ThreadID = g.threadID
		}
		e = &full
	}
	if err := g.mayFinish(e); err != nil {
		return dst, err
	}
	outcome := e.Outcome
	if outcome == nil {
		outcome = &Outcome{Type: OutcomeSuccess}
	}
	return g.put(g.closeAll(dst, outcome), e)
}

// named gives an id to reasoning that came without one. Ids contain the run's,
// so that thoughts of two runs do not become one message.
func (g *Grammar) named(ev Event) Event {
	switch e := ev.(type) {
	case *ReasoningStart:
		if e.MessageID == "" {
			g.unnamed.span = g.mint()
			return &ReasoningStart{Sub: e.Sub, MessageID: g.unnamed.span}
		}
	case *ReasoningEnd:
		if e.MessageID == "" {
			return &ReasoningEnd{Sub: e.Sub, MessageID: g.unnamed.span}
		}
	case *ReasoningMessageStart:
		if e.MessageID == "" {
			g.unnamed.thought = g.mint()
			return &ReasoningMessageStart{Sub: e.Sub, MessageID: g.unnamed.thought}
		}
	case *ReasoningMessageContent:
		if e.MessageID == "" {
			return &ReasoningMessageContent{Sub: e.Sub, MessageID: g.unnamed.thought, Delta: e.Delta}
		}
	case *ReasoningMessageEnd:
		if e.MessageID == "" {
			return &ReasoningMessageEnd{Sub: e.Sub, MessageID: g.unnamed.thought}
		}
	}
	return ev
}

func (g *Grammar) mint() string {
	g.minted++
	return g.runID + ":thinking:" + strconv.Itoa(g.minted)
}
