package agui

// maxOpen bounds what may be open at once, and what is remembered as closed
// early. Agents open a handful of things; the lists are searched one by one.
const maxOpen = 1024

type kind uint8

const (
	kindText kind = iota
	kindTool
	kindThought
	kindSpan
	kindStep
	kindAgent
	kindActivity // has owners only
)

// item is something open: it was started and has to be ended.
type item struct {
	kind  kind
	id    string // a step's is its name
	owner string // the subagent it belongs to
	name  string // a text's role, a call's tool
	extra string // a text's name, a call's parent message, a thought's span
	chunk bool   // opened by a chunk, so anything else in its lane ends it
}

type entity struct {
	kind kind
	id   string
}

type phase uint8

const (
	fresh phase = iota
	running
	finished
	failed
)

// Grammar knows what may follow. There is one for each log; the zero value is
// at the log's beginning. A log is written through [Grammar.Admit], a foreign
// stream judged with [Grammar.Check]; replaying a log through Check brings a
// Grammar to where the log ends. It is not safe for concurrent use.
type Grammar struct {
	phase           phase
	threadID, runID string
	open            []item            // in the order they were opened
	chunks          int               // how many of them chunks opened
	owners          map[entity]string // of everything this run has started
	agents          map[string]bool   // this run's subagents; true is active

	away    []item  // closed by us; the producer still thinks them open
	minted  int     // ids given to what came without, in this run
	unnamed unnamed // the last ones
	marked  bookmark
}

// unnamed holds the ids given to a thought and a span that came without.
type unnamed struct{ thought, span string }

// bookmark is what an event that fails half-way must not have changed.
type bookmark struct {
	open, away     []item
	chunks, minted int
	unnamed        unnamed
}

// Running tells whether a run has been started and not ended.
func (g *Grammar) Running() bool { return g.phase == running }

// Check verifies that ev may come next, and advances if so. A broken rule is a
// [*GrammarError] and leaves the Grammar as it was.
func (g *Grammar) Check(ev Event) error {
	if err := g.lifecycle(ev); err != nil {
		return err
	}
	p, isChunk := pieceOf(ev)
	if !isChunk && g.chunks == 0 {
		return g.advance(ev)
	}
	g.mark()
	var err error
	if isChunk {
		_, err = g.expand(nil, ev, p)
	} else if err = g.endChunks(ev); err == nil {
		err = g.advance(ev)
	}
	if err != nil {
		g.undo()
	}
	return err
}

// mark remembers what is open, for undo. What has an owner is only ever recorded
// together with a success.
func (g *Grammar) mark() {
	g.marked = bookmark{
		open: append(g.marked.open[:0], g.open...), away: append(g.marked.away[:0], g.away...),
		chunks: g.chunks, minted: g.minted, unnamed: g.unnamed,
	}
}

func (g *Grammar) undo() {
	g.open = append(g.open[:0], g.marked.open...)
	g.away = append(g.away[:0], g.marked.away...)
	g.chunks, g.minted, g.unnamed = g.marked.chunks, g.marked.minted, g.marked.unnamed
}

// lifecycle is what may come at all, runs being what they are.
func (g *Grammar) lifecycle(ev Event) error {
	t := ev.EventType()
	switch {
	case g.phase == fresh && t != TypeRunStarted && t != TypeRunError:
		return broken(RuleFirstEvent, ev, "")
	case g.phase == running && t == TypeRunStarted:
		return broken(RuleRunOpen, ev, g.runID)
	case g.phase == finished && t != TypeRunStarted && t != TypeRunError:
		return broken(RuleRunFinished, ev, g.runID)
	case g.phase == failed && t != TypeRunStarted:
		return broken(RuleRunFailed, ev, g.runID)
	}
	return nil
}

