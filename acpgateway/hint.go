package acpgateway

import (
	"aqueduct/acpgateway/wire"
	"aqueduct/bridge/livefeed"
	"aqueduct/store"
)

// hintFeed makes the hints of one Session for /ws/client and publishes them.
// Hints are for pages that show an agent at work before its events arrive. They may be lost, are never kept, and are
// sent only while a page watches.
type hintFeed struct {
	hub     *livefeed.Hub
	session string
}

// hint is a frame for /ws/client. It waits in the queue until the events made of the frame are committed.
type hint struct {
	at   int64
	body []byte
}

// maxHints bounds what a channel holds back; hints may be lost.
const maxHints = 1024

// of makes the hint of a frame, if someone watches. State that no Turn reads is published at once: no event is made of
// it before the next prompt, and a page shows the mode.
func (h *hintFeed) of(f frame, reading bool, held int) (hint, bool) {
	m, ok := f.Frame.(*wire.ACPUpdate)
	if !ok || !h.hub.Watched() || held == maxHints {
		return hint{}, false
	}
	body := livefeed.PromptUpdate(h.session, stringOf(m.PromptID), stringOf(m.SessionID), m.Update)
	if !reading && f.isStateOnly() {
		h.hub.Publish(h.session, body)
		return hint{}, false
	}
	return hint{f.at, body}, true
}

// publish gives hints to the watchers.
func (h *hintFeed) publish(list []hint) {
	for _, hint := range list {
		h.hub.Publish(h.session, hint.body)
	}
}

// eventAdded returns the hint for a record.
func eventAdded(r store.Record) []byte {
	return livefeed.EventAdded(livefeed.Event{
		ID: r.ID, RunID: r.SessionID, Source: string(store.SourceACP), Type: r.Type, Payload: r.Payload, Timestamp: r.TS,
	})
}

// publishRecords sends committed records to the watchers, except records that the watchers have in parts.
func (g *Gateway) publishRecords(records []store.Record, shown map[string]bool) {
	if !g.cfg.Hints.Watched() {
		return
	}
	for _, r := range records {
		if shown[r.ID] {
			continue
		}
		g.cfg.Hints.Publish(r.SessionID, eventAdded(r))
		if signal, err := wire.DecodeSignal(r.Payload); err == nil && r.Source == store.SourceProxy && signal.Kind() == "init_step" {
			g.cfg.Hints.Publish(r.SessionID, livefeed.InitStep(r.SessionID, r.Payload))
		}
	}
}

// publishInventory gives a proxy's list to the watchers.
func publishInventory(hub *livefeed.Hub, proxyID string, f wire.Frame) {
	if !hub.Watched() {
		return
	}
	switch m := f.(type) {
	case *wire.SandboxInventory:
		hub.PublishAll(livefeed.SandboxInventory(proxyID, m.InventoryID, m.CapturedAt, mustJSON(m.Instances)))
	case *wire.WorkspaceInventory:
		hub.PublishAll(livefeed.WorkspaceInventory(proxyID, m.InventoryID, m.CapturedAt, mustJSON(m.Workspaces)))
	}
}
