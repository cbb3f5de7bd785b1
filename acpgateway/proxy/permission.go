package proxy

import (
	"context"
	"encoding/json"
	"fmt"

	"aqueduct/acpgateway/acp"
)

// ask is a permission request that waits for a person.
type ask struct {
	id      acp.RequestID
	session string
	options []string
	answer  chan acp.PermissionOutcome // one place: the first answer counts
}

// ask tells the gateway at once, in its place among the updates, and returns what waits. Its
// id is ours: an agent's would repeat after a restart.
func (a *agent) ask(params json.RawMessage) func(context.Context) (any, error) {
	var q acp.PermissionParams
	if err := json.Unmarshal(params, &q); err != nil {
		return func(context.Context) (any, error) { return nil, invalid(err) }
	}
	r := a.run
	one := &ask{
		id:      acp.RequestID(fmt.Sprintf("%.8s-%d", r.p.epoch, r.p.asks.Add(1))),
		session: q.SessionID, options: optionIDs(q.Options), answer: make(chan acp.PermissionOutcome, 1),
	}
	a.mu.Lock()
	a.asks[one.id] = one
	a.mu.Unlock()
	sent := r.signal(&acp.PermissionRequest{
		RequestID: one.id, SessionID: q.SessionID, PromptID: r.promptOf(q.SessionID), ToolCall: q.ToolCall, Options: q.Options,
	})
	resume := r.pauseClock()
	return func(ctx context.Context) (any, error) {
		defer resume()
		defer a.forgetAsk(one.id)
		if !sent {
			return nil, &acp.Error{Code: acp.CodeInternal, Message: "the permission request is too large"}
		}
		return a.await(ctx, one)
	}
}

// pauseClock stops the time of the prompt under way, and returns what starts it again.
func (r *run) pauseClock() func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active == nil || r.active.clock == nil {
		return func() {}
	}
	c := r.active.clock
	c.pause()
	return c.goOn
}

func (a *agent) await(ctx context.Context, one *ask) (any, error) {
	select {
	case outcome := <-one.answer:
		return acp.PermissionResult{Outcome: outcome}, nil
	case <-ctx.Done():
		if a.run.p.offers.Load().PermissionCancelled {
			a.run.signal(&acp.PermissionCancelled{RequestID: one.id, SessionID: one.session})
		}
		return acp.PermissionResult{Outcome: acp.PermissionOutcome{Outcome: acp.OutcomeCancelled}}, nil
	}
}

func (a *agent) forgetAsk(id acp.RequestID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.asks, id)
}

func optionIDs(options []json.RawMessage) []string {
	ids := make([]string, 0, len(options))
	for _, raw := range options {
		var o acp.PermissionOption
		if json.Unmarshal(raw, &o) == nil && o.OptionID != "" {
			ids = append(ids, o.OptionID)
		}
	}
	return ids
}

// settle takes the gateway's answer. One that does not fit leaves the question open and is
// told: guessing an option could allow what nobody allowed.
func (p *Proxy) settle(f *acp.SessionPermission) {
	r := p.known(f.RunID)
	if r == nil {
		p.log.Warn("an answer for a run that is not here", "run", f.RunID)
		return
	}
	r.mu.Lock()
	a := r.agent
	r.mu.Unlock()
	if a == nil {
		return
	}
	a.mu.Lock()
	one := a.asks[f.RequestID]
	a.mu.Unlock()
	switch {
	case one == nil || f.SessionID != "" && f.SessionID != one.session:
		p.log.Info("an answer to a question that is not open", "run", f.RunID, "request", f.RequestID)
	case f.Outcome == acp.OutcomeCancelled:
		one.settle(acp.PermissionOutcome{Outcome: acp.OutcomeCancelled})
	case f.Outcome == acp.OutcomeSelected && f.OptionID != nil && one.offers(*f.OptionID):
		one.settle(acp.PermissionOutcome{Outcome: acp.OutcomeSelected, OptionID: *f.OptionID})
	default:
		r.text(acp.PrefixError + fmt.Sprintf("permission %s: the answer is none of the options; it stays open", one.id))
	}
}

func (o *ask) offers(option string) bool {
	for _, id := range o.options {
		if id == option {
			return true
		}
	}
	return false
}

func (o *ask) settle(outcome acp.PermissionOutcome) {
	select {
	case o.answer <- outcome:
	default:
	}
}

// cancelAsks answers every open request of a session, as the protocol demands on a cancel.
func (a *agent) cancelAsks(session string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.asks {
		if session == "" || one.session == session {
			one.settle(acp.PermissionOutcome{Outcome: acp.OutcomeCancelled})
		}
	}
}
