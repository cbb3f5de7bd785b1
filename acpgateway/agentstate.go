package acpgateway

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge"
	"aqueduct/store"
)

// agentState is what is known of a channel's agent: its instance's row, whether its process runs, its session, what it
// offers and how it is set. The link's goroutine learns it from frames, Turns and requests read it. Its lock is taken
// last; nothing is called with it held.
type agentState struct {
	mu      sync.Mutex
	row     store.SandboxInstance
	running bool                     // its process runs and is initialized, as far as is known
	closing time.Time                // it was closed and its process may still be there
	life    int                      // of the agent's processes, counted
	token   string                   // that its process has; "" when this process of ours has made none
	caps    *wire.PromptCapabilities // nil: not announced

	session string   // the agent's own id of the conversation, newest first-hand
	left    []string // its sessions that a branch has left; the newest sessionsLeft
	primed  bool     // it has ended a prompt that the context was sent with

	modes    []string // that it offers; nil: not known
	models   string   // id of the config option that chooses the model
	settings bridge.Settings
	moved    bool // its mode has changed while no Turn read
}

// sessionsLeft is how many sessions are remembered that a branch has left: as many as may still have a prompt that ends.
const sessionsLeft = 16

// change alters the instance's row and reports whether it has to be saved.
func (s *agentState) change(change func(*store.SandboxInstance)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.row
	change(&s.row)
	return !sameInstance(before, s.row)
}

// sameInstance leaves out when the instance was last seen: every prompt changes that.
func sameInstance(a, b store.SandboxInstance) bool {
	return a.Status == b.Status && a.ACPSessionID == b.ACPSessionID && a.LastError == b.LastError && a.Provider == b.Provider &&
		a.Runtime == b.Runtime && string(a.Transport) == string(b.Transport) && string(a.Init) == string(b.Init) && a.InstanceName == b.InstanceName &&
		bytes.Equal(a.TokenHash, b.TokenHash)
}

// instance is a copy of the row.
func (s *agentState) instance() store.SandboxInstance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row
}

// name is how the instance is called; it stays what it was opened with.
func (s *agentState) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row.InstanceName
}

// isRunning reports whether the agent's process runs, as far as is known.
func (s *agentState) isRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// isClosing reports whether the agent was closed and its process may still be there.
func (s *agentState) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closing.IsZero()
}

// close notes that the agent was asked to end. While its process may still be there, an acp_open could be answered by
// the process that is about to end.
func (s *agentState) close(busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running || busy {
		s.closing = time.Now()
	}
	s.ended()
}

// closeOverdue forgets a close that took too long, and reports that.
// An agent may not end when it is closed. Waiting for it for ever would keep the Session without one.
func (s *agentState) closeOverdue(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	overdue := !s.closing.IsZero() && now.Sub(s.closing) > closedWait
	if overdue {
		s.closing = time.Time{}
	}
	return overdue
}

// exited notes the end of the agent's process.
func (s *agentState) exited() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = time.Time{}
	s.ended()
}

// ended: the next process numbers its requests anew and knows nothing of the context. The lock is held.
// Without the count a question of the next process would have the key of one of the last, and an answer that was given
// to that would be taken for its own.
func (s *agentState) ended() {
	s.running, s.primed = false, false
	s.life++
}

// connected counts a process whose connection is new; its requests' ids begin anew.
func (s *agentState) connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
}

// generation is the count of the agent's processes.
func (s *agentState) generation() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// opened notes the answer to acp_open.
// An agent that could not be opened may still have announced what it takes; only a running one's word counts.
func (s *agentState) opened(m *wire.Opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = m.OK
	if caps, found := wire.FindPromptCapabilities(m.Said); m.OK && found {
		s.caps = &caps
	}
}

// known is what a prompt needs: the agent's capabilities, its session, and whether that has the context.
func (s *agentState) known() (caps *wire.PromptCapabilities, session string, primed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caps, s.row.ACPSessionID, s.primed
}

// sessionID is the agent's own id of the conversation, as last seen.
func (s *agentState) sessionID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

// leaveSession forgets the session, so that the next prompt begins another: the agent's memory cannot be taken back to a
// branch point. Late frames of the session that was left must not make it the current one again.
func (s *agentState) leaveSession() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range []string{s.session, s.row.ACPSessionID} {
		if id != "" && !slices.Contains(s.left, id) {
			s.left = append(s.left, id)
		}
	}
	s.left = s.left[max(0, len(s.left)-sessionsLeft):]
	s.session, s.primed = "", false
}

