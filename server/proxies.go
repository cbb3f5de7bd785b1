// acp-proxies as operators see them: list, one, its inventory, and the removal of one that has left. Steering is in
// proxycontrol.go, registration in proxyregister.go.

package server

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/fault"
	"aqueduct/server/answer"
	"aqueduct/server/route"
	"aqueduct/store"
)

// proxyList is /api/proxies: where ACP agents run. The rows are what all replicas know; the gateway knows which
// proxies are connected to this one.
type proxyList struct {
	deeds proxyDeeds
	// known are the rows, control is the gateway.
	known   bridge.ProxyRegistry
	control bridge.Controller // nil when this server has no gateway
}

// Mount adds the routes, for operators. The one that changes something is Controlled: its refusals are audited as
// well.
func (h *proxyList) Mount(to *route.Routes) {
	to.Operators(http.MethodGet, "/api/proxies", h.list)
	to.Operators(http.MethodGet, "/api/proxies/:id", withID("id", h.get))
	to.Controlled(http.MethodDelete, "/api/proxies/:id", h.deeds.refused, withID("id", h.remove))
	to.Operators(http.MethodGet, "/api/proxies/:id/inventory", withID("id", h.inventory))
}

// proxyJSON is a proxy as it registered. Status is what all replicas know; Linked and what is behind it is this
// replica's. busy and max_concurrent together say whether another thread can start there.
type proxyJSON struct {
	ID            string          `json:"id"`
	Name          string          `json:"name"`
	Agent         string          `json:"agent"`
	Status        string          `json:"status"` // as last kept
	Linked        bool            `json:"linked"` // to this replica, now
	Busy          int             `json:"busy"`   // Turns it works on
	MaxConcurrent int             `json:"max_concurrent"`
	RegisteredAt  *time.Time      `json:"registered_at,omitempty"` // first
	ConnectedAt   *time.Time      `json:"connected_at,omitempty"`
	LastSeen      *time.Time      `json:"last_seen,omitempty"`
	LastError     string          `json:"last_error,omitempty"`
	TokenEnds     *time.Time      `json:"token_expires_at,omitempty"` // of the token that it linked with
	Capabilities  json.RawMessage `json:"capabilities,omitempty"`
}

// linked and busy are zero on a replica that the proxy is not connected to.
func (h *proxyList) out(p store.Proxy) proxyJSON {
	out := proxyJSON{
		ID: p.ID, Name: p.Name, Agent: p.AgentID, Status: string(p.Status), MaxConcurrent: p.MaxConcurrent,
		RegisteredAt: answer.TimeOrNil(p.RegisteredAt), ConnectedAt: answer.TimeOrNil(p.ConnectedAt), LastSeen: answer.TimeOrNil(p.LastSeen), LastError: p.LastError, TokenEnds: answer.TimeOrNil(p.TokenEnds), Capabilities: p.Capabilities,
	}
	if h.control != nil {
		out.Linked, out.Busy = h.control.Linked(p.ID)
	}
	return out
}

// list gives all at once: there are as many proxies as machines, not thousands.
func (h *proxyList) list(c echo.Context) error {
	rows, err := h.known.Proxies(c.Request().Context())
	return reply(c, http.StatusOK, struct {
		Proxies []proxyJSON `json:"proxies"`
	}{eachOut(rows, h.out)}, err)
}

// get gives one proxy.
func (h *proxyList) get(c echo.Context, id string) error {
	p, err := h.known.Proxy(c.Request().Context(), id)
	return reply(c, http.StatusOK, h.out(p), err)
}

// remove forgets a proxy that has left. The audit's entry comes first: a removal that cannot be audited is not done.
// The gateway refuses to remove one that is connected, because it would register again at once.
func (h *proxyList) remove(c echo.Context, id string) error {
	if h.control == nil {
		return noGateway()
	}
	// Where the gateway refuses afterwards, the refusal has an entry of its own (route.Controlled).
	if err := h.deeds.done(c, audit.ProxyRemoved, id, nil); err != nil {
		return err
	}
	return done(c, h.control.Remove(c.Request().Context(), id))
}

// inventoryJSON is what a proxy reported last, each item compared with the rows here. Three of its lists are passed
// on as the proxy sent them.
type inventoryJSON struct {
	ProxyID    string              `json:"proxy_id"`
	CapturedAt *time.Time          `json:"captured_at,omitempty"` // none: the proxy has sent no inventory yet
	Instances  []inventoryItemJSON `json:"instances"`
	Workspaces []inventoryItemJSON `json:"workspaces"`

	// What the proxy itself reports, unchanged.
	MissingInstances  []json.RawMessage `json:"missing_instances,omitempty"`
	DeletedInstances  []json.RawMessage `json:"deleted_instances,omitempty"`
	DeletedWorkspaces []json.RawMessage `json:"deleted_workspaces,omitempty"`
}

// inventoryItemJSON is an instance or a workspace; which members are there depends on which of the two it is. An
// instance has instance_name, run_id and status; a workspace has path, size and times.
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
func (h *proxyList) inventory(c echo.Context, id string) error {
	if h.control == nil {
		return noGateway()
	}
	got, err := h.control.Inventory(c.Request().Context(), id)
	return reply(c, http.StatusOK, inventoryJSON{
		ProxyID: id, CapturedAt: answer.TimeOrNil(got.CapturedAt), Instances: eachOut(got.Instances, itemOut), Workspaces: eachOut(got.Workspaces, itemOut),
		MissingInstances: got.MissingInstances, DeletedInstances: got.DeletedInstances, DeletedWorkspaces: got.DeletedWorkspaces,
	}, err)
}

// itemOut is the JSON of an item, with how it compares: an item is on both sides, on the proxy's alone, or on ours alone.
func itemOut(i bridge.InventoryItem) inventoryItemJSON {
	state := "known"
	switch {
	case i.Unknown:
		state = "unknown"
	case i.Missing:
		state = "missing"
	}
	return inventoryItemJSON{
		InstanceName: i.InstanceName, RunID: i.SessionID, Status: i.Status, Path: i.Path, LastSeen: answer.TimeOrNil(i.LastSeen),
		ModifiedAt: answer.TimeOrNil(i.ModifiedAt), SizeBytes: i.SizeBytes, Gone: i.Gone, State: state,
	}
}

// noGateway is the answer of a server that no proxy can connect to. It is the code for a proxy that is not there:
// without a gateway none is.
func noGateway() error { return &fault.Error{Code: bridge.ControlUnknown} }
