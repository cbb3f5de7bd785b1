package proxy

import (
	"context"
	"encoding/json"
	"fmt"

	"aqueduct/acpgateway/acp"
)

// ask is a request of the agent's that waits for a person: for a permission, or for input.
type ask struct {
	id        acp.RequestID
	session   string
	options   []string // of a permission
	cancelled any      // what the agent hears when nobody is asked any more
	answer    chan any // one place: the first answer counts
}

// newAsk notes a request. Its id is ours: an agent's would repeat after a restart.
func (a *agent) newAsk(session string) *ask {
	r := a.run
	one := &ask{id: acp.RequestID(fmt.Sprintf("%.8s-%d", r.p.epoch, r.p.asks.Add(1))), session: session, answer: make(chan any, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asks[one.id] = one
	return one
}

// ask tells the gateway at once, in its place among the updates, and returns what waits.
func (a *agent) ask(params json.RawMessage) func(context.Context) (any, error) {
	var q acp.PermissionParams
	if err := json.Unmarshal(params, &q); err != nil {
		return func(context.Context) (any, error) { return nil, invalid(err) }
	}
	one := a.newAsk(q.SessionID)
	one.options, one.cancelled = optionIDs(q.Options), acp.PermissionResult{Outcome: acp.PermissionOutcome{Outcome: acp.OutcomeCancelled}}
	return a.asking(one, &acp.PermissionRequest{
		RequestID: one.id, SessionID: q.SessionID, PromptID: a.run.promptOf(q.SessionID), ToolCall: q.ToolCall, Options: q.Options,
	})
}

// asking sends the request and returns what waits for its answer.
func (a *agent) asking(one *ask, request acp.Signal) func(context.Context) (any, error) {
	sent := a.run.signal(request)
	resume := a.run.pauseClock()
	return func(ctx context.Context) (any, error) {
		defer resume()
		defer a.forgetAsk(one.id)
		if !sent {
			return nil, &acp.Error{Code: acp.CodeInternal, Message: "the request is too large"}
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
	case answer := <-one.answer:
		return answer, nil
	case <-ctx.Done():
		if a.run.p.offers.Load().PermissionCancelled {
			a.run.signal(&acp.PermissionCancelled{RequestID: one.id, SessionID: one.session})
		}
		return one.cancelled, nil
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

// asked finds the open request that an answer names; nil when there is none.
func (p *Proxy) asked(runID, session string, id acp.RequestID) (*ask, *run) {
	r := p.known(runID)
	if r == nil {
		p.log.Warn("an answer for a run that is not here", "run", runID)
		return nil, nil
	}
	r.mu.Lock()
	a := r.agent
	r.mu.Unlock()
	if a == nil {
		return nil, nil
	}
	a.mu.Lock()
	one := a.asks[id]
	a.mu.Unlock()
	if one == nil || session != "" && session != one.session {
		p.log.Info("an answer to a question that is not open", "run", runID, "request", id)
		return nil, nil
	}
	return one, r
}

// settle takes the gateway's answer. One that does not fit leaves the question open and is
// told: guessing an option could allow what nobody allowed.
func (p *Proxy) settle(f *acp.SessionPermission) {
	one, r := p.asked(f.RunID, f.SessionID, f.RequestID)
	switch {
	case one == nil:
	case f.Outcome == acp.OutcomeCancelled:
		one.settle(one.cancelled)
	case f.Outcome == acp.OutcomeSelected && f.OptionID != nil && one.offers(*f.OptionID):
		one.settle(acp.PermissionResult{Outcome: acp.PermissionOutcome{Outcome: acp.OutcomeSelected, OptionID: *f.OptionID}})
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

func (o *ask) settle(answer any) {
	select {
	case o.answer <- answer:
	default:
	}
}

// cancelAsks answers every open request of a session, as the protocol demands on a cancel.
func (a *agent) cancelAsks(session string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.asks {
		if session == "" || one.session == session {
			one.settle(one.cancelled)
		}
	}
}
