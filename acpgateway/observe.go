package acpgateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/store"
)

// observe learns from a frame what is true from its arrival on, and puts it on record. It is
// false when the frame is not for a Turn.
func (t *tunnel) observe(ctx context.Context, f frame) bool {
	switch m := f.Frame.(type) {
	case *acp.ACPUpdate:
		t.heard(m)
		t.records.update(ctx, m)
	case *acp.ProxyUpdate:
		t.records.signal(ctx, m)
		return t.signalled(m)
	case *acp.Opened:
		t.wasOpened(m)
	case *acp.PromptResult:
		t.records.result(ctx, m)
		return t.promptEnded(m)
	case *acp.Exit:
		t.records.exit(ctx, m)
		t.gone("stopped")
	case *acp.Closed:
		t.gone("closed")
	case *acp.BranchCreated:
		t.records.branch(ctx, m)
	case *restarted:
		t.records.flush()
		t.mu.Lock()
		t.kept = 0
		t.mu.Unlock()
		t.gone("stopped")
	}
	return true
}

// sessionsLeft is how many sessions are remembered that a branch has left: as many as may still have a prompt that ends.
const sessionsLeft = 16

// leaveSession has the next prompt begin another session: the agent's own memory cannot be taken back to a branch point. The
// new session is told the history of its branch.
func (t *tunnel) leaveSession() {
	t.mu.Lock()
	for _, id := range []string{t.session, t.row.ACPSessionID} {
		if id != "" && !slices.Contains(t.left, id) {
			t.left = append(t.left, id)
		}
	}
	t.left = t.left[max(0, len(t.left)-sessionsLeft):]
	t.session, t.primed = "", false
	t.mu.Unlock()
	t.note(func(row *store.SandboxInstance) { row.ACPSessionID = "" })
}

// inSession learns the agent's own id of the conversation. The first is kept.
func (t *tunnel) inSession(id string) {
	if id == "" {
		return
	}
	t.mu.Lock()
	if slices.Contains(t.left, id) {
		t.mu.Unlock()
		return
	}
	t.session = id
	first := t.row.ACPSessionID == ""
	t.mu.Unlock()
	if first {
		t.note(func(row *store.SandboxInstance) { row.ACPSessionID = id })
	}
}

