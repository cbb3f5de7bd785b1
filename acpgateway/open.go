package acpgateway

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
	"aqueduct/bridge/fromacp"
)

// Bounds that proxies keep (contract facts §3.3), in seconds.
const (
	keepaliveLeast, keepaliveUsual, keepaliveMost = 60, 1800, 86400
	initLeast, initUsual, initMost                = 1, 300, 3600
)

func (c AgentConfig) keepalive() int {
	if c.Keepalive == 0 {
		return keepaliveUsual
	}
	return min(max(int(c.Keepalive/time.Second), keepaliveLeast), keepaliveMost)
}

func (c AgentConfig) initTimeout() time.Duration {
	if c.InitTimeout == 0 {
		return initUsual * time.Second
	}
	return min(max(c.InitTimeout, initLeast*time.Second), initMost*time.Second)
}

// init is what readies a workspace. It goes with every prompt: an agent that has ended is
// started again with it.
func (r *turn) init(c AgentConfig) *acp.Init {
	env := maps.Clone(c.Env)
	if env == nil {
		env = make(map[string]string)
	}
	env["TUIXIU_RUN_ID"], env["TUIXIU_INSTANCE_NAME"], env["TUIXIU_AGENT_ID"] = r.t.id, r.t.instance(), r.call.AgentID
	r.t.callback(c, env)
	i := &acp.Init{Script: c.InitScript, TimeoutSeconds: int(c.initTimeout() / time.Second), Env: env, AgentInputs: c.AgentInputs}
	if i.AgentInputs == nil {
		i.AgentInputs = emptyInputs()
	}
	return i
}

// prompt sends the user's words. Parts that the agent does not take are left out, which the
// chat is told.
func (r *turn) prompt(out []fromacp.Out) []fromacp.Out {
	r.t.mu.Lock()
	told, session, primed := r.t.caps, r.t.row.ACPSessionID, r.t.primed
	r.t.mu.Unlock()
	caps := r.t.config().PromptCapabilities
	if told != nil {
		caps = *told
	}
	var blocks []json.RawMessage
	for _, m := range r.call.Prompt {
		some, skipped := fromacp.Blocks(m, caps)
		if len(skipped) > 0 {
			out = append(out, fromacp.Out{Event: fromacp.Notice(skipped)})
		}
		for _, b := range some {
			blocks = append(blocks, mustJSON(b))
		}
	}
	if len(blocks) == 0 {
		return r.fail(out, fromacp.Cause{Code: "agent_error", Message: "Nothing of this message is of a kind that the agent takes."}, unwanted)
	}
	cfg, id := r.t.config(), r.following()
	context := ""
	if session == "" || !primed { // an agent that is new may have to begin the session anew
		context = r.context(cfg)
	}
	r.phase, r.lived = prompting, time.Now() // what was cut before did not cut this off
	r.t.sent(id)
	r.sentAt = time.Now()
	r.startClock()
	r.t.p.send(r.t.id, &acp.PromptSend{
		RunID: r.t.id, PromptID: id, Cwd: cfg.Cwd, InstanceName: r.t.instance(), KeepaliveTTLSeconds: cfg.keepalive(),
		SessionID: session, Context: context, Prompt: blocks, Traceparent: r.call.Traceparent, Tracestate: r.call.Tracestate,
		TimeoutMS: r.t.g.cfg.Limits.Prompt.Milliseconds(), Init: r.init(cfg),
	})
	return out
}

// context is what an agent's new session is told first: the system's words, the client's,
// and the conversation so far, its end if it is long. It is sent until a session has it.
func (r *turn) context(c AgentConfig) string {
	var parts []string
	if c.SystemContext != "" {
		parts = append(parts, c.SystemContext)
	}
	for _, item := range r.call.Context {
		parts = append(parts, item.Description+": "+item.Value)
	}
	if said := conversation(r.call.Messages, r.call.Prompt); said != "" {
		parts = append(parts, "The conversation so far:\n"+said)
	}
	return strings.Join(parts, "\n\n")
}

// conversation is what was said before a prompt.
func conversation(messages, prompt []agui.Message) string {
	messages = slices.DeleteFunc(slices.Clone(messages), func(m agui.Message) bool {
		return slices.ContainsFunc(prompt, func(p agui.Message) bool { return p.ID == m.ID })
	})
	var lines []string
	size := 0
	for i := len(messages) - 1; i >= 0 && size < contextBytes; i-- {
		m := messages[i]
		text := m.Content.String()
		if m.Role != "user" && m.Role != "assistant" || text == "" {
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

// knownOf is what the log has of a conversation that an agent is about to load.
func knownOf(messages, prompt []agui.Message) fromacp.Known {
	known := fromacp.Known{IDs: make(map[string]bool)}
	var said []string
	for _, p := range prompt {
		said = append(said, p.Content.String())
	}
	known.Prompt = strings.Join(said, "")
	for _, m := range messages {
		text := m.Content.String()
		if m.Role == "user" {
			if !slices.ContainsFunc(prompt, func(p agui.Message) bool { return p.ID == m.ID }) {
				known.Users = append(known.Users, text)
			}
			continue
		}
		known.IDs[m.ID] = true
		for _, c := range m.ToolCalls {
			known.IDs[c.ID] = true
			known.Calls = append(known.Calls, fromacp.KnownCall{Name: c.Function.Name, Args: c.Function.Arguments})
		}
		switch {
		case text == "":
		case m.Role == "assistant":
			known.Texts = append(known.Texts, text)
		case m.Role == "reasoning":
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
