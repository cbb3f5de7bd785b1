package bridge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// children are the Turns of agents that a Turn's Agent called, as the goroutine of its Session sees them. A child is a
// Session of its own, which its own owner drives, perhaps on another replica. Nothing of it is held here: a Command asks
// for a look, and each look compares the rows with what this Turn's log shows.
//
// The root, the Turn of a person's prompt, also takes the Questions of all its children, however deep: it asks them in its
// own chat (approval.Relay).
type children struct {
	cfg       *Config
	log       *sessionLog
	row       *store.Turn
	writer    *runWriter
	upstream  *upstream
	questions *questions
	asker     *asker

	// known are the Turns below this one, as the last look read them; unread is set while there was none in a Turn that
	// an earlier process began, which may have some.
	known  []store.ChildTurn
	unread bool
	lanes  map[string]lane // by the id of the child's Turn
	// budget is set in a child while a person is asked, in the root's chat, about a budget that its calls of models count for.
	budget bool

	cancelled []string // the Sessions of those that this process has cancelled already
}

// lane is what the log shows of a child.
type lane struct {
	run  string // the Run in which its start stands that has no end yet, as far as that Run is still open
	over bool   // its end is shown
}

// carryOut does what CommandLook asks for: this Turn's children are looked at, or it is a child and is answered. The
// Commands are done with the first commit after it. A look that is cut off in between is made again, and finds what it had
// done.
func (c *children) carryOut(ctx context.Context, commands []store.Command) error {
	if c.log.row.IsChild() {
		if err := c.answered(ctx); err != nil {
			return err
		}
	}
	if err := c.look(ctx); err != nil {
		return err
	}
	moves := make([]store.Move, len(commands))
	for i, command := range commands {
		moves[i] = store.CommandDone{ID: command.ID, At: time.Now()}
	}
	return c.writer.keep(ctx, nil, moves...)
}

// look reads the rows of the children, and shows, asks and ends what follows. Only where a Run is open their starts and ends
// are shown: without one there is no client that follows.
func (c *children) look(ctx context.Context) error {
	all, err := c.read(ctx)
	if err != nil {
		return err
	}
	if err := c.show(all); err != nil {
		return err
	}
	if !c.log.row.IsChild() && !c.row.Status.Terminal() {
		if err := c.relay(ctx); err != nil {
			return err
		}
	}
	if c.log.row.IsChild() {
		if c.budget, err = c.budgetAsked(ctx); err != nil {
			return err
		}
	}
	// An Agent that waits for another may be silent for as long as that one works, or waits for a person.
	c.upstream.pause(c.busy() || c.row.Status.Paused())
	return nil
}

// catchUp shows, before the Turn ends, what its Agent has called. A call that another replica took, or one that was quick, may
// have come to its end before the Command of its beginning was found, and its usage belongs to this Turn's.
func (c *children) catchUp(ctx context.Context) error {
	all, err := c.read(ctx)
	if err != nil {
		return err
	}
	return c.show(all)
}

// read reads the Turns below this one.
func (c *children) read(ctx context.Context) ([]store.ChildTurn, error) {
	all, err := c.cfg.Store.ChildTurns(ctx, store.System(), cmp.Or(c.log.row.RootTurnID, c.row.ID))
	if err != nil {
		return nil, err
	}
	first := c.unread
	c.unread, c.known = false, below(c.row.ID, all)
	if first { // what ended before this process began was shown then, if it was
		for _, t := range c.known {
			if t.Status.Terminal() {
				c.set(t.ID, lane{over: true})
			}
		}
	}
	return c.known, nil
}

// below are the Turns that go back to one, in the order of their creation.
func below(turnID string, all []store.ChildTurn) []store.ChildTurn {
	in := map[string]bool{turnID: true}
	return slices.DeleteFunc(slices.Clone(all), func(t store.ChildTurn) bool {
		is := in[t.ParentTurnID]
		in[t.ID] = is || t.ID == turnID // the Turn itself is in the list where it is a child
		return !is
	})
}

// budgetAsked reports whether the root has an open question about a budget.
func (c *children) budgetAsked(ctx context.Context) (bool, error) {
	calls, err := c.cfg.Store.ToolCallsOfTurn(ctx, store.System(), c.log.row.RootTurnID)
	return slices.ContainsFunc(calls, func(call store.ToolCall) bool {
		return call.Name == tools.BudgetTool && call.Status == store.ToolWaitingApproval
	}), err
}