func (t *tunnel) heard(m *acp.ACPUpdate) {
	t.inSession(word(m.SessionID))
	if bytes.Contains(m.Update, []byte("rompt_capabilities")) || bytes.Contains(m.Update, []byte("romptCapabilities")) {
		t.learnCapabilities(m.Update)
	}
	if m.PromptID != nil {
		t.lives(*m.PromptID)
	}
	if !tellsSettings(m.Update) {
		return
	}
	u := acp.ReadUpdate(m.Update)
	v := u.Session()
	if u.Variant == acp.SessionState {
		v = acp.ReadSession(u.Content.Raw)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if o, ok := v.Settings.Named("model"); ok {
		t.models = o.ID
	}
	if modes := v.OfferedModes(); modes != nil {
		t.modes = modes
	}
	t.moved = v.ModeID != "" && v.ModeID != t.told.ModeID && t.turn == nil
	t.told.ModeID, t.told.ModelID = cmp.Or(v.ModeID, t.told.ModeID), cmp.Or(v.ModelID, t.told.ModelID)
	if v.Settings.Raw != nil {
		t.told.ConfigOptions = v.Settings.Raw
	}
}

// learnCapabilities learns what the agent's prompts may hold from an update that says it.
func (t *tunnel) learnCapabilities(update json.RawMessage) {
	caps, told := acp.FindPromptCapabilities(update)
	if !told {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.caps = &caps
}

// tellsSettings looks for the names of what does, which costs a chunk less than reading it.
func tellsSettings(update []byte) bool {
	return bytes.Contains(update, []byte("onfigOptions")) || bytes.Contains(update, []byte("urrentM")) || bytes.Contains(update, []byte("urrent_mode")) ||
		bytes.Contains(update, []byte("vailableModes"))
}

func (t *tunnel) wasOpened(m *acp.Opened) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opened = m.OK
	if caps, told := acp.FindPromptCapabilities(m.Said); m.OK && told {
		t.caps = &caps
	}
}

// promptEnded notes the end of a prompt, which ends once. The session a result names is the
// agent's word on which one goes on.
func (t *tunnel) promptEnded(m *acp.PromptResult) bool {
	t.mu.Lock()
	if t.results.has(m.PromptID) {
		t.mu.Unlock()
		t.g.refuse(refusedUnexpected)
		return false
	}
	t.results.add(m.PromptID)
	if p := t.prompts[m.PromptID]; p != nil && p.fate == wanted {
		t.dropLeft(m.PromptID)
	}
	delete(t.prompts, m.PromptID)
	t.used = time.Now()
	gone := slices.Contains(t.left, m.SessionID) // a branch was begun before its cancelled prompt ended
	if m.SessionID != "" && !gone {
		t.session, t.primed = m.SessionID, t.primed || m.OK
	}
	t.mu.Unlock()
	if m.OK && m.SessionID != "" && !gone {
		t.note(func(row *store.SandboxInstance) { row.ACPSessionID = m.SessionID })
	}
	return true
}

// gone notes the end of the agent's process.
func (t *tunnel) gone(status string) {
	t.mu.Lock()
	t.closing = time.Time{}
	busy := len(t.prompts) > 0 && status != "closed"
	t.ended()
	t.mu.Unlock()
	t.note(func(row *store.SandboxInstance) { row.Status = status })
	if !busy { // else the proxy may start the agent again for a prompt that is on its way, with the same environment
		t.revokeToken()
	}
}

// signalled learns from a proxy's own signal. A request for permission that a cancelled
// prompt makes is answered at once.
func (t *tunnel) signalled(m *acp.ProxyUpdate) bool {
	signal, err := acp.DecodeSignal(m.Content)
	if err != nil {
		t.g.refuse(refusedMalformed)
		return true // told as it is
	}
	switch s := signal.(type) {
	case *acp.InstanceStatus:
		t.status(s)
	case *acp.TransportConnected:
		t.mu.Lock()
		t.life++
		t.mu.Unlock()
		t.note(func(row *store.SandboxInstance) { row.Transport = m.Content })
	case *acp.TransportDisconnected:
		t.note(func(row *store.SandboxInstance) { row.Transport = m.Content })
	case *acp.InitResult:
		t.note(func(row *store.SandboxInstance) { row.Init = m.Content })
	case *acp.PermissionRequest:
		t.inSession(s.SessionID)
		return !t.declined(s, m.Content)
	case *acp.ElicitationRequest:
		t.inSession(s.SessionID)
		return !t.declinedInput(s)
	}
	return true
}

// seenEvery is how old what is kept of when an instance was seen may be: it comes with every prompt, and is not worth a
// write each.
const seenEvery = time.Minute

func (t *tunnel) status(s *acp.InstanceStatus) {
	seen := timeOf(&s.LastSeenAt)
	if seen.IsZero() {
		seen = time.Now()
	}
	t.mu.Lock()
	stale := seen.Sub(t.row.LastSeen) > seenEvery
	t.mu.Unlock()
	t.note(func(row *store.SandboxInstance) {
		row.Status, row.Provider, row.Runtime, row.LastError = s.Status, s.Provider, word(s.Runtime), word(s.LastError)
		row.LastSeen = seen // but its name stays what it was opened with
	})
	if stale {
		t.g.keeper.instance(t)
	}
}

// declined answers what nobody is to be asked: for a prompt that was cancelled, or with nothing
// to choose, which the chat is told. It reports whether the frame means nothing more.
func (t *tunnel) declined(s *acp.PermissionRequest, content json.RawMessage) bool {
	t.mu.Lock()
	declined := s.PromptID != nil && t.dropped.has(*s.PromptID)
	t.mu.Unlock()
	nothing := !declined && len(acp.ReadPermission(content).Options) == 0
	if nothing {
		t.g.refuse(refusedMalformed)
	}
	if declined || nothing {
		a := ask{key: askKey{Session: s.SessionID, Request: s.RequestID}}
		t.p.send(t.id, a.cancelled(t.id))
	}
	return declined
}

// declinedInput answers a request for input that a cancelled prompt makes.
func (t *tunnel) declinedInput(s *acp.ElicitationRequest) bool {
	t.mu.Lock()
	declined := s.PromptID != nil && t.dropped.has(*s.PromptID)
	t.mu.Unlock()
	if declined {
		a := ask{key: askKey{Session: s.SessionID, Request: s.RequestID, Input: true}}
		t.p.send(t.id, a.cancelled(t.id))
	}
	return declined
}

func word(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
