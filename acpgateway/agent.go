package acpgateway

import (
	"cmp"
	"context"
	"errors"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/bridge"
	"aqueduct/bridge/fromacp"
	"aqueduct/store"
)

// Agent is one ACP agent, served by any number of proxies.
type Agent struct {
	g   *Gateway
	id  string
	cfg AgentConfig
}

var errOffline = &bridge.Failure{Code: CodeOffline, Message: "The agent is offline: no proxy that runs it is connected."}

// Available implements bridge.Availability.
func (a *Agent) Available() bool {
	for _, p := range a.g.allProxies() {
		if p.serves(a.id) && p.online() {
			return true
		}
	}
	return false
}

// ReadsPromptOnly implements bridge.PromptReader: of the messages before a prompt an agent gets the text.
func (a *Agent) ReadsPromptOnly() {}

// Start implements bridge.Agent.
func (a *Agent) Start(ctx context.Context, call bridge.Call) (bridge.Turn, error) {
	t, err := a.place(ctx, call)
	if err != nil {
		return nil, err
	}
	if err := t.readyToken(ctx); err != nil {
		t.release()
		return nil, err
	}
	t.cancelOthers(call.TurnID)
	if call.Branched {
		t.leaveSession()
	}
	r := newTurn(t, call)
	r.follow = call.TurnID
	r.from = t.attach(r)
	if !t.stopping() {
		r.first = r.begin(nil)
	}
	return r, nil
}

// Resume implements bridge.Agent: a prompt the agent may still be at is taken up again.
func (a *Agent) Resume(ctx context.Context, call bridge.Call, answers []bridge.Answer) (bridge.Turn, error) {
	t, err := a.g.tunnel(ctx, instanceOf(call))
	if errors.Is(err, store.ErrNotFound) {
		return nil, bridge.ErrCannotResume
	}
	if err != nil {
		return nil, err
	}
	r := newTurn(t, call)
	r.phase, r.skip, r.silent = adopting, t.parseMark(call.Mark), r.began
	r.last = mark{epoch: r.skip.epoch, seq: r.skip.seq}
	if !call.Unprompted {
		r.follow = call.TurnID
		r.inherited = t.want(call.TurnID)
	}
	t.attach(r)
	t.translateFrom(call, false)
	r.startClock()
	for _, answer := range answers {
		if err := r.Answer(ctx, answer); err != nil {
			r.Release()
			return nil, err
		}
	}
	return r, nil
}

// Forget implements bridge.Forgetter: a Session that is deleted needs no agent.
func (a *Agent) Forget(ctx context.Context, instanceID string) error {
	t, err := a.g.tunnel(ctx, instanceID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err == nil {
		t.close()
		t.removeWorkspace()
		a.g.drop(t)
		t.p.forget(instanceID)
	}
	return err
}

// place finds the tunnel of a Session, or makes one to the least busy proxy. From then on
// the Session stays with that proxy: its workspace is there. The tunnel has its seat.
func (a *Agent) place(ctx context.Context, call bridge.Call) (*tunnel, error) {
	id := instanceOf(call)
	t, err := a.g.tunnel(ctx, id)
	if err == nil {
		return t, a.g.seat(t)
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
	if t, err = a.g.seatNew(a.id, row); err != nil {
		return nil, err
	}
	if err := a.g.keeper.saveInstance(ctx, t); err != nil {
		a.g.drop(t)
		return nil, err
	}
	return t, nil
}

// instanceOf is the run_id of a call on /ws/agent.
func instanceOf(call bridge.Call) string { return cmp.Or(call.InstanceID, call.SessionID) }

func (t *tunnel) isOpen() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.opened
}

func (t *tunnel) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seated || t.turn != nil || len(t.prompts) > 0
}

func (t *tunnel) lastUsed() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

func (t *tunnel) config() AgentConfig {
	t.p.mu.Lock()
	id := t.p.row.AgentID
	t.p.mu.Unlock()
	return t.g.cfg.Agents[id]
}

// translateFrom readies the translator for a Turn. Of a new one no id may be one the log has.
// An agent that starts with an old session may tell again what the log has.
func (t *tunnel) translateFrom(call bridge.Call, fresh bool) {
	state := member(call.State, "acp")
	if t.tr != nil && !fresh {
		t.tr.Rebase(state)
		return
	}
	cfg := fromacp.Config{Namespace: t.id, Epoch: call.TurnID + "." + newID(), State: state, Known: knownOf(call.Messages, call.Prompt), MarksReplay: t.p.marksReplay()}
	t.mu.Lock()
	cfg.SessionID = t.row.ACPSessionID
	t.mu.Unlock()
	if !fresh { // a Turn from before a restart goes on with what is open where the log ends
		cfg.Resume = t.parseMark(call.Mark).resumes(call.TurnID)
	}
	t.tr = fromacp.New(cfg)
	if !fresh && len(cfg.Resume) == 0 || cfg.SessionID == "" {
		t.tr.Live()
	}
}

// marksReplay says whether the proxy marks every replay, so that what it does not mark is new.
func (p *proxy) marksReplay() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.offers.MarksReplay
}

// begin opens the agent if need be, and sends the prompt.
func (r *turn) begin(out []fromacp.Out) []fromacp.Out {
	fresh := !r.t.isOpen()
	r.t.translateFrom(r.call, fresh || r.call.Branched)
	if !fresh {
		return r.prompt(out)
	}
	r.phase, r.opensAt = opening, time.Now()
	r.open()
	return out
}

// open asks for the agent. Asking twice does no harm.
func (r *turn) open() {
	cfg := r.t.config()
	r.t.p.send(r.t.id, &acp.Open{
		RunID: r.t.id, Cwd: cfg.Cwd, InstanceName: r.t.instance(), KeepaliveTTLSeconds: cfg.keepalive(), Init: r.init(cfg),
	})
}

func (t *tunnel) instance() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.row.InstanceName
}
