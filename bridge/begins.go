package bridge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// prompts reports whether the request can begin a Turn.
func (req *ChatRequest) prompts() bool {
	return !req.JoinOnly && len(req.Answers) == 0 &&
		(slices.ContainsFunc(req.Messages, func(m agui.Message) bool { return m.Role == agui.RoleUser }) || req.mayAct())
}

// mayAct reports whether the request can begin a Turn without a new message: its messages show where its client is, and it
// has more to say than they do. The messages of a page that was just loaded are empty.
func (req *ChatRequest) mayAct() bool {
	last := lastSaid(req.Messages)
	return last != nil && last.Role != agui.RoleUser && !req.JoinOnly && !req.Again && len(req.Answers) == 0 &&
		(!isEmptyJSON(req.Props) || !isEmptyObject(req.State))
}

// isEmptyJSON reports whether a value says nothing.
func isEmptyJSON(raw []byte) bool {
	switch s := strings.Join(strings.Fields(string(raw)), ""); s {
	case "", "null", "{}", "[]", `""`:
		return true
	}
	return false
}

// starts reports whether the request would begin a Turn.
func (in *intake) starts() bool { return len(in.fresh) > 0 || in.branches.branch != nil || in.acts }

// findAct finds out whether a request without a new message begins a Turn: a button whose meaning is in forwardedProps, or
// a change of the shared state. Every page repeats both with each request, when it is loaded too. So the request counts
// only where nothing runs, and where its client has the thread's newest message: it has seen what it acts on. Any doubt
// makes it a join, because a join calls no Agent.
func (in *intake) findAct(ctx context.Context) error {
	if in.starts() || in.active != nil || len(in.answers.given) > 0 || !in.req.mayAct() ||
		in.req.parent != nil || in.req.Task != nil || in.exists && in.session.IsChild() || in.access != nil && !in.access.Write {
		return nil
	}
	agent := in.agentID()
	if in.cfg.Agents.Protocol(agent) == store.AgentACP || ReservedAgent(agent) || in.cfg.mayUse(in.req.Principal, agent) != nil {
		return nil // it takes a prompt and nothing else, or nothing of this user
	}
	if last := lastSaid(in.req.Messages); in.exists && last.Role == agui.RoleTool && !in.known[last.ID] && !in.pairs[last.ToolCallID] {
		return nil // an answer to a question that is settled, or is not there
	}
	seen, err := in.hasNewest(ctx)
	if err != nil || !seen {
		return err
	}
	if in.acts = !isEmptyJSON(in.req.Props); !in.acts {
		in.acts, err = in.changesState(ctx)
	}
	return err
}

// agentID is the Agent that the request is for, where no branch names another.
func (in *intake) agentID() string {
	return cmp.Or(in.req.AgentID, in.session.AgentID, in.cfg.Agents.Default(in.req.Principal.Tenant))
}

// hasNewest reports whether the request's messages hold the thread's newest one, or the thread has none. Thoughts and
// activities do not count, since not every client sends them back.
func (in *intake) hasNewest(ctx context.Context) (bool, error) {
	if !in.exists {
		return true, nil
	}
	theirs := lastSaid(slices.DeleteFunc(slices.Clone(in.req.Messages), func(m agui.Message) bool { return !in.known[m.ID] }))
	if theirs == nil {
		any, err := in.tx.Messages(ctx, store.System(), in.session.ID, store.Page{Limit: 1})
		return len(any) == 0, err
	}
	p, err := in.tx.MessagePlace(ctx, store.System(), in.session.ID, theirs.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return !p.Replaced && !p.Followed && p.NewestInput <= p.ID, err
}

// changesState reports whether the client changed a key of the shared state.
func (in *intake) changesState(ctx context.Context) (bool, error) {
	if in.client == nil || in.client.State == nil {
		return false, nil
	}
	theirs, err := agui.NewStateDoc(in.client.State)
	if err != nil {
		return false, err
	}
	kept, err := agui.NewStateDoc(in.session.State)
	if err != nil {
		return false, err
	}
	if !theirs.IsObject() || !kept.IsObject() {
		return isEmptyObject(kept.JSON()), nil // it takes the place of an empty state only
	}
	base := stateBase{store: in.tx, sessionID: in.session.ID, state: &runState{doc: kept}, client: in.client}
	changed, err := base.changed(ctx, theirs)
	return len(changed) > 0, err
}

// takePrompt starts a new Turn.
// A prompt to a thread with a Turn under way that no response reads cancels that Turn, in the same transaction: the
// user has left it behind.
func (in *intake) takePrompt(ctx context.Context) (Reply, bool, error) {
	p := in.prompter()
	if !in.exists && in.req.Task.shared() {
		return Reply{}, false, fault.New(RefusedNotShared, "The thread of this task is gone, or is not shared with you any more.")
	}
	if !in.exists {
		if in.req.parent != nil {
			if err := in.req.parent.mayCall(ctx, in.tx); err != nil {
				return Reply{}, false, err
			}
		}
		if err := p.newSession(ctx); err != nil {
			return Reply{}, false, err
		}
	}
	if err := in.noteDropped(ctx); err != nil {
		return Reply{}, false, err
	}
	run, err := p.queueTurn(ctx, in.req.RunID)
	if err != nil {
		return Reply{}, false, err
	}
	replier := in.replier()
	replier.queued = p.queued.ID
	reply, err := replier.tail(ctx, run)
	if err == nil && in.req.Task != nil {
		err = in.req.Task.Begin(ctx, in.tx, reply)
	}
	if err == nil && in.active != nil {
		return reply, true, in.meets.endOthers(ctx)
	}
	// Only at rest is this all that the owner has to do. Behind another Turn it reads the rows, and is woken by a
	// ring.
	reply.begun = &begun{todo: store.Agenda{Session: in.session, LastSeq: reply.After, Turn: &p.queued, Run: &run, Reserved: 1}}
	if !in.exists {
		reply.begun.messages = p.begins
	}
	if err == nil && in.req.parent != nil {
		reply.rings, err = in.req.parent.begun(ctx, in.tx, in.session, p.queued.ID)
	}
	return reply, true, err
}

// prompter shares the request's thread and what has been found out about its branch.
func (in *intake) prompter() *prompter {
	begins := in.fresh
	if !in.exists {
		begins = in.seed
	}
	return &prompter{
		thread: in.thread, cfg: in.cfg, tails: in.tails, branch: in.branches.branch, profile: in.profile,
		begins: slices.Clone(begins), acts: in.acts, added: in.added(),
	}
}

// usersOf are the messages of the user that are not known.
func usersOf(messages []agui.Message, known map[string]bool) []agui.Message {
	var fresh []agui.Message
	for _, m := range messages {
		if m.Role == agui.RoleUser && !known[m.ID] {
			fresh = append(fresh, m)
		}
	}
	return fresh
}

// toolAnswers are the tool messages a client added: answers to calls it was left with.
// A message with the id of one that is known is no answer: clients send the whole history with each request. Neither is
// the result of a call that the client made itself.
func (th *thread) toolAnswers() []approval.Answer {
	var answers []approval.Answer
	for _, m := range th.req.Messages {
		if m.Role == agui.RoleTool && !th.known[m.ID] && !th.pairs[m.ToolCallID] {
			answers = append(answers, approval.Answer{
				QuestionID: approval.QuestionOf(m.ToolCallID), Payload: mustJSON(m.Content.String()), MessageID: m.ID, Error: m.Error,
			})
		}
	}
	return answers
}
