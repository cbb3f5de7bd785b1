package acpgateway

import (
	"encoding/json"
	"sync"

	"aqueduct/acpgateway/translate"
	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

// permissions are the agent's requests for permission or input that wait for an answer, by their key. A key contains all
// that is needed to answer, so that a request from before a restart, which is not listed here, can be answered too. Its
// lock is taken last; nothing is called with it held.
type permissions struct {
	mu   sync.Mutex
	open map[string]*request
}

// request is one of them.
type request struct {
	key requestKey
	// fingerprint is of what was asked last under the key: an answer to an earlier question must not reach the agent.
	fingerprint string
}

// requestKey makes a request's id unique: agents count their requests anew at every start, and old proxies forward
// those numbers.
//
// It is the UpstreamID of the Question and so is kept with it. An answer that is given after a restart, on another
// replica's page, finds in it whom to send what.
type requestKey struct {
	Sender  string            `json:"c"` // the proxy's start, or our link's
	Life    int               `json:"l,omitempty"`
	Session string            `json:"s"`
	Request wire.RequestID    `json:"r"`
	Options map[string]string `json:"o,omitempty"` // the agent's own id of each option, by ours
	Input   bool              `json:"i,omitempty"` // it wants input, and not a permission
}

func (key requestKey) String() string { return string(mustJSON(key)) }

func parseKey(upstreamID string) (key requestKey, ok bool) {
	return key, json.Unmarshal([]byte(upstreamID), &key) == nil && key.Request != ""
}

// keyOf is the key of an agent's Question; it still needs its sender.
func keyOf(q *translate.Question) requestKey {
	return requestKey{Session: q.SessionID, Request: wire.RequestID(q.Key), Options: q.Answers, Input: q.Kind == approval.AskInput}
}

// add notes a request that is asked.
func (ps *permissions) add(key requestKey, fingerprint string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.open[key.String()] = &request{key: key, fingerprint: fingerprint}
}

// cancel forgets the open request with the agent's id, and returns its key.
func (ps *permissions) cancel(id wire.RequestID) (key string, ok bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for key, req := range ps.open {
		if req.key.Request.String() == id.String() {
			delete(ps.open, key)
			return key, true
		}
	}
	return "", false
}

// named is the key of a request, from that key itself or from the agent's id of it; the request is forgotten then.
func (ps *permissions) named(name string) (key string, ok bool) {
	if _, ok := parseKey(name); ok {
		return name, true
	}
	return ps.cancel(wire.RequestID(name))
}

// withdrawAll forgets all of them and returns them by their keys.
func (ps *permissions) withdrawAll() map[string]*request {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	open := ps.open
	ps.open = make(map[string]*request)
	return open
}

// any reports whether a request is open.
func (ps *permissions) any() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.open) > 0
}

// answered forgets a request that is answered; false when the agent has asked something else under its key since the
// answer was given.
func (ps *permissions) answered(a approval.Delivery) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if open := ps.open[a.UpstreamID]; open != nil && a.Fingerprint != "" && open.fingerprint != a.Fingerprint {
		return false
	}
	delete(ps.open, a.UpstreamID)
	return true
}

// answer is the frame that answers a request. An option that was not offered is never sent: old proxies would take the
// first option that allows.
func (key requestKey) answer(run string, a approval.Delivery) wire.Frame {
	if key.Input {
		return key.input(run, a)
	}
	f := &wire.SessionPermission{RunID: run, SessionID: key.Session, RequestID: key.Request, Outcome: wire.OutcomeCancelled}
	payload := a.Payload
	switch {
	case a.Reason != "": // ACP has no word for it but the option
		payload = a.Reject
	case a.Status == agui.ResumeCancelled:
		return f
	}
	if option, offered := key.chosen(payload); offered {
		f.Outcome, f.OptionID = wire.OutcomeSelected, &option
	}
	return f
}

// chosen is the agent's own id of the option that a payload names.
func (key requestKey) chosen(payload json.RawMessage) (string, bool) {
	var choice struct {
		OptionID string `json:"optionId"`
	}
	if json.Unmarshal(payload, &choice) != nil {
		return "", false
	}
	id, ok := key.Options[choice.OptionID]
	return id, ok && id != ""
}

// input is the answer to a request for input. A cancelled question is answered with decline: the agent continues
// without the input.
// A payload of {"action":"decline"} alone is an answer in ACP's own words; any other object is the input.
func (key requestKey) input(run string, a approval.Delivery) *wire.SessionElicitation {
	f := &wire.SessionElicitation{RunID: run, SessionID: key.Session, RequestID: key.Request, Action: wire.ElicitDecline}
	if a.Status == agui.ResumeCancelled {
		return f
	}
	var choice struct {
		Action string `json:"action"`
	}
	if json.Unmarshal(a.Payload, &choice) == nil && len(membersOf(a.Payload)) == 1 {
		switch choice.Action {
		case wire.ElicitAccept, wire.ElicitDecline, wire.ElicitCancel:
			f.Action = choice.Action
			return f
		}
	}
	if f.Action = wire.ElicitAccept; membersOf(a.Payload) != nil {
		f.Content = a.Payload
	}
	return f
}

// membersOf are the members of an object; nil for any other value.
func membersOf(raw json.RawMessage) (members map[string]json.RawMessage) {
	_ = json.Unmarshal(raw, &members) // any other value has no members
	return members
}

// cancelled is the frame that answers a request without a decision.
func (key requestKey) cancelled(run string) wire.Frame {
	if key.Input {
		return &wire.SessionElicitation{RunID: run, SessionID: key.Session, RequestID: key.Request, Action: wire.ElicitCancel}
	}
	return &wire.SessionPermission{RunID: run, SessionID: key.Session, RequestID: key.Request, Outcome: wire.OutcomeCancelled}
}
