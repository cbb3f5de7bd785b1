package acpgateway

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Sandbox implements bridge.Controller.
//
// A control names a proxy and often a Session. That the Session is on that proxy is checked here, because the proxy
// would act on whatever instance is named.
func (ct *controls) Sandbox(ctx context.Context, proxyID string, control bridge.SandboxControl) (bridge.SandboxResult, error) {
	p := ct.fleet.knownProxy(proxyID)
	if p == nil {
		return bridge.SandboxResult{}, unknownProxy()
	}
	f := &wire.SandboxControl{
		Action: control.Action, RunID: control.SessionID, InstanceName: control.InstanceName, Image: control.Image, DryRun: control.DryRun,
		Branch: control.Branch, Remote: control.Remote, Cwd: control.Cwd, TimeoutSeconds: int(control.Timeout / time.Second),
	}
	if control.SessionID != "" {
		c, err := ct.fleet.channel(ctx, control.SessionID)
		if err != nil || c.p != p {
			return bridge.SandboxResult{}, fault.New(bridge.ControlNoAgent, "This thread is not on that proxy.")
		}
		if f.InstanceName != "" && f.InstanceName != c.agent.name() {
			return bridge.SandboxResult{}, fault.New(bridge.ControlNoAgent, "This thread has no instance of that name.")
		}
		f.InstanceName = c.agent.name()
		if err := ct.checkCwd(ctx, control.SessionID, control.Cwd); err != nil {
			return bridge.SandboxResult{}, err
		}
	}
	switch control.Action {
	// A collection deletes what the list of expected instances does not hold, so the list must never be too short: an
	// error in reading it ends the control.
	case wire.ActionGC, wire.ActionPruneOrphans:
		f.GC = &wire.GC{RemoveOrphans: control.RemoveOrphans, RemoveWorkspaces: control.RemoveWork, MaxDeleteCount: control.MaxDeleteCount}
		if !control.RemoveOrphans && !control.RemoveWork { // neither is chosen: both, or nothing would ever be collected
			f.GC.RemoveOrphans, f.GC.RemoveWorkspaces = true, true
		}
		expected, err := ct.expected(ctx, p)
		if err != nil {
			return bridge.SandboxResult{}, err
		}
		f.ExpectedInstances = expected
	}
	return ct.send(ctx, p, f)
}

// guestRoot is how the contract calls a run's workspace, wherever it is.
const guestRoot = "/workspace"

// checkCwd refuses a directory outside of the thread's folder. A proxy of another make may not look at it.
func (ct *controls) checkCwd(ctx context.Context, sessionID, cwd string) error {
	if cwd == "" || filepath.IsLocal(cwd) {
		return nil
	}
	_, folder, err := ct.Place(ctx, sessionID)
	if err != nil {
		return err
	}
	for _, root := range []string{folder, guestRoot} {
		if rel, err := filepath.Rel(root, cwd); root != "" && filepath.IsAbs(cwd) && err == nil && filepath.IsLocal(rel) {
			return nil
		}
	}
	return fault.New(bridge.ControlUnsupported, "cwd lies outside of the thread's folder.")
}

func unknownProxy() error {
	return fault.New(bridge.ControlUnknown, "There is no such proxy.")
}

// Prune implements bridge.Controller. What a Session of ours accounts for stays.
func (ct *controls) Prune(ctx context.Context, proxyID string, dryRun bool) (bridge.SandboxResult, error) {
	return ct.Sandbox(ctx, proxyID, bridge.SandboxControl{Action: wire.ActionPruneOrphans, DryRun: dryRun})
}

// send sends the control and waits for its result.
// A command with a timeout of its own is waited for that long and ten seconds more, for the way there and back.
func (ct *controls) send(ctx context.Context, p *proxy, f *wire.SandboxControl) (bridge.SandboxResult, error) {
	wait := ct.cfg.Limits.Control
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
	m, ok := answer.(*wire.SandboxControlResult)
	if !ok {
		return bridge.SandboxResult{}, fault.New(bridge.ControlFailed, "The proxy answered with something else.")
	}
	return bridge.SandboxResult{
		OK: m.OK, Error: m.Error, Stdout: m.Stdout, Stderr: m.Stderr, Code: m.Code, Signal: stringOf(m.Signal), Status: m.Status, Details: m.Details,
	}, nil
}

