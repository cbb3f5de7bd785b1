package fromacp

import (
	"encoding/json"
	"strconv"

	"github.com/google/uuid"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
)

// Config is what a Translator starts from.
type Config struct {
	// Namespace is the Session's id: one id of the agent's means the same in all of it.
	Namespace string
	// Epoch tells this Translator from others of the Session, such as one before a
	// restart, so that what the agent gave no id gets one nobody else has given.
	Epoch string
	// Known is what the log holds already; session/load repeats it.
	Known Known
	// MarksReplay says that the proxy marks every replay, so that what it does not mark is new.
	MarksReplay bool
	// State is what the log's state has under /acp; nil when it has nothing.
	State json.RawMessage
	// SessionID is the agent's session, when it is known already.
	SessionID string
	// Resume is the Snapshot of the Translator that this one takes the place of. With one that
	// cannot be read all ids keep clear of those that were given.
	Resume []byte
}

// Translator turns one Session's frames into events. It is not safe for concurrent use.
type Translator struct {
	namespace uuid.UUID
	epoch     string
	session   string // the agent's own id
	prompts   int    // how many have ended
	nameless  int    // ids made for what came without

	speech speech
	replay replay
	calls  map[string]*call  // by the agent's id, the newest of that id
	open   []*call           // without a result, in the order they began
	plans  map[string]string // activities shown in this prompt, by the agent's id
	state  state
	steps  []string // of the init script, open
	trail  trail

	given  []byte // the beginnings of ids given in this prompt
	before ids    // those given before a snapshot
}

// New makes a Translator.
func New(cfg Config) *Translator {
	namespace, err := uuid.Parse(cfg.Namespace)
	if err != nil {
		namespace = uuid.NewSHA1(uuid.NameSpaceOID, []byte(cfg.Namespace))
	}
	t := &Translator{
		namespace: namespace, epoch: cfg.Epoch, session: cfg.SessionID, replay: newReplay(cfg.Known, cfg.MarksReplay),
		calls: make(map[string]*call), plans: make(map[string]string), state: newState(cfg.State),
		speech: speech{segments: make(map[string]int)},
	}
	if err := t.resume(cfg.Resume); err != nil {
		t.namespace = uuid.NewSHA1(t.namespace, []byte(cfg.Epoch))
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
	u := acp.ReadUpdate(update)
	switch u.Variant {
	case acp.AgentMessageChunk, acp.AgentThoughtChunk:
		return t.chunk(dst, u)
	case acp.UserMessageChunk:
		return t.userChunk(dst, u)
	case acp.ToolCallNew, acp.ToolCallUpdate:
		return t.toolCall(dst, u)
	case acp.PlanWhole, acp.PlanUpdate, acp.PlanRemoved:
		return t.plan(dst, u)
	case acp.AvailableCommands, acp.CurrentMode, acp.ConfigOptions, acp.SessionInfo, acp.Usage:
		return t.sessionUpdate(dst, u)
	case acp.SessionCreated:
		return t.sessionCreated(dst, u)
	case acp.SessionState:
		return t.sessionState(dst, u)
	}
	return t.unknown(dst, u)
}

// unknown passes on what has no place of its own: notices, compactions, subagents, and
// whatever ACP invents next.
func (t *Translator) unknown(dst []Out, u acp.Update) []Out {
	if t.replay.marked {
		return dst
	}
	dst = t.closeNameless(dst)
	name := u.Variant
	if name == "" {
		name = "update"
	}
	return t.custom(dst, "acp."+name, u.Raw)
}

// maxName bounds a name that an agent makes up.
const maxName = 128

// custom keeps a raw value, with our ids in it.
func (t *Translator) custom(dst []Out, name string, raw json.RawMessage) []Out {
	return event(dst, &agui.Custom{Name: head(name, maxName), Value: t.scrub(raw)})
}

// id stands for an id of the agent's: the same for the same, in all of the Session.
func (t *Translator) id(kind, upstream string) string {
	return uuid.NewSHA1(t.namespace, []byte(kind+":"+upstream)).String()
}

// fresh is an id for what came without one.
func (t *Translator) fresh(kind string) string {
	t.nameless++
	return t.id(kind, "epoch:"+t.epoch+":"+strconv.Itoa(t.nameless))
}

// ordinal is an upstream id's nth use.
func ordinal(upstream string, n int) string {
	if n == 0 {
		return upstream
	}
	return upstream + "#" + strconv.Itoa(n)
}
