package server

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/audit"
	"aqueduct/bridge/proxies"
	"aqueduct/store"
)

// proxyList is /api/proxies: where ACP agents run.
type proxyList struct {
	deeds   proxyDeeds
	known   *proxies.Registry
	control bridge.Controller // nil when this server has no gateway
}

func (h *proxyList) mount(to *routes) {
	to.operators(http.MethodGet, "/api/proxies", h.list)
	to.operators(http.MethodGet, "/api/proxies/:id", h.get)
	to.controlled(http.MethodDelete, "/api/proxies/:id", h.deeds, h.remove)
	to.operators(http.MethodGet, "/api/proxies/:id/inventory", h.inventory)
}

type proxyJSON struct {
	ID            string     `json:"id"`
	Name          string     `json:"name"`
	Agent         string     `json:"agent"`
	Status        string     `json:"status"` // as last kept
	Linked        bool       `json:"linked"` // to this replica, now
	Busy          int        `json:"busy"`   // Turns it works on
	MaxConcurrent int        `json:"max_concurrent"`
	RegisteredAt  *time.Time `json:"registered_at,omitempty"` // first
	ConnectedAt   *time.Time `json:"connected_at,omitempty"`
	LastSeen      *time.Time `json:"last_seen,omitempty"`
	LastError     string     `json:"last_error,omitempty"`
	Capabilities  rawJSON    `json:"capabilities,omitempty"`
}

func (h *proxyList) out(p store.Proxy) proxyJSON {
	out := proxyJSON{
		ID: p.ID, Name: p.Name, Agent: p.AgentID, Status: string(p.Status), MaxConcurrent: p.MaxConcurrent,
		RegisteredAt: moment(p.RegisteredAt), ConnectedAt: moment(p.ConnectedAt), LastSeen: moment(p.LastSeen), LastError: p.LastError, Capabilities: p.Capabilities,
	}
	if h.control != nil {
		out.Linked, out.Busy = h.control.Linked(p.ID)
	}
	return out
}

// list gives all at once: proxies are machines of somebody, not thousands.
func (h *proxyList) list(c echo.Context) error {
	rows, err := h.known.Proxies(c.Request().Context())
	if err != nil {
		return err
	}
	out := struct {
		Proxies []proxyJSON `json:"proxies"`
	}{Proxies: make([]proxyJSON, 0, len(rows))}
	for _, p := range rows {
		out.Proxies = append(out.Proxies, h.out(p))
	}
	return c.JSON(http.StatusOK, out)
}

func (h *proxyList) get(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	p, err := h.known.Proxy(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, h.out(p))
}

// remove forgets a proxy that has left.
func (h *proxyList) remove(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	if h.control == nil {
		return noGateway()
	}
	if err := h.deeds.done(c, audit.ProxyRemoved, id, nil); err != nil {
		return err
	}
	if err := h.control.Remove(c.Request().Context(), id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

type inventoryJSON struct {
	ProxyID    string              `json:"proxy_id"`
	CapturedAt *time.Time          `json:"captured_at,omitempty"` // none: it has not told yet
	Instances  []inventoryItemJSON `json:"instances"`
	Workspaces []inventoryItemJSON `json:"workspaces"`

	// What the proxy itself says, in its own words.
	MissingInstances  []json.RawMessage `json:"missing_instances,omitempty"`
	DeletedInstances  []json.RawMessage `json:"deleted_instances,omitempty"`
	DeletedWorkspaces []json.RawMessage `json:"deleted_workspaces,omitempty"`
}

type inventoryItemJSON struct {
	InstanceName string `json:"instance_name,omitempty"`
	RunID        string `json:"run_id,omitempty"` // as on /ws/agent: our Session
	Status       string `json:"status,omitempty"`
	Path         string `json:"path,omitempty"`

	LastSeen   *time.Time `json:"last_seen,omitempty"`
	ModifiedAt *time.Time `json:"modified_at,omitempty"`
	SizeBytes  *int64     `json:"size_bytes,omitempty"`
	Gone       bool       `json:"gone,omitempty"` // a workspace that is not there any more
	State      string     `json:"state"`          // known, unknown: the proxy's alone, missing: ours alone
}

// inventory compares what a proxy has with what is known of it here.
func (h *proxyList) inventory(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	if h.control == nil {
		return noGateway()
	}
	got, err := h.control.Inventory(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, inventoryJSON{
		ProxyID: id, CapturedAt: moment(got.CapturedAt), Instances: itemsOut(got.Instances), Workspaces: itemsOut(got.Workspaces),
		MissingInstances: got.MissingInstances, DeletedInstances: got.DeletedInstances, DeletedWorkspaces: got.DeletedWorkspaces,
	})
}

func itemsOut(items []bridge.InventoryItem) []inventoryItemJSON {
	out := make([]inventoryItemJSON, 0, len(items))
	for _, i := range items {
		state := "known"
		switch {
		case i.Unknown:
			state = "unknown"
		case i.Missing:
			state = "missing"
		}
		out = append(out, inventoryItemJSON{
			InstanceName: i.InstanceName, RunID: i.SessionID, Status: i.Status, Path: i.Path, LastSeen: moment(i.LastSeen),
			ModifiedAt: moment(i.ModifiedAt), SizeBytes: i.SizeBytes, Gone: i.Gone, State: state,
		})
	}
	return out
}

// noGateway is the answer of a server that no proxy can connect to.
func noGateway() error { return &bridge.ControlError{Code: bridge.ControlUnknown} }