// expected lists the instances that Sessions of ours account for. Those in memory come last and count too: a Session that
// began while the rows were read may have its acp_open on the way before what this list is for.
func (ct *controls) expected(ctx context.Context, p *proxy) ([]wire.ExpectedInstance, error) {
	rows, err := ct.cfg.Registry.InstancesOf(ctx, p.id)
	if err != nil {
		return nil, err
	}
	list := make([]wire.ExpectedInstance, 0, len(rows))
	listed := make(map[string]bool, len(rows))
	for _, row := range rows {
		list = append(list, wire.ExpectedInstance{InstanceName: row.InstanceName, RunID: row.SessionID})
		listed[row.SessionID] = true
	}
	for _, c := range ct.fleet.allChannels() {
		if c.p == p && !listed[c.id] {
			list = append(list, wire.ExpectedInstance{InstanceName: c.agent.name(), RunID: c.id})
		}
	}
	return list, nil
}

// Inventory implements bridge.Controller.
func (ct *controls) Inventory(ctx context.Context, proxyID string) (bridge.Inventory, error) {
	p := ct.fleet.knownProxy(proxyID)
	if p == nil {
		return bridge.Inventory{}, unknownProxy()
	}
	ct.freshen(ctx, p)
	ours, err := ct.cfg.Registry.InstancesOf(ctx, proxyID)
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
func (ct *controls) freshen(ctx context.Context, p *proxy) {
	ctx, cancel := context.WithTimeout(ctx, freshenWait)
	defer cancel()
	// What it answers does not matter: the inventories come before it, or there are the old.
	_, _ = ct.send(ctx, p, &wire.SandboxControl{Action: wire.ActionReportInventory})
}

// compare sets what a proxy last listed beside what is known here.
// Unknown is what the proxy has and no Session accounts for, missing what should be there and is not listed. An
// instance that was made after the list was captured is neither.
func compare(row store.Proxy, ours []store.SandboxInstance) bridge.Inventory {
	var boxes wire.SandboxInventory
	var work wire.WorkspaceInventory
	_ = json.Unmarshal(row.Sandboxes, &boxes) // of our own writing, or none
	_ = json.Unmarshal(row.Workspaces, &work)
	var inv bridge.Inventory
	inv.CapturedAt = timeOf(&boxes.CapturedAt)
	known := make(map[string]store.SandboxInstance, len(ours))
	runs := make(map[string]store.SandboxInstance, len(ours))
	for _, i := range ours {
		known[i.InstanceName], runs[i.SessionID] = i, i
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
		if !ok { // some proxies know the workspaces of a host by their runs alone
			mine, ok = runs[w.RunID]
		}
		inv.Workspaces = append(inv.Workspaces, bridge.InventoryItem{
			InstanceName: cmp.Or(w.InstanceName, mine.InstanceName), SessionID: cmp.Or(mine.OfSession, mine.SessionID), Path: cmp.Or(w.HostPath, w.GuestPath),
			ModifiedAt: timeOf(w.MTime), SizeBytes: w.SizeBytes, Gone: w.Exists != nil && !*w.Exists, Unknown: !ok,
		})
	}
	inv.MissingInstances, inv.DeletedInstances, inv.DeletedWorkspaces = boxes.MissingInstances, boxes.DeletedInstances, boxes.DeletedWorkspaces
	return inv
}

// timeOf reads a proxy's time; zero when it sent none.
func timeOf(told *string) time.Time {
	at, err := time.Parse(time.RFC3339, stringOf(told))
	if err != nil {
		return time.Time{}
	}
	return at
}

// saveListed saves what a proxy lists of our instances, of Sessions that are not in memory too: how each is, and
// when it was seen last.
// It saves only what changed: most lists repeat the one before.
func (k *keeper) saveListed(ctx context.Context, p *proxy, m *wire.SandboxInventory) error {
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
		if c := k.g.fleet.known(row.SessionID); c != nil && c.p == p {
			c.note(change)
			k.instance(c) // when it was seen is nothing that note looks at
			continue
		}
		before := row
		if change(&row); sameInstance(before, row) && before.LastSeen.Equal(row.LastSeen) {
			continue
		}
		row.UpdatedAt = time.Now()
		if err := k.saveRow(ctx, p, row); err != nil {
			return err
		}
	}
	return nil
}

// listedChanges is the change of each instance that a list names.
func listedChanges(m *wire.SandboxInventory) map[string]func(*store.SandboxInstance) {
	changes := make(map[string]func(*store.SandboxInstance), len(m.Instances))
	for _, raw := range slices.Concat(m.MissingInstances, m.DeletedInstances) {
		var gone wire.ExpectedInstance // an object or a name, as there
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