// inSession learns the session that a frame names. first is true when the row has none yet.
func (s *agentState) inSession(id string) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" || slices.Contains(s.left, id) {
		return false
	}
	s.session = id
	return s.row.ACPSessionID == ""
}

// promptEnded learns from a result, which decides in which session the conversation continues; except for the result of
// a prompt that a branch has cancelled. It reports whether the row changes.
// It is the result that counts and not the newest update, since an agent that recreated a lost session names the new
// one there.
func (s *agentState) promptEnded(m *wire.PromptResult) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.SessionID == "" || slices.Contains(s.left, m.SessionID) {
		return false
	}
	s.session, s.primed = m.SessionID, s.primed || m.OK
	return m.OK
}

// learn reads from an update what the agent offers and how it is set. A changed mode is worth a Run of its own when no
// Turn reads: pages show it.
//
// Capabilities and settings come in several frames and under two spellings: camel case from ACP itself, snake case
// from older proxies. The bytes are searched before they are decoded because nearly all updates are chunks of text.
func (s *agentState) learn(u *wire.Update, reading bool) {
	if bytes.Contains(u.Raw, []byte("rompt_capabilities")) || bytes.Contains(u.Raw, []byte("romptCapabilities")) {
		if caps, found := wire.FindPromptCapabilities(u.Raw); found {
			s.mu.Lock()
			s.caps = &caps
			s.mu.Unlock()
		}
	}
	if !mentionsSettings(u.Raw) {
		return
	}
	v := u.Session()
	if u.Variant == wire.SessionState {
		v = wire.ReadSession(u.Content.Raw)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := v.Settings.Named("model"); ok {
		s.models = o.ID
	}
	if modes := v.OfferedModes(); modes != nil {
		s.modes = modes
	}
	s.moved = v.ModeID != "" && v.ModeID != s.settings.ModeID && !reading
	s.settings.ModeID, s.settings.ModelID = cmp.Or(v.ModeID, s.settings.ModeID), cmp.Or(v.ModelID, s.settings.ModelID)
	if v.Settings.Raw != nil {
		s.settings.ConfigOptions = v.Settings.Raw
	}
}

// mentionsSettings looks for the names of settings, which costs a chunk less than reading it.
func mentionsSettings(update []byte) bool {
	return bytes.Contains(update, []byte("onfigOptions")) || bytes.Contains(update, []byte("urrentM")) || bytes.Contains(update, []byte("urrent_mode")) ||
		bytes.Contains(update, []byte("vailableModes"))
}

// takeMoved reports, once, that the mode has changed while no Turn read.
func (s *agentState) takeMoved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	moved := s.moved
	s.moved = false
	return moved
}

// staleSince reports whether the time at which the instance was last seen has to be saved even if nothing else changed.
func (s *agentState) staleSince(seen time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return seen.Sub(s.row.LastSeen) > seenEvery
}

// checkMode refuses a mode that the agent did not offer, where its offer is known: some agents accept any name and keep
// their mode.
func (s *agentState) checkMode(mode string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.modes == nil || slices.Contains(s.modes, mode) {
		return nil
	}
	return notOffered("The agent does not offer this mode. It offers: " + strings.Join(s.modes, ", ") + ".")
}

// setMode notes a mode that was set from here, so that the agent's update of it begins no Run.
// Without it the agent's echo of the mode would count as moved, and each change of mode by a page would begin a Run.
func (s *agentState) setMode(mode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings.ModeID = mode
}

// current is the agent's settings and the id of the option that chooses its model.
func (s *agentState) current() (settings bridge.Settings, modelOption string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings, s.models
}

// makeToken is the token of the agent's process, made when there is none. It stays the same until the instance is
// closed, for the process has it from its start; only its hash is kept. Of a process from before a restart of ours the
// token is unknown here, and its hash stays beside the new one.
// A new token for each start would make those of a process that runs worthless; it has only its environment.
func (s *agentState) makeToken(run string) (token string, made bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" {
		return s.token, false
	}
	token, hash := bridge.NewSessionToken(run)
	s.token = token
	s.row.TokenHash = bridge.AddTokenHash(s.row.TokenHash, hash)
	return token, true
}

// dropToken forgets the token.
func (s *agentState) dropToken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = ""
}