// advance applies the rules of one event that is no chunk, whose time has come.
func (g *Grammar) advance(ev Event) error {
	switch e := ev.(type) {
	case *TextMessageContent:
		return g.goOn(ev, kindText, e.MessageID, e.SubagentRunID)
	case *ToolCallArgs:
		return g.goOn(ev, kindTool, e.ToolCallID, e.SubagentRunID)
	case *ReasoningMessageContent:
		return g.goOn(ev, kindThought, e.MessageID, e.SubagentRunID)
	case *TextMessageStart:
		return g.start(ev, item{kind: kindText, id: e.MessageID, owner: e.SubagentRunID, name: e.Role, extra: e.Name})
	case *TextMessageEnd:
		return g.end(ev, kindText, e.MessageID, e.SubagentRunID)
	case *ToolCallStart:
		return g.startCall(e)
	case *ToolCallEnd:
		return g.end(ev, kindTool, e.ToolCallID, e.SubagentRunID)
	case *ReasoningStart:
		return g.start(ev, item{kind: kindSpan, id: e.MessageID, owner: e.SubagentRunID})
	case *ReasoningEnd:
		return g.end(ev, kindSpan, e.MessageID, e.SubagentRunID)
	case *ReasoningMessageStart:
		return g.start(ev, item{kind: kindThought, id: e.MessageID, owner: e.SubagentRunID, extra: g.spanOf(e.SubagentRunID)})
	case *ReasoningMessageEnd:
		return g.end(ev, kindThought, e.MessageID, e.SubagentRunID)
	}
	return g.advanceElse(ev)
}

func (g *Grammar) advanceElse(ev Event) error {
	switch e := ev.(type) {
	case *StepStarted:
		return g.startStep(e)
	case *StepFinished:
		return g.endStep(e)
	case *SubagentStarted:
		return g.startAgent(e)
	case *SubagentFinished:
		return g.endAgent(ev, e.SubagentRunID)
	case *SubagentError:
		return g.endAgent(ev, e.SubagentRunID)
	case *ToolCallResult:
		g.own(kindText, e.MessageID, e.SubagentRunID)
	case *ActivitySnapshot:
		if _, known := g.owners[entity{kindActivity, e.MessageID}]; !known || e.Replace == nil || *e.Replace {
			g.own(kindActivity, e.MessageID, e.SubagentRunID)
		}
	case *ActivityDelta:
		return g.checkOwner(ev, kindActivity, e.MessageID, e.SubagentRunID)
	case *ReasoningEncryptedValue:
		return g.checkEncrypted(e)
	case *MessagesSnapshot:
		g.ownAll(e.Messages)
	case *RunStarted:
		return g.startRun(e)
	case *RunFinished:
		return g.finishRun(e)
	case *RunError:
		g.phase = failed
		g.open, g.chunks = g.open[:0], 0
	}
	return nil
}

// find returns the index of an open item, or -1. Steps have an owner as part of
// their identity and are looked for by findStep.
func (g *Grammar) find(k kind, id string) int {
	for i := len(g.open) - 1; i >= 0; i-- {
		if g.open[i].kind == k && g.open[i].id == id {
			return i
		}
	}
	return -1
}

func (g *Grammar) findStep(name, owner string) int {
	for i := range g.open {
		if o := &g.open[i]; o.kind == kindStep && o.id == name && o.owner == owner {
			return i
		}
	}
	return -1
}

// spanOf is the innermost open span of a lane.
func (g *Grammar) spanOf(lane string) string {
	for i := len(g.open) - 1; i >= 0; i-- {
		if o := &g.open[i]; o.kind == kindSpan && o.owner == lane {
			return o.id
		}
	}
	return ""
}

// drop forgets the open item at i, keeping the order of the others.
func (g *Grammar) drop(i int) item {
	it := g.open[i]
	if it.chunk {
		g.chunks--
	}
	g.open = append(g.open[:i], g.open[i+1:]...)
	return it
}

func (g *Grammar) goOn(ev Event, k kind, id, tag string) error {
	i := g.find(k, id)
	if i < 0 {
		return broken(RuleNotOpen, ev, id)
	}
	if tag != "" && tag != g.open[i].owner {
		return broken(RuleOwner, ev, id)
	}
	return nil
}

func (g *Grammar) start(ev Event, it item) error {
	ok := ownerKind(it.kind)
	if g.find(it.kind, it.id) >= 0 {
		return broken(RuleAlreadyOpen, ev, it.id)
	}
	if len(g.open) >= maxOpen {
		return broken(RuleTooMany, ev, it.id)
	}
	if err := g.checkOwner(ev, ok, it.id, it.owner); err != nil {
		return err
	}
	if owner, known := g.owners[entity{ok, it.id}]; known {
		it.owner = owner
	} else {
		g.own(ok, it.id, it.owner)
	}
	g.open = append(g.open, it)
	return nil
}

func (g *Grammar) end(ev Event, k kind, id, tag string) error {
	if err := g.goOn(ev, k, id, tag); err != nil {
		return err
	}
	g.drop(g.find(k, id))
	return nil
}