// busy reports whether this Turn's Agent waits for what is not its own: an agent that it called is at work, or a person is
// asked about a budget.
func (c *children) busy() bool {
	return c.budget || slices.ContainsFunc(c.known, func(t store.ChildTurn) bool { return t.ParentTurnID == c.row.ID && !t.Status.Terminal() })
}

func (c *children) set(turnID string, l lane) {
	if c.lanes == nil {
		c.lanes = make(map[string]lane)
	}
	c.lanes[turnID] = l
}

// show puts the starts and ends of children into the open Run. One whose start stands in an earlier Run, which ended to ask,
// starts once more: AG-UI has a subagent end with its Run, suspended, and start again in the one that goes on.
func (c *children) show(all []store.ChildTurn) error {
	if c.writer.run == nil {
		return nil
	}
	run := c.writer.run.row.ID
	for i, t := range all {
		l := c.lanes[t.ID]
		if l.over {
			continue
		}
		var events []agui.Event
		if l.run != run {
			events = append(events, c.startOf(t, laneName(all, i)))
			l.run = run
		}
		if t.Status.Terminal() {
			events = append(events, c.endOf(t, laneName(all, i)))
			l.over = true
		}
		if err := c.writer.run.emitAll(events); err != nil {
			return err
		}
		c.set(t.ID, l)
	}
	return nil
}

// startOf is a subagent's start for clients of AG-UI 1.0, which know them, and a step's for all before it.
func (c *children) startOf(t store.ChildTurn, name string) agui.Event {
	if c.writer.profile.Dialect != DialectV1 {
		return &agui.StepStarted{StepName: name}
	}
	start := &agui.SubagentStarted{Sub: agui.Sub{SubagentRunID: t.ID}, Name: t.AgentID}
	if t.ParentTurnID != c.row.ID {
		start.ParentSubagentRunID = t.ParentTurnID
	}
	return start
}

func (c *children) endOf(t store.ChildTurn, name string) agui.Event {
	sub := agui.Sub{SubagentRunID: t.ID}
	switch {
	case c.writer.profile.Dialect != DialectV1:
		return &agui.StepFinished{StepName: name}
	case t.Status == store.TurnDone:
		return &agui.SubagentFinished{Sub: sub}
	case t.Status == store.TurnCancelled:
		return &agui.SubagentError{Sub: sub, Code: CodeChildCancelled, Message: "The agent was cancelled."}
	}
	return &agui.SubagentError{Sub: sub, Code: cmp.Or(t.ErrorCode, CodeInternal), Message: cmp.Or(t.ErrorMessage, "The agent failed.")}
}

// laneName is the name of a child's step: its agent's, with a number from the second of that agent on. Steps are distinguished
// by their names alone.
func laneName(all []store.ChildTurn, i int) string {
	n := 1
	for _, before := range all[:i] {
		if before.AgentID == all[i].AgentID {
			n++
		}
	}
	if n == 1 {
		return all[i].AgentID
	}
	return all[i].AgentID + " #" + strconv.Itoa(n)
}

// relay asks, in the root's chat, what its children ask, and settles what they ask no more.
func (c *children) relay(ctx context.Context) error {
	open, err := c.cfg.Store.OpenToolCallsUnder(ctx, store.System(), c.row.ID)
	if err != nil {
		return err
	}
	asked, err := c.questions.all(ctx)
	if err != nil {
		return err
	}
	relayed := make(map[string]bool) // by the child's Question
	for _, q := range asked {
		if from, ok := q.Relayed(); ok {
			relayed[from.QuestionID] = true
			waits := slices.ContainsFunc(open, func(call store.ToolCall) bool { return call.ID == from.QuestionID })
			if q.Open() && !waits {
				if err := c.settleAs(ctx, q.Call.ID, from.QuestionID); err != nil {
					return err
				}
			}
		}
	}
	for _, call := range open {
		if relayed[call.ID] {
			continue
		}
		if err := c.ask(ctx, call); err != nil {
			return err
		}
	}
	return nil
}

// settleAs settles a relayed Question as the child's was settled: it expired, its agent asks no more, or a person decided it
// there.
func (c *children) settleAs(ctx context.Context, id, questionID string) error {
	settled, err := approval.Load(ctx, c.cfg.Store, store.System(), questionID)
	if err != nil {
		return err
	}
	return c.questions.settle(ctx, []string{id}, approval.SameDecision(settled))
}

