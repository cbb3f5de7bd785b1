package acpgateway

import (
	"encoding/json"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/bridge"
	"aqueduct/bridge/fromacp"
)

// ask is a permission request that waits for an answer. Its key says all that is needed to
// answer it, so that it can be answered after a restart too.
type ask struct {
	key askKey
	// fingerprint is of what was asked last under the key: the answer to anything asked before must not reach the agent.
	fingerprint string
	since       time.Time
}

// askKey makes a request's id unique: agents count theirs anew at every start, old proxies
// pass that on.
type askKey struct {
	Sender  string            `json:"c"` // the proxy's start, or our link's
	Life    int               `json:"l,omitempty"`
	Session string            `json:"s"`
	Request acp.RequestID     `json:"r"`
	Options map[string]string `json:"o,omitempty"` // the agent's own id of each option, by ours
	Input   bool              `json:"i,omitempty"` // it wants input, and not a permission
}

func (k askKey) String() string { return string(mustJSON(k)) }

func parseKey(upstreamID string) (k askKey, ok bool) {
	return k, json.Unmarshal([]byte(upstreamID), &k) == nil && k.Request != ""
}

// asked notes a Question of the agent's, and gives it the bridge's form.
func (t *tunnel) asked(q *fromacp.Question) *bridge.Question {
	k := askKey{Session: q.SessionID, Request: acp.RequestID(q.Key), Options: make(map[string]string, len(q.Options)), Input: q.Input}
	out := &bridge.Question{
		Kind: bridge.AskPermission, Tool: q.Tool, ToolKind: q.Kind, Title: q.Title, Args: q.Args, Folder: t.g.folderAt(t.p, t.instance()),
	}
	if q.Input {
		out.Kind, out.ResponseSchema = bridge.AskInput, q.Schema
	}
	for _, o := range q.Options {
		k.Options[o.ID] = o.Upstream
		out.Options = append(out.Options, bridge.Option{ID: o.ID, Label: o.Label, Kind: o.Kind})
	}
	counts, epoch := t.p.counts(), t.p.epoch()
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.Sender = epoch; !counts {
		k.Sender, k.Life = t.g.epoch, t.life
	}
	out.UpstreamID = k.String()
	t.asks[out.UpstreamID] = &ask{key: k, fingerprint: out.Fingerprint(), since: time.Now()}
	return out
}

// withdrawn forgets the open request with an id, and returns its key.
func (t *tunnel) withdrawn(id acp.RequestID) (key string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, a := range t.asks {
		if a.key.Request.String() == id.String() {
			delete(t.asks, key)
			return key, true
		}
	}
	return "", false
}

// allWithdrawn forgets them all: the agent is gone.
func (t *tunnel) allWithdrawn() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := make([]string, 0, len(t.asks))
	for key := range t.asks {
		keys = append(keys, key)
	}
	clear(t.asks)
	return keys
}

// declineAll answers every open request cancelled.
func (t *tunnel) declineAll() {
	t.mu.Lock()
	open := t.asks
	t.asks = make(map[string]*ask)
	t.mu.Unlock()
	for _, a := range open {
		t.p.send(t.id, a.cancelled(t.id))
	}
}

func (t *tunnel) asking() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.asks) > 0
}

// answer tells the agent. An option that was not offered is never sent: old proxies would
// take the first that allows.
func (t *tunnel) answer(a bridge.Answer) error {
	k, ok := parseKey(a.UpstreamID)
	if !ok {
		return bridge.ErrCannotResume
	}
	t.mu.Lock()
	if open := t.asks[a.UpstreamID]; open != nil && a.Fingerprint != "" && open.fingerprint != a.Fingerprint {
		t.mu.Unlock()
		return nil // the agent asks something else under this id since
	}
	delete(t.asks, a.UpstreamID)
	t.mu.Unlock()
	if k.Input {
		t.p.send(t.id, k.input(t.id, a))
		return nil
	}
	f := &acp.SessionPermission{RunID: t.id, SessionID: k.Session, RequestID: k.Request, Outcome: acp.OutcomeCancelled}
	if a.Status != "cancelled" {
		if option, offered := k.chosen(a.Payload); offered {
			f.Outcome, f.OptionID = acp.OutcomeSelected, &option
		}
	}
	t.p.send(t.id, f)
	return nil
}

// chosen is the agent's own id of the option that a payload names.
func (k askKey) chosen(payload json.RawMessage) (string, bool) {
	var said struct {
		OptionID string `json:"optionId"`
	}
	if json.Unmarshal(payload, &said) != nil {
		return "", false
	}
	id, ok := k.Options[said.OptionID]
	return id, ok && id != ""
}

// input is the answer to a request for input. Who does not want to answer declines: the agent goes
// on without it.
func (k askKey) input(run string, a bridge.Answer) *acp.SessionElicitation {
	f := &acp.SessionElicitation{RunID: run, SessionID: k.Session, RequestID: k.Request, Action: acp.ElicitDecline}
	if a.Status == "cancelled" {
		return f
	}
	var said struct {
		Action string `json:"action"`
	}
	if json.Unmarshal(a.Payload, &said) == nil && len(membersOf(a.Payload)) == 1 {
		switch said.Action {
		case acp.ElicitAccept, acp.ElicitDecline, acp.ElicitCancel:
			f.Action = said.Action
			return f
		}
	}
	if f.Action = acp.ElicitAccept; membersOf(a.Payload) != nil {
		f.Content = a.Payload
	}
	return f
}

// membersOf are an object's; nil for what is none.
func membersOf(raw json.RawMessage) (members map[string]json.RawMessage) {
	_ = json.Unmarshal(raw, &members) // what is no object has none
	return members
}

// cancelled is the answer to a request nobody will decide.
func (a *ask) cancelled(run string) acp.Frame {
	if a.key.Input {
		return &acp.SessionElicitation{RunID: run, SessionID: a.key.Session, RequestID: a.key.Request, Action: acp.ElicitCancel}
	}
	return &acp.SessionPermission{RunID: run, SessionID: a.key.Session, RequestID: a.key.Request, Outcome: acp.OutcomeCancelled}
}
