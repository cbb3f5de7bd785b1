package acpgateway

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/bridge"
	"aqueduct/store"
)

// Sandbox implements bridge.Controller.
func (g *Gateway) Sandbox(ctx context.Context, proxyID string, c bridge.SandboxControl) (bridge.SandboxResult, error) {
	p := g.knownProxy(proxyID)
	if p == nil {
		return bridge.SandboxResult{}, unknownProxy()
	}
	f := &acp.SandboxControl{
		Action: c.Action, RunID: c.SessionID, InstanceName: c.InstanceName, Image: c.Image, DryRun: c.DryRun,
		Branch: c.Branch, Remote: c.Remote, Cwd: c.Cwd, TimeoutSeconds: int(c.Timeout / time.Second),
	}
	if c.SessionID != "" {
		t, err := g.tunnel(ctx, c.SessionID)
		if err != nil || t.p != p {
			return bridge.SandboxResult{}, &bridge.ControlError{Code: bridge.ControlNoAgent, Message: "This thread is not on that proxy."}
		}
		if f.InstanceName != "" && f.InstanceName != t.instance() {
			return bridge.SandboxResult{}, &bridge.ControlError{Code: bridge.ControlNoAgent, Message: "This thread has no instance of that name."}
		}
		f.InstanceName = t.instance()
		if err := g.checkCwd(ctx, c.SessionID, c.Cwd); err != nil {
			return bridge.SandboxResult{}, err
		}
	}
	switch c.Action {
	case acp.ActionGC, acp.ActionPruneOrphans:
		f.GC = &acp.GC{RemoveOrphans: c.RemoveOrphans, RemoveWorkspaces: c.RemoveWork, MaxDeleteCount: c.MaxDeleteCount}
		if !c.RemoveOrphans && !c.RemoveWork { // neither is chosen: both, or nothing would ever be collected
			f.GC.RemoveOrphans, f.GC.RemoveWorkspaces = true, true
		}
		expected, err := g.expected(ctx, p)
		if err != nil {
			return bridge.SandboxResult{}, err
		}
		f.ExpectedInstances = expected
	}
	return p.sandbox(ctx, f)
}

// guestRoot is how the contract calls a run's workspace, wherever it is.
const guestRoot = "/workspace"

// checkCwd refuses a directory outside of the thread's folder. A proxy of another make may not look at it.
func (g *Gateway) checkCwd(ctx context.Context, sessionID, cwd string) error {
	if cwd == "" || filepath.IsLocal(cwd) {
		return nil
	}
	_, folder, err := g.Place(ctx, sessionID)
	if err != nil {
		return err
	}
	for _, root := range []string{folder, guestRoot} {
		if rel, err := filepath.Rel(root, cwd); root != "" && filepath.IsAbs(cwd) && err == nil && filepath.IsLocal(rel) {
			return nil
		}
	}
	return &bridge.ControlError{Code: bridge.ControlUnsupported, Message: "cwd lies outside of the thread's folder."}
}

func unknownProxy() error {
	return &bridge.ControlError{Code: bridge.ControlUnknown, Message: "There is no such proxy."}
}

// Prune implements bridge.Controller. What a Session of ours accounts for stays.
func (g *Gateway) Prune(ctx context.Context, proxyID string, dryRun bool) (bridge.SandboxResult, error) {
	return g.Sandbox(ctx, proxyID, bridge.SandboxControl{Action: acp.ActionPruneOrphans, DryRun: dryRun})
}

// sandbox sends the control and waits for its result.
func (p *proxy) sandbox(ctx context.Context, f *acp.SandboxControl) (bridge.SandboxResult, error) {
	wait := p.g.cfg.Limits.Control
	if f.TimeoutSeconds > 0 {
		wait = max(wait, time.Duration(f.TimeoutSeconds)*time.Second+10*time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	f.RequestID = newID()
	answer, err := p.ask(ctx, f.RunID, f.RequestID, f)
	if err != nil {
		return bridge.SandboxResult{}, controlError(err)
	}
	m, ok := answer.(*acp.SandboxControlResult)
	if !ok {
		return bridge.SandboxResult{}, &bridge.ControlError{Code: bridge.ControlFailed, Message: "The proxy answered with something else."}
	}
	return bridge.SandboxResult{
		OK: m.OK, Error: m.Error, Stdout: m.Stdout, Stderr: m.Stderr, Code: m.Code, Signal: word(m.Signal), Status: m.Status, Details: m.Details,
	}, nil
}

// expected lists the instances that Sessions of ours account for. Those in memory come last and count too: a Session that
// began while the rows were read may have its acp_open on the way before what this list is for.
func (g *Gateway) expected(ctx context.Context, p *proxy) ([]acp.ExpectedInstance, error) {
	rows, err := g.cfg.Registry.InstancesOf(ctx, p.id)
	if err != nil {
		return nil, err
	}
	list := make([]acp.ExpectedInstance, 0, len(rows))
	listed := make(map[string]bool, len(rows))
	for _, row := range rows {
		list = append(list, acp.ExpectedInstance{InstanceName: row.InstanceName, RunID: row.SessionID})
		listed[row.SessionID] = true
	}
	for _, t := range g.allTunnels() {
		if t.p == p && !listed[t.id] {
			list = append(list, acp.ExpectedInstance{InstanceName: t.instance(), RunID: t.id})
		}
	}
	return list, nil
}

// removeWorkspace has a proxy remove the folder of a Session that is deleted. Nobody waits for it: a proxy whose runs
// share one folder refuses, and one that is away for long is cleared by the next prune.
func (t *tunnel) removeWorkspace() {
	t.p.send(t.id, &acp.SandboxControl{Action: acp.ActionRemoveWorkspace, RunID: t.id, InstanceName: t.instance(), RequestID: cancelPrefix + newID()})
}

// Inventory implements bridge.Controller.
func (g *Gateway) Inventory(ctx context.Context, proxyID string) (bridge.Inventory, error) {
	p := g.knownProxy(proxyID)
	if p == nil {
		return bridge.Inventory{}, unknownProxy()
	}
	p.freshen(ctx)
	ours, err := g.cfg.Registry.InstancesOf(ctx, proxyID)
	if err != nil {
		return bridge.Inventory{}, err
	}
	p.mu.Lock()
	row := p.row
	p.mu.Unlock()
	return compare(row, ours), nil
}

// freshenWait bounds how long a proxy may take to list what it has; then the last list counts.
const freshenWait = 5 * time.Second

// freshen has the proxy list what it has now.
func (p *proxy) freshen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, freshenWait)
	defer cancel()
	// What it answers does not matter: the inventories come before it, or there are the old.
	_, _ = p.sandbox(ctx, &acp.SandboxControl{Action: acp.ActionReportInventory})
}

