package translate

import (
	"encoding/json"
	"slices"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge/approval"
)

// Config is what a Translator starts from.
type Config struct {
	// Namespace is the Session's id: one id of the agent's means the same in all of it.
	Namespace string
	// Epoch tells this Translator from others of the Session, such as one before a
	// restart, so that the ids made for what came without one differ from theirs.
	Epoch string
	// Known is what the log holds already; session/load repeats it.
	Known Known
	// MarksReplay is set where the proxy marks every replay, so that an unmarked frame is new.
	MarksReplay bool
	// State is what the log's state has under /acp; nil when it has nothing.
	State json.RawMessage
	// SessionID is the agent's session, when it is known already.
	SessionID string
	// Resume is the Snapshot of the Translator that this one takes the place of. With one that
	// cannot be read all ids keep clear of those that were given.
	Resume []byte
}

// Translator turns one Session's frames into events. It dispatches a frame to the part whose job it is; the
// parts hold all that is known. It is not safe for concurrent use: the goroutine that reads the Session's
// frames owns it, from the opening of a prompt until the prompt has ended.
//
// It reads no clock, makes no random id and calls nothing: the same frames give the same events, which is what the
// golden transcripts and the fuzz tests rely on. Ids are derived from the Session's and the agent's (ids.go).
//
// The parts, by file: speech.go messages and thoughts, call.go and arguments.go tool calls, activity.go their
// pictures, permission.go and elicitation.go questions, plan.go plans, state.go what is under /acp, host.go the
// proxy's own reports, replay.go what a loaded session repeats, snapshot*.go what a restart must know.
type Translator struct {
	session string // the agent's own id

	ids       *ids
	replay    *replay
	speech    *speech
	calls     *calls
	questions questions
	plans     plans
	state     *state
	host      host
}

// New makes a Translator.
func New(cfg Config) *Translator {
	i := newIDs(cfg.Namespace, cfg.Epoch)
	r := &replay{known: cfg.Known, marks: cfg.MarksReplay}
	st := newState(i, cfg.State)
	s := &speech{ids: i, replay: r, segments: make(map[string]int)}
	cs := &calls{ids: i, replay: r, speech: s, activities: activities{ids: i}, byID: make(map[string]*call)}
	t := &Translator{
		session: cfg.SessionID, ids: i, replay: r, speech: s, calls: cs, state: st,
		questions: questions{ids: i, speech: s, calls: cs},
		plans:     plans{ids: i, replay: r, speech: s, state: st, shown: make(map[string]string)},
		host:      host{ids: i, state: st},
	}
	if err := t.resume(cfg.Resume); err != nil {
		i.separate()
	}
	return t
}

// SessionID is the agent's own id of the session, for answering it; never for the log.
func (t *Translator) SessionID() string { return t.session }

// Session takes the id a frame names its session by. Only the first counts.
func (t *Translator) Session(id string) {
	if t.session == "" {
		t.session = id
	}
}

// Update appends what one session/update means.
func (t *Translator) Update(dst []Out, update json.RawMessage) []Out {
	return t.ReadUpdate(dst, wire.ReadUpdate(update))
}

// ReadUpdate is Update for one that is decoded already.
//
// Each case is one value of "sessionUpdate". A frame of a known kind but of another form falls through to unknown, so
// that nothing an agent sends is lost: it becomes a CUSTOM event "acp.<kind>".
func (t *Translator) ReadUpdate(dst []Out, u wire.Update) []Out {
	switch u.Variant {
	case wire.AgentMessageChunk, wire.AgentThoughtChunk:
		return t.speech.chunk(dst, u)
	case wire.UserMessageChunk:
		return t.speech.userMessage(dst, u)
	case wire.ToolCallNew, wire.ToolCallUpdate:
		if out, ok := t.calls.update(dst, u); ok {
			return out
		}
	case wire.PlanWhole, wire.PlanUpdate, wire.PlanRemoved:
		if out, ok := t.plans.update(dst, u); ok {
			return out
		}
	case wire.AvailableCommands, wire.CurrentMode, wire.ConfigOptions, wire.SessionInfo, wire.Usage:
		return t.state.sessionUpdate(dst, u)
	case wire.SessionCreated:
		return t.sessionCreated(dst, u)
	case wire.SessionState:
		return t.state.sessionState(dst, u)
	}
	return t.unknown(dst, u)
}

