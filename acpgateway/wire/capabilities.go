package wire

import "encoding/json"

// capabilityDepth is how deep in a message an agent's capabilities are looked for.
const capabilityDepth = 4

// FindPromptCapabilities looks in a message for what an agent's prompts may hold. Our proxy passes
// on the answer to initialize; others have it elsewhere, or spell it otherwise, or say nothing.
func FindPromptCapabilities(raw json.RawMessage) (c PromptCapabilities, told bool) {
	return findCapabilities(raw, 0)
}

func findCapabilities(raw json.RawMessage, depth int) (PromptCapabilities, bool) {
	var members map[string]json.RawMessage
	if depth > capabilityDepth || !isObject(raw) || json.Unmarshal(raw, &members) != nil {
		return PromptCapabilities{}, false
	}
	for _, name := range [...]string{"promptCapabilities", "prompt_capabilities"} {
		if isObject(members[name]) {
			return readCapabilities(members[name]), true
		}
	}
	for _, name := range [...]string{"agent", "agentCapabilities", "agent_capabilities", "capabilities", "initialize", "result", "content"} {
		if c, told := findCapabilities(members[name], depth+1); told {
			return c, true
		}
	}
	return PromptCapabilities{}, false
}

// readCapabilities takes true and an object alike.
func readCapabilities(raw json.RawMessage) PromptCapabilities {
	var wire struct {
		Image     Capability `json:"image"`
		Audio     Capability `json:"audio"`
		Embedded  Capability `json:"embeddedContext"`
		Embedded2 Capability `json:"embedded_context"`
	}
	_ = json.Unmarshal(raw, &wire) // an object; a Capability is never of a wrong type
	return PromptCapabilities{Image: wire.Image.Offered(), Audio: wire.Audio.Offered(), EmbeddedContext: wire.Embedded.Offered() || wire.Embedded2.Offered()}
}

// OfferedModes are the ids of the modes that a session's view offers, nil when it names none.
func (v SessionView) OfferedModes() []string {
	var modes struct {
		Available laxList[struct {
			ID lax[string] `json:"id"`
		}] `json:"availableModes"`
	}
	_ = json.Unmarshal(v.Modes, &modes) // absent, or of another form: none
	var ids []string
	for _, m := range modes.Available.Val {
		if m.ID.Val != "" {
			ids = append(ids, m.ID.Val)
		}
	}
	if o, ok := v.Settings.Named("mode"); ok {
		ids = append(ids, o.Values...)
	}
	return ids
}
