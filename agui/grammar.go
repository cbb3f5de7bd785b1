// This file is the state machine of AG-UI streams: which event may follow which. Its parts are the
// run (lifecycle.go), the items that are open (streams.go, chunk.go), whom they belong to (owner.go)
// and what an event does to an item (move.go).

package agui

// Grammar knows what may follow. There is one for each log; the zero value is at the log's
// beginning. A log is written through [Grammar.Admit], a foreign stream judged with [Grammar.Check];
// replaying a log through Check brings a Grammar to where the log ends. It is not safe for
// concurrent use. Its owner is the writer or checker of the log, one goroutine at a time; a Turn's
// run keeps one, and a replica that takes over a session makes a new one by replay. Memory is
// bounded: maxOpen items are open, and owners are forgotten with each new run.
type Grammar struct {
	run      lifecycle
	streams  streams
	owners   owners          // of everything this run has started
	agents   map[string]bool // this run's subagents; true is active
	thinking thinkingIDs
}

// Running reports whether a run has been started and not ended.
func (g *Grammar) Running() bool { return g.run.phase == running }

// Open reports whether the message, call or thought of an event is open. One that was closed early and may continue counts as
// open.
func (g *Grammar) Open(ev Event) bool {
	m := moveOf(ev)
	return g.streams.find(m.kind, m.id) >= 0 || g.streams.findEarly(m.kind, m.id, "") >= 0
}

// Check verifies that ev may come next, and advances if so. A broken rule is a
// [*GrammarError] and leaves the Grammar as it was.
func (g *Grammar) Check(ev Event) error {
	if err := g.run.allows(ev); err != nil {
		return err
	}
	m := moveOf(ev)
	if m.act != actChunk && g.streams.chunks == 0 {
		return g.advance(ev, &m)
	}
	g.streams.mark()
	var err error
	if m.act == actChunk {
		_, err = g.expand(nil, ev, m)
	} else if err = g.streams.endChunks(ev, &m); err == nil {
		err = g.advance(ev, &m)
	}
	if err != nil {
		g.streams.undo()
	}
	return err
}

// advance applies the rules of one event that is no chunk, whose time has come.
// It changes nothing when it fails, except through expand: a chunk may have ended the item before it
// when the next one turns out to be illegal. That is why Check marks the lists only where chunks are
// involved.
func (g *Grammar) advance(ev Event, m *move) error {
	switch m.act {
	case actBegin:
		return g.start(ev, m.item)
	case actContinue, actEnd:
		i, err := g.streams.openFor(ev, m)
		if err == nil && m.act == actEnd {
			g.streams.drop(i)
		}
		return err
	case actNone, actChunk:
	}
	switch e := ev.(type) {
	case *StepStarted:
		return g.streams.startStep(e)
	case *StepFinished:
		return g.streams.endStep(e)
	case *SubagentStarted:
		return g.startAgent(e)
	case *SubagentFinished:
		return g.endAgent(ev, e.SubagentRunID)
	case *SubagentError:
		return g.endAgent(ev, e.SubagentRunID)
	case *ToolCallResult:
		g.own(kindText, e.MessageID, e.SubagentRunID)
	case *ActivitySnapshot:
		if _, known := g.owners[ownedItem{kindActivity, e.MessageID}]; !known || e.Replace == nil || *e.Replace {
			g.own(kindActivity, e.MessageID, e.SubagentRunID)
		}
	case *ActivityDelta:
		return g.owners.check(ev, kindActivity, e.MessageID, e.SubagentRunID)
	case *ReasoningEncryptedValue:
		return g.owners.checkEncrypted(e)
	case *MessagesSnapshot:
		g.ownAll(e.Messages)
	case *RunStarted:
		return g.startRun(e)
	case *RunFinished:
		return g.finishRun(e)
	case *RunError:
		g.run.phase = failed
		g.streams.clear()
	}
	return nil
}

// start opens an item for whom it belongs to. An item that this run has had before keeps its owner.
func (g *Grammar) start(ev Event, it item) error {
	var err error
	switch it.kind {
	case kindThought:
		it.extra = g.streams.spanOf(it.owner)
	case kindTool:
		if it.owner, err = g.owners.ofCall(ev, &it); err != nil {
			return err
		}
	}
	if g.streams.find(it.kind, it.id) >= 0 {
		return broken(RuleAlreadyOpen, ev, it.id)
	}
	k := ownerKind(it.kind)
	if err := g.owners.check(ev, k, it.id, it.owner); err != nil {
		return err
	}
	owner, known := g.owners[ownedItem{k, it.id}]
	if known {
		it.owner = owner
	}
	if err = g.streams.add(ev, it); err == nil && !known {
		g.own(k, it.id, it.owner)
	}
	return err
}

// own records who a thing belongs to, and gives it to them if it is open.
func (g *Grammar) own(k kind, id, owner string) {
	if g.owners == nil {
		g.owners = make(owners)
	}
	g.owners[ownedItem{k, id}] = owner
	g.streams.give(k, id, owner)
}

// ownAll records the owners of messages that arrive whole, not as a stream.
func (g *Grammar) ownAll(messages []Message) {
	for i := range messages {
		m := &messages[i]
		k := kindText
		switch m.Role {
		case RoleReasoning:
			k = kindThought
		case RoleActivity:
			k = kindActivity
		}
		g.own(k, m.ID, m.SubagentRunID)
		for j := range m.ToolCalls {
			g.own(kindTool, m.ToolCalls[j].ID, m.SubagentRunID)
		}
	}
}

// startAgent opens a subagent. Ids are good for one start in a run: clients keep a subagent's
// messages under its id.
func (g *Grammar) startAgent(e *SubagentStarted) error {
	if _, used := g.agents[e.SubagentRunID]; used {
		return broken(RuleSubagentUsed, e, e.SubagentRunID)
	}
	if _, known := g.agents[e.ParentSubagentRunID]; !known && e.ParentSubagentRunID != "" {
		return broken(RuleParent, e, e.ParentSubagentRunID)
	}
	if err := g.streams.add(e, item{kind: kindAgent, id: e.SubagentRunID, owner: e.SubagentRunID}); err != nil {
		return err
	}
	if g.agents == nil {
		g.agents = make(map[string]bool)
	}
	g.agents[e.SubagentRunID] = true
	return nil
}

// endAgent ends a subagent; what it has started must have ended before.
func (g *Grammar) endAgent(ev Event, id string) error {
	if !g.agents[id] {
		return broken(RuleSubagentGone, ev, id)
	}
	g.agents[id] = false
	g.streams.drop(g.streams.find(kindAgent, id))
	return nil
}

// startRun forgets the run before. What was closed early stays: an agent may go on with a message in
// its next run.
func (g *Grammar) startRun(e *RunStarted) error {
	if err := g.run.start(e); err != nil {
		return err
	}
	g.streams.clear()
	g.thinking.given = 0
	clear(g.owners)
	clear(g.agents)
	if e.Input != nil {
		g.ownAll(e.Input.Messages)
	}
	return nil
}

// finishRun ends the run, in which nothing may be open.
func (g *Grammar) finishRun(e *RunFinished) error {
	if err := g.run.checkFinish(e); err != nil {
		return err
	}
	if open := g.streams.open; len(open) > 0 {
		return broken(RuleStillOpen, e, open[0].id)
	}
	g.run.phase = finished
	return nil
}
