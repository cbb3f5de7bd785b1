package bridge

import (
	"context"
	"errors"
	"slices"
	"strings"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// prompts reports whether the request can begin a Turn.
func (req *ChatRequest) prompts() bool {
	return !req.JoinOnly && len(req.Answers) == 0 &&
		(slices.ContainsFunc(req.Messages, func(m agui.Message) bool { return m.Role == agui.RoleUser }) || req.mayAct())
}

// mayAct reports whether the request can begin a Turn without a new message. Its messages must show how much of the thread
// its client has seen, and it must have other content. A page that was just loaded sends no messages. A thought after the
// user's message shows that the client saw the answer, and may be the whole answer.
func (req *ChatRequest) mayAct() bool {
	return lastSaid(req.Messages) != nil && req.Messages[len(req.Messages)-1].Role != agui.RoleUser && !req.JoinOnly && !req.Again && len(req.Answers) == 0 &&
		(!isEmptyJSON(req.Props) || !isEmptyObject(req.State))
}

// isEmptyJSON reports whether a value has no content.
func isEmptyJSON(raw []byte) bool {
	const most = 64 // white space included; a longer value is not empty
	if len(raw) > most {
		return false
	}
	switch strings.Join(strings.Fields(string(raw)), "") {
	case "", "null", "{}", "[]", `""`:
		return true
	}
	return false
}

// starts reports whether the request would begin a Turn.
func (in *intake) starts() bool { return len(in.fresh) > 0 || in.branches.branch != nil || in.act.acts }

// actFinder decides whether a request without a new message begins a Turn: a button whose meaning is in forwardedProps, or a
// change of the shared state. Every page repeats both with each request, also when it is loaded. So the request counts only
// if nothing runs, and if its client has the thread's newest message and so has seen the state it acts on. In doubt it is a
// join, because a join calls no Agent.
type actFinder struct {
	*thread
	cfg    *Config
	client *clientState

	acts bool // the request begins a Turn
}

// find runs if neither a message nor a branch begins a Turn, and no Question is answered.
func (f *actFinder) find(ctx context.Context) error {
	if f.active != nil || !f.req.mayAct() || f.req.parent != nil || f.req.Task != nil ||
		f.exists && f.session.IsChild() || f.access != nil && !f.access.Write {
		return nil
	}
	agent := f.agentID(f.cfg.Agents)
	if f.cfg.Agents.Protocol(f.req.Principal.Tenant, agent) == store.AgentACP || ReservedAgent(agent) || f.cfg.mayUse(f.req.Principal, agent) != nil {
		return nil // it accepts only prompts, or this user must not use it
	}
	if last := lastSaid(f.req.Messages); f.exists && last.Role == agui.RoleTool && !f.known[last.ID] && !f.pairs[last.ToolCallID] {
		return nil // an answer to a question that is settled or does not exist
	}
	seen, err := f.hasNewest(ctx)
	if err != nil || !seen {
		return err
	}
	if f.acts = !isEmptyJSON(f.req.Props); !f.acts {
		f.acts, err = f.changesState(ctx)
	}
	return err
}

// hasNewest reports whether the request's messages contain the thread's newest message, or the thread has none. Thoughts and
// activities do not count, because some clients do not send them back.
func (f *actFinder) hasNewest(ctx context.Context) (bool, error) {
	if !f.exists {
		return true, nil
	}
	theirs := lastSaid(slices.DeleteFunc(slices.Clone(f.req.Messages), func(m agui.Message) bool { return !f.known[m.ID] }))
	if theirs == nil {
		newest, err := f.tx.Messages(ctx, store.System(), f.session.ID, store.Page{Limit: 1})
		return len(newest) == 0, err
	}
	p, err := f.tx.MessagePlace(ctx, store.System(), f.session.ID, theirs.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return !p.Replaced && !p.Followed && p.NewestInput <= p.ID, err
}

// changesState reports whether the client changed a key of the shared state.
func (f *actFinder) changesState(ctx context.Context) (bool, error) {
	if f.client == nil || f.client.State == nil {
		return false, nil
	}
	theirs, err := agui.NewStateDoc(f.client.State)
	if err != nil {
		return false, err
	}
	kept, err := agui.NewStateDoc(f.session.State)
	if err != nil {
		return false, err
	}
	if !theirs.IsObject() || !kept.IsObject() {
		return isEmptyObject(kept.JSON()), nil // it replaces only an empty state
	}
	base := stateBase{store: f.tx, sessionID: f.session.ID, state: &runState{doc: kept}, client: f.client}
	changed, err := base.changed(ctx, theirs)
	return len(changed) > 0, err
}

// takePrompt starts a new Turn. A prompt to a thread cancels a running Turn that no response reads, in the same transaction.
func (in *intake) takePrompt(ctx context.Context) (Reply, bool, error) {
	p := in.prompter()
	if !in.exists && in.req.Task.shared() {
		return Reply{}, false, fault.New(RefusedNotShared, "The thread of this task does not exist, or is no longer shared with you.")
	}
	if !in.exists {
		if in.req.parent != nil {
			if err := in.req.parent.mayCall(ctx, in.tx, in.cfg, in.req.Principal); err != nil {
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
	answered, err := in.answers.goOn(ctx, in.meets.under.left)
	if err != nil {
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
		return reply, true, in.meets.endOthers(ctx, answered)
	}
	// Only in an idle thread is this all the work of the owner. After another Turn the owner reads the rows; a ring wakes it.
	reply.begun = &begun{todo: store.Agenda{Session: in.session, LastSeq: reply.After, Turn: &p.queued, Run: &run, Reserved: 1}}
	if !in.exists {
		reply.begun.messages = p.begins
	}
	if err == nil && in.req.parent != nil {
		reply.rings, err = in.req.parent.begun(ctx, in.tx, in.session, p.queued.ID)
	}
	return reply, true, err
}

// prompter shares the request's thread and the findings about its branch.
func (in *intake) prompter() *prompter {
	begins := in.fresh
	if !in.exists {
		begins = in.seed
	}
	return &prompter{
		thread: in.thread, cfg: in.cfg, tails: in.tails, branch: in.branches.branch, profile: in.profile,
		begins: slices.Clone(begins), acts: in.act.acts, added: in.clientMessages().added(),
	}
}

// usersOf returns the messages of the user that are not known.
func usersOf(messages []agui.Message, known map[string]bool) []agui.Message {
	var fresh []agui.Message
	for _, m := range messages {
		if m.Role == agui.RoleUser && !known[m.ID] {
			fresh = append(fresh, m)
		}
	}
	return fresh
}
