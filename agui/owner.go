package agui

// Everything started belongs to somebody: to a subagent, or to the run itself
// (AG-UI 1.0, "Subagent attribution").

// own records who a thing belongs to. Owners outlive the end of the thing: what
// comes late, such as an encrypted value, must still agree.
func (g *Grammar) own(k kind, id, owner string) {
	if g.owners == nil {
		g.owners = make(map[entity]string)
	}
	g.owners[entity{k, id}] = owner
	// A snapshot can give away what is open; its end must then agree.
	for _, list := range [...][]item{g.open, g.away} {
		for i := range list {
			if ownerKind(list[i].kind) == k && list[i].id == id {
				list[i].owner = owner
			}
		}
	}
}

// checkOwner: an untagged event agrees with any owner, a tagged one only with
// its own. Things of the run itself have an owner too, namely nobody.
func (g *Grammar) checkOwner(ev Event, k kind, id, tag string) error {
	if owner, known := g.owners[entity{k, id}]; known && tag != "" && tag != owner {
		return broken(RuleOwner, ev, id)
	}
	return nil
}

// ownerKind: a span and a message of one id share an owner, though they open
// and close on their own.
func ownerKind(k kind) kind {
	if k == kindSpan {
		return kindThought
	}
	return k
}

func (g *Grammar) checkEncrypted(e *ReasoningEncryptedValue) error {
	if e.Subtype == "tool-call" {
		return g.checkOwner(e, kindTool, e.EntityID, e.SubagentRunID)
	}
	if _, known := g.owners[entity{kindText, e.EntityID}]; known {
		return g.checkOwner(e, kindText, e.EntityID, e.SubagentRunID)
	}
	return g.checkOwner(e, kindThought, e.EntityID, e.SubagentRunID)
}

// ownAll takes the owners of messages that are told rather than streamed.
func (g *Grammar) ownAll(messages []Message) {
	for i := range messages {
		m := &messages[i]
		switch m.Role {
		case RoleReasoning:
			g.own(kindThought, m.ID, m.SubagentRunID)
		case RoleActivity:
			g.own(kindActivity, m.ID, m.SubagentRunID)
		default:
			g.own(kindText, m.ID, m.SubagentRunID)
		}
		for j := range m.ToolCalls {
			g.own(kindTool, m.ToolCalls[j].ID, m.SubagentRunID)
		}
	}
}
