package bridge

import (
	"slices"
	"sync"
)

// Availability is an Agent that may be out of reach, and knows.
type Availability interface {
	// Available reports whether a prompt would reach the Agent now.
	Available() bool
}

// Directory knows the Agents by id.
// Agents come and go while Turns run: a Turn in memory keeps the one that it was made with (newTurn), and the next
// asks again.
type Directory struct {
	mu     sync.RWMutex
	agents map[string]Agent
	order  []string
	chosen string
}

// NewDirectory makes an empty Directory.
func NewDirectory() *Directory { return &Directory{agents: make(map[string]Agent)} }

// Add registers an Agent.
func (d *Directory) Add(id string, a Agent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.agents[id] == nil {
		d.order = append(d.order, id)
	}
	d.agents[id] = a
}

// AddNew registers an Agent unless there is one of that id.
func (d *Directory) AddNew(id string, a Agent) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.agents[id] != nil {
		return false
	}
	d.agents[id], d.order = a, append(d.order, id)
	return true
}

// Remove forgets an Agent. Sessions that belong to it get no answer until there is one of that id again.
func (d *Directory) Remove(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.agents, id)
	d.order = slices.DeleteFunc(d.order, func(known string) bool { return known == id })
}

// SetDefault chooses the default, which need not be there yet.
func (d *Directory) SetDefault(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.chosen = id
}

// Default is the id of the Agent for clients that name none, "" when there is no Agent: the one that was chosen, else the
// first in order that is available, else the first.
func (d *Directory) Default() string {
	d.mu.RLock()
	// Available is the Agent's own code and may take locks, so it is called on a copy and without this one.
	chosen, order := d.chosen, slices.Clone(d.order)
	d.mu.RUnlock()
	if chosen != "" && slices.Contains(order, chosen) {
		return chosen
	}
	for _, id := range order {
		if a, ok := d.agent(id).(Availability); !ok || a.Available() {
			return id
		}
	}
	if len(order) == 0 {
		return ""
	}
	return order[0]
}

// IDs lists the Agents in the order they were added.
func (d *Directory) IDs() []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return append([]string(nil), d.order...)
}

// agent finds one; nil when there is none of that id.
func (d *Directory) agent(id string) Agent {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.agents[id]
}