// unknown passes on what has no place of its own: notices, compactions, subagents, and
// whatever ACP invents next.
// For instance {"sessionUpdate":"compaction","tokens":812} becomes CUSTOM {"name":"acp.compaction","value":{…}}, with
// ids of ours in the place of the agent's.
func (t *Translator) unknown(dst []Out, u wire.Update) []Out {
	if t.replay.marked {
		return dst
	}
	dst = t.speech.closeNameless(dst)
	name := u.Variant
	if name == "" {
		name = "update"
	}
	return t.ids.custom(dst, variantEvent(name), u.Raw)
}

// ownEvents are the names that the gateway gives its own CUSTOM events.
var ownEvents = []string{
	ActivityTool, "acp.silent", "acp.gap", "acp.stopped", "acp.permission_declined", "acp.arguments_completed", "acp.arguments_changed",
	"acp.state_too_large", "acp.content", "acp.parts_skipped",
}

// variantEvent is the name of the CUSTOM event of an update. An agent names its updates as it likes: one that is called as an event
// of the gateway's own is the agent's by its name.
func variantEvent(variant string) string {
	name := "acp." + variant
	if slices.Contains(ownEvents, approval.Seen(name)) {
		return approval.AgentPrefix + name
	}
	return name
}

// sessionCreated: the first session counts. The frame around the update names it, which
// [Translator.Session] takes; some updates do so themselves.
func (t *Translator) sessionCreated(dst []Out, u wire.Update) []Out {
	var content struct{ SessionID, Session_id any }
	_ = json.Unmarshal(u.Content.Raw, &content) // without an id there is nothing to set
	for _, id := range [...]any{content.SessionID, content.Session_id} {
		if s, ok := id.(string); ok {
			t.Session(s)
		}
	}
	if _, there := t.state.members["sessionId"]; there || t.session == "" {
		return dst
	}
	return t.state.set(dst, member{"sessionId", marshal(t.ids.id("session", t.session))})
}

// Rebase takes what the log's state has under /acp, when what was translated before may not
// all have got there.
// A commit that failed may have lost a delta of ours, and then a patch on it would not apply.
func (t *Translator) Rebase(state json.RawMessage) { *t.state = *newState(t.ids, state) }

// Permission appends what a permission request means: the call it is about, with its arguments, and the
// Question.
func (t *Translator) Permission(dst []Out, request json.RawMessage) []Out {
	return t.questions.permission(dst, request)
}

// Working reports whether a tool call has no result yet: a silent agent may be waiting for it.
func (t *Translator) Working() bool { return len(t.calls.open) > 0 }

// ArgumentsPending reports whether a call runs whose arguments are not in an event yet.
func (t *Translator) ArgumentsPending() bool { return t.calls.argumentsPending() }

// EmitArguments appends the arguments of the calls that run, as far as they are known: the agent
// has been quiet about them.
func (t *Translator) EmitArguments(dst []Out) []Out { return t.calls.emitArguments(dst) }

// RunEnded is called when the Run has ended, which ends all that was open in it. A Run that asks a question
// ends while the agent may go on; what the agent continues is then something new in the next Run.
// Its calls stay open: their results come under the same ids in a later Run.
func (t *Translator) RunEnded() {
	t.speech.id = ""
	t.calls.runEnded()
}

// Replay is called when a proxy marks what follows as replayed, and when no longer. After that
// all is new, also under an id that an agent's earlier process gave.
func (t *Translator) Replay(on bool) {
	if t.replay.marked && !on {
		t.replay.live()
		t.speech.replayed = true
	}
	t.replay.marked = on
}

// Opened notes that the agent has opened (acp_opened): a failure from now on is of this process.
func (t *Translator) Opened() { t.host.errorContext.opened() }

// Live ends the loading of the session: from now on no frame is a repetition.
func (t *Translator) Live() { t.replay.live() }

// Holding reports that chunks are held back which are in no event yet: a position after them
// must not count as translated.
func (t *Translator) Holding() bool { return len(t.replay.held) > 0 }
