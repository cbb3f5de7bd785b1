package bridge

import (
	"context"
	"slices"
	"sync"

	"aqueduct/store"
)

// Availability is an Agent that may be out of reach, and knows.
type Availability interface {
	// Available reports whether a prompt would reach the Agent now.
	Available() bool
}

// Directory knows the Agents that this replica can call, by id. It is filled by three: the program (flags), the gateway
// (agents behind proxies) and bridge/registry (agents that registered themselves). None of them takes away what another
// has put there: Put and Take compare.
//
// Who asks for an Agent names the tenant, and gets its own or everybody's: each tenant may have an Agent of an id that is not
// everybody's. A thread never goes on with the Agent that another tenant has of the id. Those who put Agents there name them
// by the ids of their rows (store.AgentKey).
// Agents come and go while Turns run: a Turn in memory keeps the one that it was made with (newTurn), and the next
// asks again.
type Directory struct {
	mu      sync.RWMutex
	entries map[string]entry // by the id of the row
	order   []string
	chosen  string
	looks   []func(ctx context.Context, id string) error
	// Alone are the Agents that could approve for themselves: they run here with the rights of this process. It is set
	// before the Directory is used.
	Alone []string
}

// entry is one Agent. Only the users of its tenant find it.
type entry struct {
	agent  Agent
	tenant string // "" is everybody's
	health Health
}

func (e entry) isFor(tenant string) bool { return e.tenant == "" || e.tenant == tenant }

// NewDirectory makes an empty Directory.
func NewDirectory() *Directory { return &Directory{entries: make(map[string]entry)} }

// OnUnknown adds a function that the Directory calls when it does not have a wanted Agent. look adds the Agent if another
// replica has known it since a moment ago. OnUnknown is called before the Directory is used.
func (d *Directory) OnUnknown(look func(ctx context.Context, id string) error) {
	d.looks = append(d.looks, look)
}

// Unconfined reports whether an Agent could approve for itself.
func (d *Directory) Unconfined(id string) bool { return slices.Contains(d.Alone, id) }

// Add registers an Agent for everybody.
func (d *Directory) Add(id string, a Agent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.put(id, entry{agent: a})
}

// AddHidden registers an Agent that is on no list and no default, unless there is one of that id: users do not talk to it.
func (d *Directory) AddHidden(id string, a Agent) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries[id].agent != nil {
		return false
	}
	d.entries[id] = entry{agent: a}
	return true
}

// AddNew registers an Agent for everybody unless there is one of that id.
func (d *Directory) AddNew(id string, a Agent) bool { return d.Put("", id, nil, a) }

// Put registers an Agent for the users of a tenant, "" for everybody, in the place of before, whose last probe stands until
// the next. False, and nothing changes, where the id is another Agent's.
func (d *Directory) Put(tenant, id string, before, a Agent) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries[id].agent != before {
		return false
	}
	d.put(id, entry{agent: a, tenant: tenant, health: d.entries[id].health})
	return true
}

// put is called with mu held.
func (d *Directory) put(id string, e entry) {
	if _, known := d.entries[id]; !known {
		d.order = append(d.order, id)
	}
	d.entries[id] = e
}

// Remove forgets an Agent. Sessions that belong to it get no answer until there is one of that id again.
func (d *Directory) Remove(id string) {
	d.mu.RLock()
	a := d.entries[id].agent
	d.mu.RUnlock()
	d.Take(id, a)
}

// Take is Remove for one Agent: another that has the id by now stays.
func (d *Directory) Take(id string, a Agent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries[id].agent != a {
		return
	}
	delete(d.entries, id)
	d.order = slices.DeleteFunc(d.order, func(known string) bool { return known == id })
}

// SetDefault chooses the default, which need not be there yet.
func (d *Directory) SetDefault(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.chosen = id
}

