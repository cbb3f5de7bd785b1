package acpgateway

// Tunnels is how many Sessions are in memory.
func (g *Gateway) Channels() int { return len(g.fleet.allChannels()) }

// Remembered is how many runs a counting proxy's frames are put in order of, and how many are
// known not to be its own.
func (g *Gateway) Remembered(proxy string) (lines, foreign int) {
	p := g.fleet.knownProxy(proxy)
	p.inMu.Lock()
	defer p.inMu.Unlock()
	return p.in.Len(), len(p.foreign)
}

// Agent is the Agent of an id, to be called without a bridge.
func (g *Gateway) Agent(id string) *Agent { return g.fleet.agent(id) }
