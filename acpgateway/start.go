package acpgateway

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"aqueduct/acpgateway/translate"
	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge"
)

// Bounds that proxies keep (contract facts §3.3), in seconds.
const (
	keepaliveLeast, keepaliveUsual, keepaliveMost = 60, 1800, 86400
	initLeast, initUsual, initMost                = 1, 300, 3600
)

func (cfg AgentConfig) keepalive() int {
	if cfg.Keepalive == 0 {
		return keepaliveUsual
	}
	return min(max(int(cfg.Keepalive/time.Second), keepaliveLeast), keepaliveMost)
}

func (cfg AgentConfig) initTimeout() time.Duration {
	if cfg.InitTimeout == 0 {
		return initUsual * time.Second
	}
	return min(max(cfg.InitTimeout, initLeast*time.Second), initMost*time.Second)
}

// idle is how long an agent may rest: as long as its settings keep it alive.
func (cfg AgentConfig) idle(usual time.Duration) time.Duration {
	if cfg.Keepalive > 0 {
		return time.Duration(cfg.keepalive()) * time.Second
	}
	return usual
}

// readyTranslator gives the channel a translator for a Turn. An id of a fresh one must not be in the log already. An
// agent that starts with an old session may send again what the log has.
//
// There are three cases. A Turn on an agent that runs goes on with the channel's translator and its knowledge of the
// session (Rebase). A fresh agent gets a fresh one, which expects that the agent loads its session and repeats what
// the log has, unless it begins a new session (Live). A Turn that is taken up after a restart gets one from the
// snapshot in the log's newest mark, so that calls and messages that were open go on under their ids.
func readyTranslator(c *channel, call bridge.Call, fresh bool) {
	state := member(call.State, "acp")
	if c.tr != nil && !fresh {
		c.tr.Rebase(state)
		return
	}
	_, session, _ := c.agent.known()
	cfg := translate.Config{
		Namespace: c.id, Epoch: call.TurnID + "." + newID(), State: state, Known: knownOf(call.Messages, call.Prompt), MarksReplay: c.p.offered().MarksReplay, SessionID: session,
	}
	if !fresh { // a Turn from before a restart continues what is open where the log ends
		cfg.Resume = parseMarkOf(c, call.Cursor).resumes(call.TurnID)
	}
	c.tr = translate.New(cfg)
	if !fresh && len(cfg.Resume) == 0 || cfg.SessionID == "" {
		c.tr.Live()
	}
}

// openFrame asks for the agent. Asking twice does no harm.
func openFrame(c *channel, call bridge.Call) *wire.Open {
	cfg := c.config()
	return &wire.Open{
		RunID: c.id, Cwd: cfg.Cwd, InstanceName: c.agent.name(), KeepaliveTTLSeconds: cfg.keepalive(), Init: initOf(c, call, cfg),
	}
}

// initOf is what readies a workspace. It goes with every prompt: an agent that has ended is
// started again with it.
// The environment is sent with each start and kept nowhere: it holds the operator's secrets.
func initOf(c *channel, call bridge.Call, cfg AgentConfig) *wire.Init {
	env := maps.Clone(cfg.Env)
	if env == nil {
		env = make(map[string]string)
	}
	env["TUIXIU_RUN_ID"], env["TUIXIU_INSTANCE_NAME"], env["TUIXIU_AGENT_ID"] = c.id, c.agent.name(), call.AgentID
	addToken(c, cfg, env)
	i := &wire.Init{Script: cfg.InitScript, TimeoutSeconds: int(cfg.initTimeout() / time.Second), Env: env, AgentInputs: cfg.AgentInputs, MCPServers: ownMCPServers(env)}
	if i.AgentInputs == nil {
		i.AgentInputs = emptyInputs()
	}
	return i
}

// blocksOf are the user's words as ACP's content blocks. Parts that the agent does not take are left out, which notices
// show in the chat.
func blocksOf(prompt []agui.Message, caps wire.PromptCapabilities) (blocks []json.RawMessage, notices []translate.Out) {
	for _, m := range prompt {
		some, skipped := translate.Blocks(m, caps)
		if len(skipped) > 0 {
			notices = append(notices, translate.Out{Event: translate.Notice(skipped)})
		}
		for _, b := range some {
			blocks = append(blocks, mustJSON(b))
		}
	}
	return blocks, notices
}

// contextOf is what an agent's new session is sent first: the system's text, the client's,
// and the conversation so far, its end if it is long. It is sent until a session has it.
func contextOf(call bridge.Call, cfg AgentConfig) string {
	var parts []string
	if cfg.SystemContext != "" {
		parts = append(parts, cfg.SystemContext)
	}
	for _, item := range call.Context {
		parts = append(parts, item.Description+": "+item.Value)
	}
	if said := conversation(call.Messages, call.Prompt); said != "" {
		parts = append(parts, "The conversation so far:\n"+said)
	}
	return strings.Join(parts, "\n\n")
}

// conversation is the text of the messages before a prompt.
// From the newest message backwards, because the end matters most; the oldest that does not fit is cut.
func conversation(messages, prompt []agui.Message) string {
	messages = slices.DeleteFunc(slices.Clone(messages), func(m agui.Message) bool {
		return slices.ContainsFunc(prompt, func(p agui.Message) bool { return p.ID == m.ID })
	})
	var lines []string
	size := 0
	for i := len(messages) - 1; i >= 0 && size < contextBytes; i-- {
		m := messages[i]
		text := m.Content.String()
		if m.Role != agui.RoleUser && m.Role != agui.RoleAssistant || text == "" {
			continue
		}
		line := m.Role + ": " + text
		if size += len(line); size > contextBytes {
			line = strings.ToValidUTF8(line[:max(0, len(line)-(size-contextBytes))], "") + "…"
		}
		lines = append(lines, line)
	}
	var b strings.Builder
	for i := len(lines) - 1; i >= 0; i-- {
		b.WriteString(lines[i] + "\n")
	}
	return b.String()
}

// The translator compares with it what a loaded session sends, and leaves out what the chat shows already.
// knownOf is what the log has of a conversation that an agent is about to load.
func knownOf(messages, prompt []agui.Message) translate.Known {
	known := translate.Known{IDs: make(map[string]bool)}
	var said []string
	for _, p := range prompt {
		said = append(said, p.Content.String())
	}
	known.Prompt = strings.Join(said, "")
	for _, m := range messages {
		text := m.Content.String()
		if m.Role == agui.RoleUser {
			if !slices.ContainsFunc(prompt, func(p agui.Message) bool { return p.ID == m.ID }) {
				known.Users = append(known.Users, text)
			}
			continue
		}
		known.IDs[m.ID] = true
		for _, c := range m.ToolCalls {
			known.IDs[c.ID] = true
			known.Calls = append(known.Calls, translate.KnownCall{Name: c.Function.Name, Args: c.Function.Arguments})
		}
		switch {
		case text == "":
		case m.Role == agui.RoleAssistant:
			known.Texts = append(known.Texts, text)
		case m.Role == agui.RoleReasoning:
			known.Thoughts = append(known.Thoughts, text)
		}
	}
	return known
}

// member is one member of a JSON object.
func member(object json.RawMessage, name string) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(object, &m) != nil {
		return nil
	}
	return m[name]
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