// startCall: a call belongs to the message that carries it, so it belongs to
// whom that message belongs.
func (g *Grammar) startCall(e *ToolCallStart) error {
	it := item{kind: kindTool, id: e.ToolCallID, owner: e.SubagentRunID, name: e.ToolCallName, extra: e.ParentMessageID}
	if e.ParentMessageID != "" {
		if err := g.checkOwner(e, kindText, e.ParentMessageID, e.SubagentRunID); err != nil {
			return err
		}
		if owner, known := g.owners[entity{kindText, e.ParentMessageID}]; known {
			mine, started := g.owners[entity{kindTool, e.ToolCallID}]
			if started && mine != owner {
				return broken(RuleOwner, e, e.ToolCallID)
			}
			it.owner = owner
		}
	}
	return g.start(e, it)
}

func (g *Grammar) startStep(e *StepStarted) error {
	switch {
	case g.findStep(e.StepName, e.SubagentRunID) >= 0:
		return broken(RuleAlreadyOpen, e, e.StepName)
	case len(g.open) >= maxOpen:
		return broken(RuleTooMany, e, e.StepName)
	}
	g.open = append(g.open, item{kind: kindStep, id: e.StepName, owner: e.SubagentRunID})
	return nil
}

func (g *Grammar) endStep(e *StepFinished) error {
	if i := g.findStep(e.StepName, e.SubagentRunID); i >= 0 {
		g.drop(i)
		return nil
	}
	if g.find(kindStep, e.StepName) >= 0 {
		return broken(RuleStepOwner, e, e.StepName)
	}
	return broken(RuleNotOpen, e, e.StepName)
}

func (g *Grammar) startAgent(e *SubagentStarted) error {
	if _, used := g.agents[e.SubagentRunID]; used {
		return broken(RuleSubagentUsed, e, e.SubagentRunID)
	}
	if _, known := g.agents[e.ParentSubagentRunID]; !known && e.ParentSubagentRunID != "" {
		return broken(RuleParent, e, e.ParentSubagentRunID)
	}
	if len(g.open) >= maxOpen {
		return broken(RuleTooMany, e, e.SubagentRunID)
	}
	if g.agents == nil {
		g.agents = make(map[string]bool)
	}
	g.agents[e.SubagentRunID] = true
	g.open = append(g.open, item{kind: kindAgent, id: e.SubagentRunID, owner: e.SubagentRunID})
	return nil
}

func (g *Grammar) endAgent(ev Event, id string) error {
	if !g.agents[id] {
		return broken(RuleSubagentGone, ev, id)
	}
	g.agents[id] = false
	g.drop(g.find(kindAgent, id))
	return nil
}

func (g *Grammar) startRun(e *RunStarted) error {
	if g.threadID != "" && e.ThreadID != g.threadID {
		return broken(RuleThreadID, e, e.ThreadID)
	}
	g.threadID, g.runID, g.phase = e.ThreadID, e.RunID, running
	g.open, g.chunks, g.minted = g.open[:0], 0, 0
	clear(g.owners)
	clear(g.agents)
	if e.Input != nil {
		g.ownAll(e.Input.Messages)
	}
	return nil
}

func (g *Grammar) finishRun(e *RunFinished) error {
	if err := g.mayFinish(e); err != nil {
		return err
	}
	if len(g.open) > 0 {
		return broken(RuleStillOpen, e, g.open[0].id)
	}
	g.phase = finished
	return nil
}

func (g *Grammar) mayFinish(e *RunFinished) error {
	if e.RunID != g.runID || e.ThreadID != g.threadID {
		return broken(RuleRunID, e, e.RunID)
	}
	return checkOutcome(e)
}

func checkOutcome(e *RunFinished) error {
	if e.Outcome == nil {
		return nil
	}
	switch o := e.Outcome; {
	case o.Type == OutcomeSuccess:
	case o.Type == OutcomeCancelled && len(e.Result) == 0:
	case o.Type == OutcomeInterrupt && len(o.Interrupts) > 0:
		seen := make(map[string]bool, len(o.Interrupts))
		for _, in := range o.Interrupts {
			if seen[in.ID] {
				return broken(RuleInterruptID, e, in.ID)
			}
			seen[in.ID] = true
		}
	default:
		return broken(RuleOutcome, e, o.Type)
	}
	return nil
}
