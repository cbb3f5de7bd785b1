package acpgateway

import (
	"aqueduct/acpgateway/acp"
	"aqueduct/bridge/hints"
	"aqueduct/store"
)

// hint is a frame for /ws/client, until what it tells of is kept.
type hint struct {
	at   int64
	body []byte
}

// maxHints bounds what a tunnel holds back; hints may be lost.
const maxHints = 1024

// hint notes what watchers are told of a frame once it is kept. The lock is held.
func (t *tunnel) hint(f frame) {
	m, ok := f.Frame.(*acp.ACPUpdate)
	if !ok || !t.g.cfg.Hints.Watched() || len(t.hints) == maxHints {
		return
	}
	if t.turn == nil && stateLike(m.Update) {
		// Nobody reads it until the next prompt: a page that shows the mode hears of it now.
		t.g.cfg.Hints.Publish(t.owner, hints.PromptUpdate(t.owner, word(m.PromptID), word(m.SessionID), m.Update))
		return
	}
	t.hints = append(t.hints, hint{f.at, hints.PromptUpdate(t.owner, word(m.PromptID), word(m.SessionID), m.Update)})
}

// takeHints takes those of what is kept. The lock is held.
func (t *tunnel) takeHints(at int64) []hint {
	n := 0
	for n < len(t.hints) && t.hints[n].at <= at {
		n++
	}
	kept := t.hints[:n:n]
	t.hints = t.hints[n:]
	return kept
}

// tell hands hints to those who watch.
func (g *Gateway) tell(sessionID string, list []hint) {
	for _, h := range list {
		g.cfg.Hints.Publish(sessionID, h.body)
	}
}

// recorded tells of records that are kept.
func (g *Gateway) recorded(records []store.Record) {
	if !g.cfg.Hints.Watched() {
		return
	}
	for _, r := range records {
		g.cfg.Hints.Publish(r.SessionID, hints.EventAdded(hints.Event{
			ID: r.ID, RunID: r.SessionID, Source: string(store.SourceACP), Type: r.Type, Payload: r.Payload, Timestamp: r.TS,
		}))
		if signal, err := acp.DecodeSignal(r.Payload); err == nil && r.Source == store.SourceProxy && signal.Kind() == "init_step" {
			g.cfg.Hints.Publish(r.SessionID, hints.InitStep(r.SessionID, r.Payload))
		}
	}
}

// hintAll tells of what a proxy lists.
func (p *proxy) hintAll(f acp.Frame) {
	if !p.g.cfg.Hints.Watched() {
		return
	}
	switch m := f.(type) {
	case *acp.SandboxInventory:
		p.g.cfg.Hints.PublishAll(hints.SandboxInventory(p.id, m.InventoryID, m.CapturedAt, mustJSON(m.Instances)))
	case *acp.WorkspaceInventory:
		p.g.cfg.Hints.PublishAll(hints.WorkspaceInventory(p.id, m.InventoryID, m.CapturedAt, mustJSON(m.Workspaces)))
	}
}