// Default is the id of the Agent for clients of a tenant that name none, "" when there is no Agent: the one that was
// chosen, else the first in order that is available, else the first. Where the operator has any Agent, those that programs
// registered are left out, also while none of the operator's is available: what a person writes must not go to an Agent
// of others unasked.
func (d *Directory) Default(tenant string) string {
	d.mu.RLock()
	chosen := d.chosen
	d.mu.RUnlock()
	order := d.IDsFor(tenant)
	if chosen != "" && slices.Contains(order, chosen) {
		return chosen
	}
	if own := d.IDsFor(""); len(own) > 0 {
		order = own
	}
	for _, id := range order {
		// Available is the Agent's own code and may take locks, so it is called without this one.
		if a, ok := d.agent(tenant, id).(Availability); !ok || a.Available() {
			return id
		}
	}
	if len(order) == 0 {
		return ""
	}
	return order[0]
}

// IDs lists all Agents in the order they were added.
func (d *Directory) IDs() []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Clone(d.order)
}

// IDsFor lists those that the users of a tenant may talk to; for "" those that are everybody's.
func (d *Directory) IDsFor(tenant string) []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var ids []string
	for _, key := range d.order {
		if id := store.AgentID(key); d.entries[key].isFor(tenant) && d.keyOf(tenant, id) == key {
			ids = append(ids, id)
		}
	}
	return ids
}

// keyOf is the id of the row of the Agent that the users of a tenant mean by an id, if there is one. The ids of rows are no
// ids of Agents: rules that name an Agent would not hold for another spelling. It is called with mu held.
func (d *Directory) keyOf(tenant, id string) string {
	switch e := d.entries[id]; {
	case store.AgentID(id) != id:
		return ""
	case e.agent != nil && e.isFor(tenant):
		return id
	}
	return store.AgentKey(tenant, id)
}

// agent finds the one that the users of a tenant mean by an id; nil when there is none.
func (d *Directory) agent(tenant, id string) Agent {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.entries[d.keyOf(tenant, id)].agent
}

// serving returns the Agent that serves a Session's Turns for an id, or nil. For a program's Turns it is the Agent that waits
// for its calls, whichever Agent the program is bound to.
func (d *Directory) serving(s store.Session, id string) Agent {
	if isProgram(s) {
		return d.agent(s.Tenant, ClientAgent)
	}
	return d.agent(s.Tenant, id)
}

// Away reports whether an Agent is here that knows itself to be out of reach.
func (d *Directory) Away(tenant, id string) bool {
	a, tells := d.agent(tenant, id).(Availability)
	return tells && !a.Available()
}

// find is agent for an id that may have been registered elsewhere a moment ago. It may ask the store, so it is not called
// in a transaction.
func (d *Directory) find(ctx context.Context, tenant, id string) (Agent, error) {
	a := d.agent(tenant, id)
	if id == "" {
		return a, nil
	}
	for _, look := range d.looks {
		for _, key := range []string{id, store.AgentKey(tenant, id)} {
			if a != nil {
				return a, nil
			}
			if err := look(ctx, key); err != nil {
				return nil, err
			}
			a = d.agent(tenant, id)
		}
	}
	return a, nil
}

// Leaving is an Agent that may want its Turns to end with their clients.
type Leaving interface {
	// CancelsOnLeave reports whether a Turn is cancelled after the last client that reads it has left.
	CancelsOnLeave() bool
}

// cancelsOnLeave reports whether an Agent here is a Leaving one that wants it.
func (d *Directory) cancelsOnLeave(tenant, id string) bool {
	a, ok := d.agent(tenant, id).(Leaving)
	return ok && a.CancelsOnLeave()
}

// anyCancelsOnLeave reports whether any Agent here wants that.
func (d *Directory) anyCancelsOnLeave() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, e := range d.entries {
		if a, ok := e.agent.(Leaving); ok && a.CancelsOnLeave() {
			return true
		}
	}
	return false
}

// Protocol is how the Agent that the users of a tenant mean by an id is spoken to: store.AgentHTTP unless it tells.
func (d *Directory) Protocol(tenant, id string) string {
	if a, ok := d.agent(tenant, id).(interface{ Protocol() string }); ok {
		return a.Protocol()
	}
	return store.AgentHTTP
}