// compare sets what a proxy last listed beside what is known here.
func compare(row store.Proxy, ours []store.SandboxInstance) bridge.Inventory {
	var boxes acp.SandboxInventory
	var work acp.WorkspaceInventory
	_ = json.Unmarshal(row.Sandboxes, &boxes) // of our own writing, or none
	_ = json.Unmarshal(row.Workspaces, &work)
	var inv bridge.Inventory
	inv.CapturedAt = timeOf(&boxes.CapturedAt)
	known := make(map[string]store.SandboxInstance, len(ours))
	for _, i := range ours {
		known[i.InstanceName] = i
	}
	listed := make(map[string]bool)
	for _, i := range boxes.Instances {
		mine, ok := known[i.InstanceName]
		listed[i.InstanceName] = true
		inv.Instances = append(inv.Instances, bridge.InventoryItem{
			InstanceName: i.InstanceName, SessionID: cmp.Or(mine.OfSession, mine.SessionID), Status: i.Status, LastSeen: timeOf(i.LastSeenAt), Unknown: !ok,
		})
	}
	for _, i := range ours {
		if !listed[i.InstanceName] && i.Status != "closed" && !i.CreatedAt.After(inv.CapturedAt) {
			inv.Instances = append(inv.Instances, bridge.InventoryItem{InstanceName: i.InstanceName, SessionID: cmp.Or(i.OfSession, i.SessionID), Status: i.Status, LastSeen: i.LastSeen, Missing: true})
		}
	}
	for _, w := range work.Workspaces {
		mine, ok := known[w.InstanceName]
		inv.Workspaces = append(inv.Workspaces, bridge.InventoryItem{
			InstanceName: w.InstanceName, SessionID: cmp.Or(mine.OfSession, mine.SessionID), Path: w.HostPath, ModifiedAt: timeOf(w.MTime), SizeBytes: w.SizeBytes,
			Gone: !w.Exists, Unknown: !ok,
		})
	}
	inv.MissingInstances, inv.DeletedInstances, inv.DeletedWorkspaces = boxes.MissingInstances, boxes.DeletedInstances, boxes.DeletedWorkspaces
	return inv
}

// timeOf reads a proxy's time; zero when it told none.
func timeOf(told *string) time.Time {
	at, err := time.Parse(time.RFC3339, word(told))
	if err != nil {
		return time.Time{}
	}
	return at
}

// saveListed keeps what a list of a proxy says of our instances, of Sessions that are not in memory too: how each is, and
// when it was seen last.
func (k *keeper) saveListed(ctx context.Context, p *proxy, m *acp.SandboxInventory) error {
	changes := listedChanges(m)
	if len(changes) == 0 {
		return nil
	}
	rows, err := k.g.cfg.Registry.InstancesOf(ctx, p.id)
	if err != nil {
		return err
	}
	for _, row := range rows {
		change := changes[row.InstanceName]
		if change == nil {
			continue
		}
		if t := k.g.known(row.SessionID); t != nil && t.p == p {
			t.note(change)
			k.instance(t) // when it was seen is nothing that note looks at
			continue
		}
		before := row
		if change(&row); same(before, row) && before.LastSeen.Equal(row.LastSeen) {
			continue
		}
		row.UpdatedAt = time.Now()
		if err := k.saveRow(ctx, p, row); err != nil {
			return err
		}
	}
	return nil
}

// listedChanges is what a list says of each instance it names.
func listedChanges(m *acp.SandboxInventory) map[string]func(*store.SandboxInstance) {
	changes := make(map[string]func(*store.SandboxInstance), len(m.Instances))
	for _, raw := range slices.Concat(m.MissingInstances, m.DeletedInstances) {
		var gone acp.ExpectedInstance // an object or a name, as there
		if json.Unmarshal(raw, &gone) == nil && gone.InstanceName != "" {
			changes[gone.InstanceName] = func(row *store.SandboxInstance) { row.Status = "missing" }
		}
	}
	for _, i := range m.Instances {
		seen := timeOf(i.LastSeenAt)
		changes[i.InstanceName] = func(row *store.SandboxInstance) {
			row.Status, row.Provider = i.Status, m.Provider
			if !seen.IsZero() {
				row.LastSeen = seen
			}
		}
	}
	return changes
}