// ask keeps the root's Question for a child's. The Turn is paused by it as by one of its own Agent, which goes on meanwhile.
func (c *children) ask(ctx context.Context, call store.ToolCall) error {
	q, err := approval.Of(ctx, c.cfg.Store, store.System(), call)
	if err != nil || q.Approval.ID == "" {
		return err // a client tool's: a child has no client
	}
	child, err := c.cfg.Store.Session(ctx, store.System(), call.SessionID)
	if err != nil {
		return err
	}
	turn, err := c.cfg.Store.Turn(ctx, store.System(), call.TurnID)
	if err != nil {
		return err
	}
	var path []string
	for _, caller := range child.CallerList() {
		path = append(path, caller.AgentID)
	}
	relayed := approval.Relay(q, child, store.Caller{SessionID: c.log.id, TurnID: c.row.ID}, append(path, turn.AgentID))
	return c.asker.keep(ctx, relayed)
}

// answered settles those of a child's own Questions that were decided in the root's chat.
func (c *children) answered(ctx context.Context) error {
	open, err := c.questions.waiting(ctx)
	if err != nil {
		return err
	}
	for _, q := range open {
		relayed, err := approval.Load(ctx, c.cfg.Store, store.System(), approval.RelayID(q.Call.ID))
		if errors.Is(err, store.ErrNotFound) || err == nil && relayed.Open() {
			continue
		}
		if err != nil {
			return err
		}
		err = c.questions.settle(ctx, []string{q.Call.ID}, approval.SameDecision(relayed))
		if refused := new(fault.Error); errors.As(err, &refused) { // the policy was changed in between: the agent goes on without what it asked for
			err = c.questions.settle(ctx, []string{q.Call.ID}, approval.CancelledBy(""))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cancel ends the children of a Turn that is about to end and to withdraw its Questions. A child that learned of that first
// would take it for an answer, and go on without what it asked for. One that began a moment before may not be known yet.
func (c *children) cancel(ctx context.Context) error {
	all, err := c.read(ctx)
	if err != nil {
		return err
	}
	moves, rings := c.cancels(all)
	if len(moves) == 0 {
		return nil
	}
	if err := c.writer.keep(ctx, nil, moves...); err != nil {
		return err
	}
	c.cancelled = append(c.cancelled, rings...)
	c.cfg.Bell.Ring(rings...)
	return nil
}

// cancels are the Commands that end those children which are at work and that are not cancelled yet. rings are their Sessions.
func (c *children) cancels(all []store.ChildTurn) (moves []store.Move, rings []string) {
	for _, command := range cancels(c.row.ID, all) {
		if !slices.Contains(c.cancelled, command.SessionID) {
			moves, rings = append(moves, store.InsertCommand{Command: command}), append(rings, command.SessionID)
		}
	}
	return moves, rings
}

// atEnd are the moves that follow, in the same commit, from the Turn's end: its children end with it, and its caller learns
// of it. rings are the Sessions whose owners have something to do then.
//
// A child that begins in the same moment is not among them. Its caller's Session is locked when it begins, and gets a
// Command, which finds the Turn over and cancels it (session.look).
func (c *children) atEnd(ctx context.Context) (moves []store.Move, rings []string, err error) {
	if c.unread || len(c.known) > 0 {
		all, err := c.read(ctx)
		if err != nil {
			return nil, nil, err
		}
		moves, rings = c.cancels(all)
	}
	for _, look := range callersLooks(c.log.row) {
		moves, rings = append(moves, store.InsertCommand{Command: look}), append(rings, look.SessionID)
	}
	return moves, rings, nil
}

// callersLooks ask the caller of a child, and the root, for a look.
func callersLooks(s store.Session) (commands []store.Command) {
	callers := s.CallerList()
	for i, caller := range callers {
		if i == 0 || i == len(callers)-1 {
			commands = append(commands, approval.Look(caller.SessionID, caller.TurnID))
		}
	}
	return commands
}

// cancels are the Commands that end the Turns which an Agent's Turn called and that are not over. Each of them does the same
// at its own end.
func cancels(turnID string, all []store.ChildTurn) (commands []store.Command) {
	for _, t := range all {
		if t.ParentTurnID == turnID && !t.Status.Terminal() {
			commands = append(commands, store.Command{
				ID: newID(), SessionID: t.SessionID, TurnID: t.ID, Kind: store.CommandCancel, CreatedAt: time.Now(), Payload: mustJSON(commandPayload{}),
			})
		}
	}
	return commands
}
