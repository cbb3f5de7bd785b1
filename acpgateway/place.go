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
	var instance string
	if c := ct.fleet.known(sessionID); c != nil {
		proxyID, instance = c.p.id, c.agent.name()
	} else {
		row, err := ct.cfg.Registry.Instance(ctx, sessionID)
		if errors.Is(err, store.ErrNotFound) {
			return "", "", nil
		}
		if err != nil {
			return "", "", err
		}
		proxyID, instance = row.ProxyID, row.InstanceName
	}
	p := ct.fleet.knownProxy(proxyID)
	if p == nil {
		return proxyID, "", nil
	}
	return proxyID, folderAt(p, instance), nil
}

// folderAt is where the agent of an instance works; "" when the proxy has not listed it.
// An instance's own folder goes first; then what the operator configured for the agent; then where the proxy itself
// runs.
func folderAt(p *proxy, instance string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.folders[instance], p.g.cfg.Agents[p.row.AgentID].Cwd, p.folder)
}

// foldersIn returns the folders of a stored list. It ignores decoding errors, because the gateway wrote the list, or there is
// no list.
func foldersIn(kept []byte) map[string]string {
	var list wire.WorkspaceInventory
	_ = json.Unmarshal(kept, &list)
	return foldersOf(list)
}

// foldersOf is where the workspaces of a list are, by their instances.
func foldersOf(list wire.WorkspaceInventory) map[string]string {
	folders := make(map[string]string, len(list.Workspaces))
	for _, w := range list.Workspaces {
		folders[w.InstanceName] = w.HostPath
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
