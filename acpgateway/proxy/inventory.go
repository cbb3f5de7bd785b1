package proxy

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
		p.mu.Lock()
		if size, ok := p.sizes[id]; ok {
			one.SizeBytes = &size
		}
		p.mu.Unlock()
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

const (
	// measureTime and measureFiles bound how long the sizes of workspaces are looked for, and in how many files of each; one
	// that is larger is listed without its size.
	measureTime  = 4 * time.Second // a gateway waits 5 s for a list
	measureFiles = 200_000
)

// measure finds the sizes of the workspaces that have a directory of their own. The lists show those found last.
func (p *Proxy) measure(ctx context.Context) {
	if p.cfg.Workspaces == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	sizes := make(map[string]int64)
	for _, id := range p.workspaceIDs() {
		if size, ok := sizeOf(ctx, p.workspace(id).root); ok {
			sizes[id] = size
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sizes = sizes
}

// errTooLarge ends a walk.
var errTooLarge = errors.New("proxy: too many files")

// sizeOf adds up the files below a directory. Links count as themselves. What vanishes meanwhile counts as nothing.
func sizeOf(ctx context.Context, root string) (size int64, ok bool) {
	files := 0
	err := filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if files++; files > measureFiles {
			return errTooLarge
		}
		if err != nil || entry.IsDir() {
			return ctx.Err()
		}
		if info, err := entry.Info(); err == nil {
			size += info.Size()
		}
		return ctx.Err()
	})
	return size, err == nil
}

// list sends both inventories, measured anew. It takes its time, and the link does not wait for it.
func (p *Proxy) list() {
	p.gate.RLock()
	defer p.gate.RUnlock()
	if p.shut {
		return
	}
	p.control(func(ctx context.Context) {
		p.measure(ctx)
		p.now(p.sandboxInventory())
		p.now(p.workspaceInventory())
	}, func() {}) // the next one comes
}
