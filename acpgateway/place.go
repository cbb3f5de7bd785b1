package acpgateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"aqueduct/acpgateway/wire"
	"aqueduct/store"
)

// Place implements bridge.Controller. The folder is what the proxy lists for the instance, else where all its agents work.
func (ct *controls) Place(ctx context.Context, sessionID string) (proxyID, folder string, err error) {
	var instance, run string
	if c := ct.fleet.known(sessionID); c != nil {
		proxyID, instance, run = c.p.id, c.agent.name(), c.id
	} else {
		row, err := ct.cfg.Registry.Instance(ctx, sessionID)
		if errors.Is(err, store.ErrNotFound) {
			return "", "", nil
		}
		if err != nil {
			return "", "", err
		}
		proxyID, instance, run = row.ProxyID, row.InstanceName, row.SessionID
	}
	p := ct.fleet.knownProxy(proxyID)
	if p == nil {
		return proxyID, "", nil
	}
	return proxyID, folderAt(p, instance, run), nil
}

// folderAt returns the working folder of the agent of a run's instance, or "" if the proxy has not listed it.
// An instance's own folder goes first; then what the operator configured for the agent; then where the proxy itself
// runs.
func folderAt(p *proxy, instance, run string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.folders[workspaceKey{instance: instance}], p.folders[workspaceKey{run: run}], p.g.cfg.Agents[p.row.AgentID].Cwd, p.folder)
}

// foldersIn returns the folders of a stored list. It ignores decoding errors, because the gateway wrote the list, or there is
// no list.
func foldersIn(kept []byte) map[workspaceKey]string {
	var list wire.WorkspaceInventory
	_ = json.Unmarshal(kept, &list)
	return foldersOf(list)
}

// workspaceKey identifies a workspace of a proxy: by its instance or, if the proxy names none, by its run.
type workspaceKey struct{ instance, run string }

// foldersOf returns the folders of the workspaces of a list.
func foldersOf(list wire.WorkspaceInventory) map[workspaceKey]string {
	folders := make(map[workspaceKey]string, len(list.Workspaces))
	for _, w := range list.Workspaces {
		key := workspaceKey{instance: w.InstanceName}
		if w.InstanceName == "" {
			key.run = w.RunID
		}
		folders[key] = w.HostPath
	}
	return folders
}

// folderOf is where all agents of a proxy work, as it announces it; "" when it does not.
func folderOf(capabilities []byte) string {
	var said struct {
		Sandbox struct{ WorkingDir string }
	}
	if json.Unmarshal(capabilities, &said) != nil {
		return "" // anything is allowed there
	}
	return said.Sandbox.WorkingDir
}
