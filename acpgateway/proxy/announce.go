package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"

	"aqueduct/acpgateway/wire"
)

// info is what the proxy announces when it registers.
func (p *Proxy) info(behind map[string]int64) (wire.ProxyInfo, error) {
	capabilities, err := p.announced()
	return wire.ProxyInfo{
		ID: p.cfg.ID, Name: p.cfg.Name, Capabilities: capabilities, MaxConcurrent: p.cfg.MaxConcurrent,
		Installation: p.installation, Runs: p.runs.living(), Behind: behind,
	}, err
}

// announced is what the proxy can and what was set beside it. Where both name a member, the proxy's own counts.
func (p *Proxy) announced() (json.RawMessage, error) {
	own, err := json.Marshal(p.capabilities())
	if err != nil || len(p.cfg.Capabilities) == 0 {
		return own, err
	}
	all := make(map[string]json.RawMessage)
	if err := errors.Join(json.Unmarshal(p.cfg.Capabilities, &all), json.Unmarshal(own, &all)); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// capabilities is the JSON object of the contract: where the proxy runs, what its sandbox is, and, beside the
// contract's members, what of the counted link it has.
type capabilities struct {
	Runtime struct {
		Platform string `json:"platform"`
		Arch     string `json:"arch"`
	} `json:"runtime"`
	Sandbox struct {
		Provider          string `json:"provider"`
		TerminalEnabled   bool   `json:"terminalEnabled"`
		WorkspaceProvider string `json:"workspaceProvider"`
		WorkingDir        string `json:"workingDir,omitempty"` // of all agents, where they share one
		GitPush           bool   `json:"gitPush"`
	} `json:"sandbox"`
	Tunnel bool `json:"acpTunnel"`
	wire.Offers
}

func (p *Proxy) capabilities() capabilities {
	var c capabilities
	c.Runtime.Platform, c.Runtime.Arch = runtime.GOOS, runtime.GOARCH
	c.Sandbox.Provider, c.Sandbox.WorkspaceProvider = provider, workspaceProvider
	c.Sandbox.TerminalEnabled, c.Sandbox.GitPush = p.cfg.Terminal, true
	if p.cfg.Workspaces == "" {
		c.Sandbox.WorkingDir = p.cfg.Cwd
	}
	c.Tunnel = true
	c.Offers = wire.Offers{Seq: true, PermissionCancelled: true, MarksReplay: true, Epoch: p.epoch}
	return c
}

// list sends both inventories, measured anew. It takes its time, and the link does not wait for it.
func (p *Proxy) list() {
	// The link's timer may fire while Run ends: as in handle, nothing is begun then.
	p.gate.RLock()
	defer p.gate.RUnlock()
	if p.shut {
		return
	}
	p.control(func(ctx context.Context) {
		p.workspaces.measure(ctx, p.sandboxes.workspaceIDs())
		for _, f := range p.inventories() {
			p.link.sendNow(f)
		}
	}, func() {}) // the next one comes
}

// inventories are both lists as they are now, with the sizes that were measured last.
func (p *Proxy) inventories() []wire.Frame {
	return []wire.Frame{p.sandboxes.sandboxInventory(), p.sandboxes.workspaceInventory()}
}
