package proxy

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"aqueduct/acpgateway/wire"
)

// How inventories call what this proxy has: processes and directories of the host.
const (
	provider          = "host_process"
	workspaceProvider = "host"
)

// sandboxInventory lists the runs that this process has. One that only left a directory behind has no instance.
func (sb *sandboxes) sandboxInventory() *wire.SandboxInventory {
	inv := &wire.SandboxInventory{
		InventoryID: uuid.NewString(), Provider: provider, CapturedAt: stamp(), Instances: []wire.SandboxInstance{},
	}
	for _, r := range sb.runs.all() {
		id := r.id
		created := r.created.UTC().Format(time.RFC3339Nano)
		r.mu.Lock()
		inv.Instances = append(inv.Instances, wire.SandboxInstance{
			InstanceName: r.instance, RunID: &id, Status: r.status, CreatedAt: &created, LastSeenAt: &inv.CapturedAt,
		})
		r.mu.Unlock()
	}
	return inv
}

// workspaceInventory lists the directories of runs: those that live, and those that were left by an earlier process
// and that only a gateway can decide to remove.
func (sb *sandboxes) workspaceInventory() *wire.WorkspaceInventory {
	inv := &wire.WorkspaceInventory{
		InventoryID: uuid.NewString(), CapturedAt: stamp(), WorkspaceProvider: workspaceProvider, Workspaces: []wire.Workspace{},
	}
	for _, id := range sb.workspaceIDs() {
		w := sb.workspaces.of(id)
		info, err := os.Stat(w.root)
		exists := err == nil
		one := wire.Workspace{
			WorkspaceProvider: workspaceProvider, RunID: id, InstanceName: sb.instanceOf(id), HostPath: w.root, GuestPath: guestRoot, Exists: &exists,
		}
		if exists {
			at := info.ModTime().UTC().Format(time.RFC3339Nano)
			one.MTime = &at
		}
		if size, ok := sb.workspaces.size(id); ok {
			one.SizeBytes = &size
		}
		inv.Workspaces = append(inv.Workspaces, one)
	}
	return inv
}

// workspaceIDs are the runs that live and those whose directories are left from before.
func (sb *sandboxes) workspaceIDs() []string {
	var ids []string
	for _, r := range sb.runs.all() {
		ids = append(ids, r.id)
	}
	if sb.cfg.Workspaces != "" {
		entries, err := os.ReadDir(sb.cfg.Workspaces)
		if err != nil && !os.IsNotExist(err) {
			sb.log.Warn("workspaces cannot be listed", "err", err)
		}
		for _, e := range entries {
			// A draft is no workspace yet, and what has no run's name was put there by others: neither is the
			// gateway's to remove.
			if e.IsDir() && checkRunID(e.Name()) == nil && !strings.HasPrefix(e.Name(), draftPrefix) {
				ids = append(ids, e.Name())
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// instanceOf is the name of a run's instance. Without a run in this process it is the name that the contract derives
// from the run's id, by which gateways ask for it.
func (sb *sandboxes) instanceOf(runID string) string {
	if r := sb.runs.find(runID); r != nil {
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
func (ws *workspaces) measure(ctx context.Context, ids []string) {
	if ws.cfg.Workspaces == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	sizes := make(map[string]int64)
	for _, id := range ids {
		if size, ok := sizeOf(ctx, ws.of(id).root); ok {
			sizes[id] = size
		}
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	// All of them are replaced: a workspace that is gone must not keep a size.
	ws.sizes = sizes
}

// size is the size of a run's workspace, where it has been measured.
func (ws *workspaces) size(id string) (int64, bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	size, ok := ws.sizes[id]
	return size, ok
}

// errTooLarge ends a walk.
var errTooLarge = errors.New("proxy: too many files")

// sizeOf adds up the files below a directory. Links count as themselves. What vanishes meanwhile counts as nothing.
// It is a bounded walk; a repository with millions of files is listed without a size rather than late.
func sizeOf(ctx context.Context, root string) (size int64, ok bool) {
	files := 0
	// Below a root, because the agent may put a link where a folder was.
	dir, err := os.OpenRoot(root)
	if err != nil {
		return 0, false
	}
	defer dir.Close()
	err = fs.WalkDir(dir.FS(), ".", func(_ string, entry fs.DirEntry, err error) error {
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
