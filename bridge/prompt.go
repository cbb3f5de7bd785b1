package bridge

import (
	"cmp"
	"context"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/policy"
	"aqueduct/store"
)

// prompter writes a prompt: a thread if there is none, a Turn, its first Run, and its messages.
type prompter struct {
	*thread
	cfg    *Config
	tails  *tails
	branch *branch
	begins []agui.Message // the messages that begin the Turn; as they are kept, once it is queued
	acts   bool
	added  []addedMessage

	profile []byte
	queued  store.Turn // by this request
}

// newSession makes the thread that the first prompt is for, with the Agent that the request names or the first one of
// the server.
//
// It is this replica's from the start, so that the first Turn needs no claim.
// Two POSTs may name the same new thread at once: the second insert is a conflict, and its transaction runs again and
// finds the thread (taking.tryChecked).
func (p *prompter) newSession(ctx context.Context) error {
	agent := p.req.AgentID
	if agent == "" {
		agent = p.cfg.Agents.Default(p.req.Principal.Tenant)
	}
	switch {
	case agent == "":
		return fault.New(RefusedUnknownAgent, "This server has no agent yet: start it with --agent id=URL, or with --demo.")
	case !p.req.ofProgram && (p.cfg.Agents.agent(p.req.Principal.Tenant, agent) == nil || p.reserved(agent)):
		return unknownAgent()
	}
	now := time.Now()
	p.session = store.Session{
		ID: newID(), Tenant: p.req.Principal.Tenant, User: p.req.Principal.User, ExternalID: p.req.ThreadID,
		AgentID: agent, Title: sessionTitle(p.cfg.Filter, p.begins), Owner: p.cfg.Replica, CreatedAt: now, UpdatedAt: now,
	}
	if p.session.ExternalID == "" {
		p.session.ExternalID = p.session.ID
	}
	p.req.parent.asChild(&p.session)
	return p.tx.InsertSession(ctx, p.session)
}

// reserved reports whether the Agent is none that a prompt is for. It would not answer, and its Turn would stay until it times
// out.
func (p *prompter) reserved(agent string) bool { return ReservedAgent(agent) && !p.req.ofProgram }

func unknownAgent() error {
	return fault.New(RefusedUnknownAgent, "There is no agent of that name here.")
}

// mayUse refuses a user whom the policy keeps from an Agent.
func (cfg *Config) mayUse(who store.Principal, agent string) error {
	if cfg.Policy != nil {
		if v := cfg.Policy.MayUse(policy.Principal(who), agent); v.Action == policy.Block {
			return fault.New(RefusedForbiddenAgent, "You may not use this agent. "+v.Reason)
		}
	}
	return nil
}

// queueTurn writes a prompt: its messages, a queued Turn, and its first Run, reserved.
//
// Everything that the owner needs to call the Agent is in these rows, so that any replica can do it. The Run is
// reserved under the client's name for it, which makes a second POST of the same body find it.
func (p *prompter) queueTurn(ctx context.Context, externalID string) (run store.Run, err error) {
	agent := cmp.Or(p.req.AgentID, p.branch.addressed(), p.session.AgentID)
	if agent != p.session.AgentID && p.cfg.Agents.agent(p.session.Tenant, agent) == nil || p.reserved(agent) {
		return store.Run{}, unknownAgent()
	}
	if !isProgram(p.session) { // a program is the agent, not a user of it
		if err := p.cfg.mayUse(p.req.Principal, agent); err != nil {
			return store.Run{}, err
		}
	}
	now := time.Now()
	run = store.Run{
		ID: p.req.Task.turnID(), SessionID: p.session.ID, ExternalID: externalID, Status: store.RunReserved,
		Profile: p.profile, BodyHash: p.req.BodyHash, CreatedAt: now,
	}
	run.TurnID = run.ID // a Turn's id is its first Run's
	run.Tails = p.tails.of(p.req)
	if run.ParentRunID = p.req.ParentRunID; run.ParentRunID == "" {
		if run.ParentRunID, err = p.branch.parentRun(ctx, p.tx); err != nil {
			return run, err
		}
	}
	if externalID == "" {
		run.ExternalID = run.ID
	}
	// The span is made here and kept, so that all that happens later in the Turn belongs to the caller's trace.
	span, parent := p.req.traceContext()
	turn := store.Turn{
		ID: run.ID, SessionID: p.session.ID, AgentID: agent, Status: store.TurnQueued, CreatedAt: now,
		Roles:        mustJSON(p.req.Principal.Roles),
		PromptedBy:   p.promptedBy(),
		Input:        mustJSON(turnInput{Context: p.req.Context, Props: p.req.Props, Queued: p.active != nil || p.req.Task != nil && p.exists, Task: p.req.Task != nil, ParentSpan: parent, Acts: p.acts, Added: p.added}),
		BranchedFrom: p.branch.branchedFrom(),
		Traced:       true, Traceparent: span.Traceparent(), Tracestate: span.State,
	}
	p.queued = turn
	if err := p.tx.InsertTurn(ctx, turn); err != nil {
		return run, err
	}
	if err := p.tx.InsertRun(ctx, run); err != nil {
		return run, err
	}
	if err := p.branch.begin(ctx, p.tx, p.session.ID, run.ID); err != nil {
		return run, err
	}
	for i := range p.begins {
		if p.begins[i], err = p.insertMessage(ctx, p.begins[i], run.ID); err != nil {
			return run, err
		}
		if err := p.tx.InsertRecord(ctx, inputRecord(p.session.ID, run.ID, p.begins[i])); err != nil {
			return run, err
		}
	}
	return run, nil
}

// sessionTitle returns the beginning of the user's first message, otherwise of the first text.
// The filter is applied before the text is cut: half of a secret would not be recognized.
func sessionTitle(filter *redact.Filter, begins []agui.Message) string {
	const most = 80
	first := slices.IndexFunc(begins, func(m agui.Message) bool { return m.Role == agui.RoleUser })
	if first < 0 {
		first = slices.IndexFunc(begins, func(m agui.Message) bool { return m.Role == agui.RoleAssistant && m.Content.String() != "" })
	}
	if first < 0 {
		return ""
	}
	title := approval.PlainTitle(filter.Text(begins[first].Content.String()))
	if runes := []rune(title); len(runes) > most {
		title = string(runes[:most]) + "…"
	}
	return title
}
