package acpgateway

import (
	"cmp"
	"context"
	"errors"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Agent is one ACP agent, served by any number of proxies.
type Agent struct {
	g   *Gateway
	id  string
	cfg AgentConfig
}

var errOffline = fault.New(CodeOffline, "The agent is offline: no proxy that runs it is connected.")

// Available implements bridge.Availability.
func (a *Agent) Available() bool {
	for _, p := range a.g.fleet.allProxies() {
		if p.agentID() == a.id && p.online() {
			return true
		}
	}
	return a.g.fleet.isElsewhere(a.id)
}

// Protocol is how the directory calls it.
func (a *Agent) Protocol() string { return store.AgentACP }

// ReadsPromptOnly implements bridge.PromptReader: of the messages before a prompt an agent gets the text.
func (a *Agent) ReadsPromptOnly() {}

// Start implements bridge.Agent.
//
// Nothing is sent to the agent before its slot is reserved and its token is kept. A prompt of an earlier Turn that was
// neither resumed nor ended is cancelled first, or its output would be taken for this Turn's.
func (a *Agent) Start(ctx context.Context, call bridge.Call) (bridge.Turn, error) {
	c, err := a.place(ctx, call)
	if err != nil {
		return nil, err
	}
	if err := saveToken(ctx, c); err != nil {
		c.setReserved(false)
		return nil, err
	}
	for _, other := range c.prompts.in(detached, time.Time{}) { // of Turns that nothing resumed
		if other != call.TurnID {
			c.cancel(other)
		}
	}
	if call.Branched {
		c.agent.leaveSession()
		c.note(func(row *store.SandboxInstance) { row.ACPSessionID = "" })
	}
	t := newTurn(c, call)
	t.course.follow(call.TurnID)
	t.from = c.attach(t)
	if !c.stopping() {
		t.first = t.begin(nil)
	}
	return t, nil
}

// Resume implements bridge.Agent: a prompt the agent may still be at is taken up again.
//
// It is called by the replica that took the Session over, with the cursor of the log's newest event. The prompt may
// still run, have ended meanwhile, or be gone with its proxy: the Turn adopts it and lets the frames and timeouts show
// which.
func (a *Agent) Resume(ctx context.Context, call bridge.Call, answers []approval.Delivery) (bridge.Turn, error) {
	c, err := a.g.fleet.channel(ctx, instanceOf(call))
	if errors.Is(err, store.ErrNotFound) {
		return nil, bridge.ErrCannotResume
	}
	if err != nil {
		return nil, err
	}
	t := newTurn(c, call)
	t.phase, t.skip, t.activity.silent = adopting, parseMarkOf(c, call.Cursor), t.began
	t.last = mark{epoch: t.skip.epoch, seq: t.skip.seq}
	if !call.Unprompted {
		t.course.follow(call.TurnID)
		t.inherited = c.prompts.resume(call.TurnID)
	}
	c.attach(t)
	readyTranslator(c, call, false)
	t.clock.start()
	for _, answer := range answers {
		if err := t.Answer(ctx, answer); err != nil {
			t.Release()
			return nil, err
		}
	}
	return t, nil
}

// Forget implements bridge.Forgetter: a Session that is deleted needs no agent.
func (a *Agent) Forget(ctx context.Context, instanceID string) error {
	c, err := a.g.fleet.channel(ctx, instanceID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err == nil {
		c.close()
		// The result is not awaited: a proxy whose runs share one folder refuses, and the next prune clears one that is away.
		c.p.send(c.id, &wire.SandboxControl{Action: wire.ActionRemoveWorkspace, RunID: c.id, InstanceName: c.agent.name(), RequestID: cancelPrefix + newID()})
		a.g.fleet.drop(c)
		c.p.forget(instanceID)
	}
	return err
}

// place finds the channel of a Session, or makes one to the least busy proxy. From then on
// the Session stays with that proxy: its workspace is there. The channel has its slot reserved.
// The row is saved before the channel is used: a crash in between must not leave an agent that no row accounts for.
func (a *Agent) place(ctx context.Context, call bridge.Call) (*channel, error) {
	id := instanceOf(call)
	c, err := a.g.fleet.channel(ctx, id)
	if err == nil {
		return c, a.g.fleet.reserve(c)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	now := time.Now()
	row := store.SandboxInstance{
		SessionID: id, InstanceName: "tuixiu-run-" + id, Status: "creating", LastSeen: now, CreatedAt: now, UpdatedAt: now,
	}
	if id != call.SessionID {
		row.OfSession, row.AgentID = call.SessionID, a.id
	}
	if c, err = a.g.fleet.reserveNew(a.id, row); err != nil {
		return nil, err
	}
	if err := a.g.keeper.saveInstance(ctx, c); err != nil {
		a.g.fleet.drop(c)
		return nil, err
	}
	return c, nil
}

// instanceOf is the run_id of a call on /ws/agent.
func instanceOf(call bridge.Call) string { return cmp.Or(call.InstanceID, call.SessionID) }
