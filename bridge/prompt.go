package bridge

import (
	"cmp"
	"context"
	"time"

	"aqueduct/agui"
	"aqueduct/policy"
	"aqueduct/store"
)

// takePrompt starts a new Turn.
func (in *intake) takePrompt(ctx context.Context) (Reply, bool, error) {
	if !in.exists {
		if err := in.newSession(ctx); err != nil {
			return Reply{}, false, err
		}
	}
	if err := in.noteDropped(ctx); err != nil {
		return Reply{}, false, err
	}
	run, err := in.queueTurn(ctx, in.req.RunID)
	if err != nil {
		return Reply{}, false, err
	}
	reply, err := in.tail(ctx, run)
	if err == nil && in.active != nil {
		return reply, true, in.endOthers(ctx)
	}
	reply.begun = &begun{todo: store.Agenda{Session: in.session, LastSeq: reply.After, Turn: &in.queued, Run: &run, Reserved: 1}}
	if !in.exists {
		reply.begun.messages = in.fresh
	}
	return reply, true, err
}

func (in *intake) newSession(ctx context.Context) error {
	agent := in.req.AgentID
	if agent == "" {
		agent = in.s.cfg.Agents.Default()
	}
	switch {
	case agent == "":
		return &Refusal{Code: RefusedUnknownAgent, Message: "This server has no agent yet: start it with --agent id=URL, or with --demo."}
	case in.s.cfg.Agents.agent(agent) == nil:
		return &Refusal{Code: RefusedUnknownAgent, Message: "There is no agent of that name here."}
	}
	now := time.Now()
	in.session = store.Session{
		ID: newID(), Tenant: in.req.Principal.Tenant, User: in.req.Principal.User, ExternalID: in.req.ThreadID,
		AgentID: agent, Title: sessionTitle(in.fresh), Owner: in.s.cfg.Replica, CreatedAt: now, UpdatedAt: now,
	}
	if in.session.ExternalID == "" {
		in.session.ExternalID = in.session.ID
	}
	return in.tx.InsertSession(ctx, in.session)
}

// queueTurn writes a prompt: its messages, a queued Turn, and its first Run, reserved.
func (in *intake) queueTurn(ctx context.Context, externalID string) (run store.Run, err error) {
	agent := cmp.Or(in.req.AgentID, in.branch.addressed(), in.session.AgentID)
	if agent != in.session.AgentID && in.s.cfg.Agents.agent(agent) == nil {
		return store.Run{}, &Refusal{Code: RefusedUnknownAgent, Message: "There is no agent of that name here."}
	}
	if rules := in.s.cfg.Policy; rules != nil {
		if v := rules.MayUse(policy.Principal(in.req.Principal), agent); v.Action == policy.Block {
			return store.Run{}, &Refusal{Code: RefusedForbiddenAgent, Message: "You may not use this agent. " + v.Reason}
		}
	}
	now := time.Now()
	run = store.Run{
		ID: newID(), SessionID: in.session.ID, ExternalID: externalID, Status: store.RunReserved,
		Profile: in.profile, BodyHash: in.req.BodyHash, CreatedAt: now,
	}
	run.TurnID = run.ID // a Turn's id is its first Run's
	run.Tails = in.s.tailsOf(in.req)
	if run.ParentRunID, err = in.parentRun(ctx); err != nil {
		return run, err
	}
	if externalID == "" {
		run.ExternalID = run.ID
	}
	span := in.req.traceContext()
	turn := store.Turn{
		ID: run.ID, SessionID: in.session.ID, AgentID: agent, Status: store.TurnQueued, CreatedAt: now,
		Roles:        mustJSON(in.req.Principal.Roles),
		PromptedBy:   in.promptedBy(),
		Input:        mustJSON(turnInput{Context: in.req.Context, Props: in.req.Props, Queued: in.active != nil}),
		BranchedFrom: in.branch.branchedFrom(),
		Traced:       true, Traceparent: span.Traceparent(), Tracestate: span.State,
	}
	in.queued = turn
	if err := in.tx.InsertTurn(ctx, turn); err != nil {
		return run, err
	}
	if err := in.tx.InsertRun(ctx, run); err != nil {
		return run, err
	}
	if err := in.beginBranch(ctx, run.ID); err != nil {
		return run, err
	}
	for i := range in.fresh {
		if in.fresh[i], err = in.insertMessage(ctx, in.fresh[i], run.ID); err != nil {
			return run, err
		}
		if err := in.tx.InsertRecord(ctx, inputRecord(in.session.ID, run.ID, in.fresh[i])); err != nil {
			return run, err
		}
	}
	return run, nil
}

// insertMessage keeps a message, and gives it as it is kept: what is large in it is a row of its own.
func (in *intake) insertMessage(ctx context.Context, m agui.Message, runID string) (agui.Message, error) {
	m, err := in.keepParts(ctx, m)
	if err != nil {
		return m, err
	}
	err = in.tx.InsertMessage(ctx, store.Message{
		ID: newID(), SessionID: in.session.ID, RunID: runID, ExternalID: m.ID, Role: m.Role,
		Data: m.AppendJSON(nil), CreatedAt: time.Now(),
	})
	return m, err
}

// sessionTitle is the beginning of what the thread is about.
func sessionTitle(fresh []agui.Message) string {
	const most = 80
	title := plainTitle(fresh[0].Content.String())
	if runes := []rune(title); len(runes) > most {
		title = string(runes[:most]) + "…"
	}
	return title
}
