package bridge

import "sync"

// Directory knows the Agents by id.
type Directory struct {
	mu     sync.RWMutex
	agents map[string]Agent
	order  []string
}

// NewDirectory makes an empty Directory.
func NewDirectory() *Directory { return &Directory{agents: make(map[string]Agent)} }

// Add registers an Agent; the first one is the default.
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

// Default is the id of the Agent for clients that name none, "" when there is no Agent.
func (d *Directory) Default() string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if len(d.order) == 0 {
		return ""
	}
	return d.order[0]
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
