package proxy

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"aqueduct/acpgateway/acp"
)

// How inventories call what this proxy has: processes and directories of the host.
const (
	provider          = "host_process"
	workspaceProvider = "host"
)

func (p *Proxy) sandboxInventory() *acp.SandboxInventory {
	inv := &acp.SandboxInventory{
		InventoryID: uuid.NewString(), Provider: provider, CapturedAt: stamp(), Instances: []acp.SandboxInstance{},
	}
	for _, r := range p.all() {
		id := r.id
		created := r.created.UTC().Format(time.RFC3339Nano)
		r.mu.Lock()
		inv.Instances = append(inv.Instances, acp.SandboxInstance{
			InstanceName: r.instance, RunID: &id, Status: r.status, CreatedAt: &created, LastSeenAt: &inv.CapturedAt,
		})
		r.mu.Unlock()
	}
	return inv
}

func (p *Proxy) workspaceInventory() *acp.WorkspaceInventory {
	inv := &acp.WorkspaceInventory{
		InventoryID: uuid.NewString(), CapturedAt: stamp(), WorkspaceProvider: workspaceProvider, Workspaces: []acp.Workspace{},
	}
	for _, id := range p.workspaceIDs() {
		w := p.workspace(id)
		one := acp.Workspace{
			WorkspaceProvider: workspaceProvider, RunID: id, InstanceName: p.instanceOf(id), HostPath: w.root, GuestPath: guestRoot,
		}
		if info, err := os.Stat(w.root); err == nil {
			at := info.ModTime().UTC().Format(time.RFC3339Nano)
			one.Exists, one.MTime = true, &at
		}
		inv.Workspaces = append(inv.Workspaces, one)
	}
	return inv
}

// workspaceIDs are the runs that live and those whose directories are left from before.
func (p *Proxy) workspaceIDs() []string {
	var ids []string
	for _, r := range p.all() {
		ids = append(ids, r.id)
	}
	if p.cfg.Workspaces != "" {
		entries, err := os.ReadDir(p.cfg.Workspaces)
		if err != nil && !os.IsNotExist(err) {
			p.log.Warn("workspaces cannot be listed", "err", err)
		}
		for _, e := range entries {
			if e.IsDir() && checkRunID(e.Name()) == nil && !strings.HasPrefix(e.Name(), draftPrefix) {
				ids = append(ids, e.Name())
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (p *Proxy) instanceOf(runID string) string {
	if r := p.known(runID); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.instance
	}
	return "tuixiu-run-" + runID
}
