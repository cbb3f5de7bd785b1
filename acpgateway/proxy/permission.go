package proxy

import (
	"context"
	"encoding/json"
	"sync"

	"aqueduct/acpgateway/wire"
)

// ask is a request of the agent's that waits for a person: for a permission, or for input.
type ask struct {
	id        wire.RequestID
	session   string
	options   []string // of a permission
	cancelled any      // the answer to the agent when the question is cancelled
	answer    chan any // one place: the first answer counts
}

// asks are the agent's requests that wait for a person. Its reader adds them, the gateway's answers and cancels settle
// them; mu is for open.
type asks struct {
	report  *reporter
	prompts *prompts
	offers  func() *wire.Offers // of the gateway on the connection
	newID   func() wire.RequestID

	mu   sync.Mutex
	open map[wire.RequestID]*ask
}

// begin notes a request. Its id is ours: an agent's would repeat after a restart. It is whole before it can be found,
// since a cancel may come at once.
func (as *asks) begin(session string, options []string, cancelled any) *ask {
	one := &ask{id: as.newID(), session: session, options: options, cancelled: cancelled, answer: make(chan any, 1)}
	as.mu.Lock()
	defer as.mu.Unlock()
	as.open[one.id] = one
	return one
}

// permission sends the request to the gateway at once, in its place among the updates, and returns what waits.
func (as *asks) permission(params json.RawMessage) func(context.Context) (any, error) {
	var q wire.PermissionParams
	if err := json.Unmarshal(params, &q); err != nil {
		return func(context.Context) (any, error) { return nil, invalid(err) }
	}
	one := as.begin(q.SessionID, optionIDs(q.Options), wire.PermissionResult{Outcome: wire.PermissionOutcome{Outcome: wire.OutcomeCancelled}})
	return as.asking(one, &wire.PermissionRequest{
		RequestID: one.id, SessionID: q.SessionID, PromptID: as.prompts.in(q.SessionID), ToolCall: q.ToolCall, Options: q.Options,
	})
}

// asking sends the request and returns what waits for its answer.
//
// The frame goes out on the reader's goroutine, before any later update, so that the chat shows the question where the
// agent asked it. The clock stands still from here until the answer.
func (as *asks) asking(one *ask, request wire.Signal) func(context.Context) (any, error) {
	sent := as.report.signal(request)
	resume := as.prompts.pauseClock()
	return func(ctx context.Context) (any, error) {
		defer resume()
		defer as.forget(one.id)
		if !sent {
			return nil, &wire.Error{Code: wire.CodeInternal, Message: "the request is too large"}
		}
		return as.await(ctx, one)
	}
}

// A context that ends is the agent's own withdrawal or its end. An older gateway does not know permission_cancelled
// and gets none.
func (as *asks) await(ctx context.Context, one *ask) (any, error) {
	select {
	case answer := <-one.answer:
		return answer, nil
	case <-ctx.Done():
		if as.offers().PermissionCancelled {
			as.report.signal(&wire.PermissionCancelled{RequestID: one.id, SessionID: one.session})
		}
		return one.cancelled, nil
	}
}

// find is an open request; nil when there is none under that id.
// What it finds may be forgotten before it is settled: the answer then stays in a channel that is not read any more.
func (as *asks) find(id wire.RequestID) *ask {
	as.mu.Lock()
	defer as.mu.Unlock()
	return as.open[id]
}

func (as *asks) forget(id wire.RequestID) {
	as.mu.Lock()
	defer as.mu.Unlock()
	delete(as.open, id)
}

// optionIDs are the ids that an answer may name. An option that cannot be read is left out here and sent as it is: the
// gateway shows what the agent wrote, and an answer that names it does not fit.
func optionIDs(options []json.RawMessage) []string {
	ids := make([]string, 0, len(options))
	for _, raw := range options {
		var o wire.PermissionOption
		if json.Unmarshal(raw, &o) == nil && o.OptionID != "" {
			ids = append(ids, o.OptionID)
		}
	}
	return ids
}

func (o *ask) offers(option string) bool {
	for _, id := range o.options {
		if id == option {
			return true
		}
	}
	return false
}

// settle gives the agent its answer. A second one is dropped: a person's answer and a cancel may come together, and
// the agent must get one.
func (o *ask) settle(answer any) {
	select {
	case o.answer <- answer:
	default:
	}
}

// cancel answers every open request of a session, as the protocol demands on a cancel.
func (as *asks) cancel(session string) {
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, one := range as.open {
		if session == "" || one.session == session {
			one.settle(one.cancelled)
		}
	}
}
